//! Access to another cluster: the kubeconfig in the Secret of its KubevirtConfig.

use std::sync::Arc;

use api::{KubevirtConfig, KubevirtConfigSpec};
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Secret;
use plan::{machine::is_cluster_name, naming};
use runtime::client::{Transport, connect_inline, transport};

/// Key of the kubeconfig in its Secret.
const KEY: &str = "kubeconfig";

/// Opens a transport to the API server of a kubeconfig. The error says why that is impossible, and quotes
/// nothing of the kubeconfig.
pub type Connector =
    Arc<dyn Fn(Vec<u8>) -> BoxFuture<'static, Result<Transport, String>> + Send + Sync>;

/// Connector to real API servers.
pub fn connector() -> Connector {
    Arc::new(|kubeconfig| {
        Box::pin(async move {
            let config = connect_inline(&kubeconfig).await;
            let config = config.map_err(|error| error.to_string())?;
            transport(&config).map_err(|error| error.to_string())
        })
    })
}

/// Namespace and name of the Secret of a KubevirtConfig; or the problem and its remedy.
pub(super) fn secret_of(config: &KubevirtConfig) -> Result<(&str, &str), String> {
    let name = config.metadata.name.as_deref().unwrap_or_default();
    if !is_cluster_name(name) {
        return Err(format!(
            "KubevirtConfig {name:?} has a name of more than 63 characters, which no label can record: create \
             one with a shorter name"
        ));
    }
    let KubevirtConfigSpec {
        name: _,
        secret_namespace,
        kubeconfig_secret_ref,
    } = &config.spec;
    let fields = [
        ("secretNamespace", secret_namespace),
        ("kubeconfigSecretRef", kubeconfig_secret_ref),
    ];
    for (field, value) in fields {
        if !naming::is_dns_name(value) {
            return Err(format!(
                "spec.{field} of KubevirtConfig {name} is not a name: it must say where the Secret with the \
                 kubeconfig is"
            ));
        }
    }
    Ok((secret_namespace, kubeconfig_secret_ref))
}

/// The kubeconfig in a Secret; or the problem and its remedy.
pub(super) fn of_secret(
    config: &str,
    (namespace, name): (&str, &str),
    secret: Option<&Secret>,
) -> Result<Vec<u8>, String> {
    let Some(secret) = secret else {
        return Err(format!(
            "Secret {namespace}/{name} of KubevirtConfig {config} does not exist: create it, with the \
             kubeconfig under the key {KEY}"
        ));
    };
    let content = secret.data.as_ref().and_then(|data| data.get(KEY));
    content.map(|content| content.0.clone()).ok_or_else(|| {
        format!(
            "Secret {namespace}/{name} of KubevirtConfig {config} has no key {KEY}: add it, with a kubeconfig \
             as its value"
        )
    })
}
