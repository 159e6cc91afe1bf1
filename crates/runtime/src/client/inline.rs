//! Connection to an API server from the text of a kubeconfig that somebody else wrote, such as a Secret.
//!
//! The text must contain everything: a path would make this process read its own files and send them to
//! another server, and a command would be executed with its rights.

use kube::{
    Config,
    config::{AuthInfo, Cluster, KubeConfigOptions, Kubeconfig},
};

use super::connect::{harden, reason};

/// Why a kubeconfig cannot be used, and the remedy. Quotes nothing of it but names of fields.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct KubeconfigRefused(String);

/// Loads the configuration of a client from the current context of a kubeconfig.
pub async fn connect_inline(text: &[u8]) -> Result<Config, KubeconfigRefused> {
    let refused = |reason: String| KubeconfigRefused(reason);
    let text = std::str::from_utf8(text).map_err(|_| refused("it is not text".to_owned()))?;
    let kubeconfig = Kubeconfig::from_yaml(text).map_err(|error| refused(reason(&error)))?;
    if let Some(field) = external_field(&kubeconfig) {
        return Err(refused(format!(
            "{field} is not supported, since it names a file or a command of another machine: give the data \
             itself (token, certificate-authority-data, client-certificate-data, client-key-data)"
        )));
    }
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
    let mut config = config.map_err(|error| refused(reason(&error)))?;
    if config.proxy_url.is_some() {
        return Err(refused(
            "proxy-url is not supported: remove it, and make the API server reachable without a proxy"
                .to_owned(),
        ));
    }
    harden(&mut config);
    Ok(config)
}

/// A field that refers to something outside of the kubeconfig.
fn external_field(kubeconfig: &Kubeconfig) -> Option<&'static str> {
    let users = kubeconfig.auth_infos.iter();
    let clusters = kubeconfig.clusters.iter();
    let users = users.filter_map(|user| of_user(user.auth_info.as_ref()?));
    let clusters = clusters.filter_map(|cluster| of_cluster(cluster.cluster.as_ref()?));
    users.chain(clusters).next()
}

fn of_user(user: &AuthInfo) -> Option<&'static str> {
    let fields = [
        ("exec", user.exec.is_some()),
        ("auth-provider", user.auth_provider.is_some()),
        ("tokenFile", user.token_file.is_some()),
        ("client-certificate", user.client_certificate.is_some()),
        ("client-key", user.client_key.is_some()),
    ];
    fields
        .into_iter()
        .find_map(|(name, used)| used.then_some(name))
}

fn of_cluster(cluster: &Cluster) -> Option<&'static str> {
    let has_file = cluster.certificate_authority.is_some();
    has_file.then_some("certificate-authority")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn kubeconfig(cluster: &str, user: &str) -> String {
        format!(
            "{{current-context: c, contexts: [{{name: c, context: {{cluster: k, user: u}}}}], \
             clusters: [{{name: k, cluster: {{server: 'https://east.example:6443'{cluster}}}}}], \
             users: [{{name: u, user: {{{user}}}}}]}}"
        )
    }

    #[rstest]
    #[case::command(
        "",
        "exec: {command: steal, apiVersion: client.authentication.k8s.io/v1}",
        "exec"
    )]
    #[case::token_file("", "tokenFile: /var/run/secrets/token", "tokenFile")]
    #[case::certificate("", "client-certificate: /etc/passwd", "client-certificate")]
    #[case::key("", "client-key: /etc/passwd", "client-key")]
    #[case::authority(
        ", certificate-authority: /etc/passwd",
        "token: t",
        "certificate-authority"
    )]
    #[case::proxy(", proxy-url: 'http://127.0.0.1:1'", "token: t", "proxy-url")]
    #[tokio::test]
    async fn nothing_outside_of_the_kubeconfig_is_used(
        #[case] cluster: &str,
        #[case] user: &str,
        #[case] field: &str,
    ) {
        let refused = connect_inline(kubeconfig(cluster, user).as_bytes()).await;
        let refused = refused.err().unwrap().to_string();
        assert!(refused.starts_with(field), "{refused}");
        assert!(
            !refused.contains("/etc") && !refused.contains("/var"),
            "{refused}"
        );
    }

    #[tokio::test]
    async fn a_kubeconfig_with_a_token_is_used() {
        let config = connect_inline(kubeconfig("", "token: t").as_bytes()).await;
        let config = config.unwrap();
        assert_eq!(config.cluster_url.host(), Some("east.example"));
        assert!(!config.default_retry);
    }

    #[rstest]
    #[case(b"hunter2".as_slice())]
    #[case(b"users: [{name: u, user: {token: hunter2")]
    #[case(b"\xff\xfehunter2")]
    #[case(b"{}")]
    #[tokio::test]
    async fn a_broken_kubeconfig_is_not_quoted(#[case] text: &[u8]) {
        let refused = connect_inline(text).await.err().unwrap().to_string();
        assert!(!refused.contains("hunter2"), "{refused}");
    }
}
