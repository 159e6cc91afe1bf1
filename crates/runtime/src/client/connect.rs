//! The way to a real API server.

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

const USER_AGENT_OF_OURS: &str = concat!("kubevirt-operator/", env!("CARGO_PKG_VERSION"));
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The API server ends a watch after 290 s at our request, so a connection that has brought
/// nothing for longer leads nowhere.
const READ_TIMEOUT: Duration = Duration::from_secs(300);
const WRITE_TIMEOUT: Duration = Duration::from_secs(15);

/// Why there is no way to an API server. Says what to do.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// A kubeconfig was named and is of no use.
    #[error("the kubeconfig {} cannot be used: {reason}", .path.display())]
    Kubeconfig {
        /// Its path.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// No kubeconfig was named, and the usual places have none that is of use.
    #[error(
        "no API server is known: {reason}. Name a kubeconfig with --kubeconfig or KUBECONFIG, or \
         run in a Pod that has a service account token"
    )]
    Unknown {
        /// Why the last place that was tried has none.
        reason: String,
    },
    /// The configuration asks for a proxy.
    #[error(
        "the kubeconfig names a proxy (proxy-url), which is not supported: remove it, and make the \
         API server reachable without"
    )]
    Proxy,
    /// Certificates, keys or credentials are of no use.
    #[error("the API server's certificates or the credentials for it cannot be used: {reason}")]
    Credentials {
        /// What is wrong with them.
        reason: String,
    },
}

/// Where the API server is and who we are there: from the kubeconfigs at `paths`, of which the first
/// wins; else from those that `KUBECONFIG` names; else, in a Pod, from its service account; else
/// from `~/.kube/config`.
///
/// Calls are not repeated, and connections that bring nothing are given up.
pub async fn connect(paths: &[PathBuf]) -> Result<Config, ConnectError> {
    let mut config = load(paths).await?;
    harden(&mut config);
    Ok(config)
}

pub(super) fn harden(config: &mut Config) {
    config.default_retry = false;
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    config.read_timeout = Some(READ_TIMEOUT);
    config.write_timeout = Some(WRITE_TIMEOUT);
    // Without it the rest of a pooled connection counts against the next answer.
    config.reset_reader_on_write = true;
    let agent = HeaderValue::from_static(USER_AGENT_OF_OURS);
    config.headers.push((USER_AGENT, agent));
}

async fn load(paths: &[PathBuf]) -> Result<Config, ConnectError> {
    let options = KubeConfigOptions::default();
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
    if std::env::var_os("KUBERNETES_SERVICE_HOST").is_some() {
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

/// A parser's error may quote the lines round it, and with them a token.
fn reason(error: &KubeconfigError) -> String {
    match error {
        KubeconfigError::Parse(error) => match error.location() {
            Some(at) => format!(
                "line {}, column {} is not as it should be",
                at.line(),
                at.column()
            ),
            None => "it is not YAML".to_owned(),
        },
        KubeconfigError::ReadConfig(error, path) => {
            format!("{} cannot be read: {error}", path.display())
        }
        other => other.to_string(),
    }
}

/// The way to the API server of `config`, with connections of its own.
///
/// What kube's own client would add is left out: it repeats calls, and logs those that fail.
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
    async fn a_kubeconfig_that_is_not_there_is_named() {
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
    async fn a_kubeconfig_that_cannot_be_read_is_not_quoted() {
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
    async fn a_kubeconfig_is_hardened() {
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
