//! Connection to an API server, from a kubeconfig or a service account.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use http::{HeaderValue, header::USER_AGENT};
use hyper_timeout::TimeoutConnector;
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use kube::{
    Config,
    client::ConfigExt,
    config::{KubeConfigOptions, Kubeconfig, KubeconfigError},
};
use tower::{BoxError, ServiceBuilder};

use super::{Body, Transport, chain};

const OPERATOR_USER_AGENT: &str = concat!("kubevirt-operator/", env!("CARGO_PKG_VERSION"));
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The API server ends a watch within 300 s at our request, so a connection that is silent for longer
/// is dead.
const READ_TIMEOUT: Duration = Duration::from_secs(300);
const WRITE_TIMEOUT: Duration = Duration::from_secs(15);

/// Why there is no connection to an API server, and the remedy.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The given kubeconfig is invalid.
    #[error("the kubeconfig {} cannot be used: {reason}", .path.display())]
    Kubeconfig { path: PathBuf, reason: String },
    /// No kubeconfig is given, and the default locations have none.
    #[error(
        "no API server is known: {reason}. Name a kubeconfig with --kubeconfig or KUBECONFIG, or \
         run in a Pod that has a service account token"
    )]
    Unknown { reason: String },
    #[error(
        "the kubeconfig names a proxy (proxy-url), which is not supported: remove proxy-url, and \
         make the API server reachable without a proxy"
    )]
    Proxy,
    #[error("the API server's certificates or the credentials for it cannot be used: {reason}")]
    Credentials { reason: String },
}

/// Loads the configuration of the client: from the kubeconfigs at `paths`, of which the first wins;
/// else from those in `KUBECONFIG`; else, in a Pod, from its service account; else from
/// `~/.kube/config`.
///
/// Calls are not retried, and silent connections are closed.
pub async fn connect(paths: &[PathBuf]) -> Result<Config, ConnectError> {
    connect_to(paths, None).await
}

/// As [`connect`], with the context of that name; without one, with the current context.
pub async fn connect_to(paths: &[PathBuf], context: Option<&str>) -> Result<Config, ConnectError> {
    let mut config = load(paths, context).await?;
    harden(&mut config);
    Ok(config)
}

pub(super) fn harden(config: &mut Config) {
    config.default_retry = false;
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    config.read_timeout = Some(READ_TIMEOUT);
    config.write_timeout = Some(WRITE_TIMEOUT);
    // Otherwise the idle time of a pooled connection counts against the next response.
    config.reset_reader_on_write = true;
    let agent = HeaderValue::from_static(OPERATOR_USER_AGENT);
    config.headers.push((USER_AGENT, agent));
}

async fn load(paths: &[PathBuf], context: Option<&str>) -> Result<Config, ConnectError> {
    let options = KubeConfigOptions {
        context: context.map(str::to_owned),
        ..KubeConfigOptions::default()
    };
    if let [first, rest @ ..] = paths {
        let unusable = |path: &Path, error: &KubeconfigError| ConnectError::Kubeconfig {
            path: path.to_owned(),
            reason: reason(error),
        };
        let read =
            |path: &PathBuf| Kubeconfig::read_from(path).map_err(|error| unusable(path, &error));
        let mut kubeconfig = read(first)?;
        for path in rest {
            kubeconfig = kubeconfig
                .merge(read(path)?)
                .map_err(|error| unusable(path, &error))?;
        }
        return Config::from_custom_kubeconfig(kubeconfig, &options)
            .await
            .map_err(|error| unusable(first, &error));
    }
    if let Some(paths) = std::env::var_os("KUBECONFIG").filter(|paths| !paths.is_empty()) {
        let unusable = |error| ConnectError::Kubeconfig {
            path: paths.into(),
            reason: reason(&error),
        };
        return Config::from_kubeconfig(&options).await.map_err(unusable);
    }
    // A Pod's service account has no contexts.
    if context.is_none() && std::env::var_os("KUBERNETES_SERVICE_HOST").is_some() {
        return Config::incluster().map_err(|error| ConnectError::Unknown {
            reason: chain(&error),
        });
    }
    Config::from_kubeconfig(&options)
        .await
        .map_err(|error| ConnectError::Unknown {
            reason: reason(&error),
        })
}

/// A parser's error may quote lines of the file, and with them a token.
pub(super) fn reason(error: &KubeconfigError) -> String {
    match error {
        KubeconfigError::Parse(error) => match error.location() {
            Some(at) => format!("line {}, column {} is invalid", at.line(), at.column()),
            None => "it is not YAML".to_owned(),
        },
        KubeconfigError::ReadConfig(error, path) => {
            format!("{} cannot be read: {error}", path.display())
        }
        other => other.to_string(),
    }
}

/// Transport to the API server of `config`, with its own connection pool.
///
/// kube's own client is not used: it retries calls and logs those that fail.
pub fn transport(config: &Config) -> Result<Transport, ConnectError> {
    if config.proxy_url.is_some() {
        return Err(ConnectError::Proxy);
    }
    let unusable = |error: kube::Error| ConnectError::Credentials {
        reason: chain(&error),
    };
    let mut http = HttpConnector::new();
    http.enforce_http(false);
    let https = config
        .rustls_https_connector_with_connector(http)
        .map_err(unusable)?;
    let mut connector = TimeoutConnector::new(https);
    connector.set_connect_timeout(config.connect_timeout);
    connector.set_read_timeout(config.read_timeout);
    connector.set_write_timeout(config.write_timeout);
    connector.set_reset_reader_on_write(config.reset_reader_on_write);
    let client: Client<_, Body> = Client::builder(TokioExecutor::new()).build(connector);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer().map_err(unusable)?)
        .layer(config.extra_headers_layer().map_err(unusable)?)
        .map_err(BoxError::from)
        .service(client);
    Ok(Transport::new(service, config.default_namespace.clone()))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    async fn refusal_of(content: &str) -> String {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(content.as_bytes()).unwrap();
        let error = connect(&[file.path().to_owned()])
            .await
            .err()
            .unwrap()
            .to_string();
        let path = file.path().display().to_string();
        assert!(error.contains(&path), "{error}");
        error.replace(&path, "PATH")
    }

    #[tokio::test]
    async fn a_missing_kubeconfig_is_named() {
        let error = connect(&["/nowhere/kubeconfig".into()]).await;
        let error = error.err().unwrap().to_string();
        assert!(
            error.starts_with(
                "the kubeconfig /nowhere/kubeconfig cannot be used: /nowhere/kubeconfig cannot be read: "
            ),
            "{error}"
        );
    }

    #[tokio::test]
    async fn an_invalid_kubeconfig_is_not_quoted() {
        for content in [
            "users:\n- name: me\n  user: {token: hunter2\n",
            "users:\n- name: me\n  user: hunter2\n",
            "hunter2",
        ] {
            let error = refusal_of(content).await;
            assert!(!error.contains("hunter2"), "{error}");
            assert!(
                error.starts_with("the kubeconfig PATH cannot be used: "),
                "{error}"
            );
        }
    }

    #[tokio::test]
    async fn a_context_is_chosen_by_name() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let content = "{current-context: c, contexts: [{name: c, context: {cluster: k, namespace: n}}, \
                       {name: d, context: {cluster: k, namespace: m}}], \
                       clusters: [{name: k, cluster: {server: 'http://127.0.0.1:1'}}]}";
        file.write_all(content.as_bytes()).unwrap();
        let path = [file.path().to_owned()];
        let config = connect_to(&path, Some("d")).await.unwrap();
        assert_eq!(config.default_namespace, "m");
        let error = connect_to(&path, Some("e"))
            .await
            .err()
            .unwrap()
            .to_string();
        assert!(error.contains('e'), "{error}");
    }

    #[tokio::test]
    async fn a_kubeconfig_gets_timeouts_and_no_retries() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let content = "{current-context: c, contexts: [{name: c, context: {cluster: k, namespace: n}}], \
                       clusters: [{name: k, cluster: {server: 'http://127.0.0.1:1'}}]}";
        file.write_all(content.as_bytes()).unwrap();
        let mut config = connect(&[file.path().to_owned()]).await.unwrap();
        assert!(!config.default_retry);
        assert_eq!(config.read_timeout, Some(READ_TIMEOUT));
        assert_eq!(transport(&config).unwrap().namespace(), "n");
        config.proxy_url = Some("http://127.0.0.1:2".parse().unwrap());
        assert!(matches!(transport(&config), Err(ConnectError::Proxy)));
    }
}
