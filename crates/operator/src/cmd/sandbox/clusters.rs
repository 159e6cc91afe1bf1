//! Further clusters of the sandbox, for virtual machines of Machines in the first one.

use std::{
    error::Error,
    path::{Path, PathBuf},
};

use k8s_openapi::api::{
    authentication::v1::{TokenRequest, TokenRequestSpec},
    core::v1::ServiceAccount,
};
use kube::{Api, Client, api::PostParams};
use sandbox::{JournalError, Options, Sandbox, Setup};
use serde_json::{Value, json};

use crate::installation::REMOTE_RIGHTS;

/// Namespace and name of the ServiceAccount of config/rbac/remote.
const ACCOUNT: (&str, &str) = ("kubevirt-operator-remote", "kubevirt-operator-remote");

/// Namespace of the Secrets with the kubeconfigs.
const SECRETS: &str = "default";

/// Longer than any sandbox runs, and at most what the API server allows.
const TOKEN_SECONDS: i64 = 10 * 365 * 24 * 3600;

/// A further cluster.
pub(super) struct Further {
    pub(super) name: String,
    sandbox: Sandbox,
}

impl Further {
    /// Starts a cluster, and makes it known in that of the Machines.
    pub(super) async fn start_registered(
        number: usize,
        setup: Setup,
        first: &Options,
        machines: &Client,
    ) -> Result<Self, Box<dyn Error>> {
        let cluster = Self::start(number, setup, first).await?;
        cluster.register(machines).await?;
        Ok(cluster)
    }

    /// Starts a cluster, with the rights that the operator needs there.
    async fn start(number: usize, setup: Setup, first: &Options) -> Result<Self, Box<dyn Error>> {
        let name = format!("cluster-{number}");
        let options = Options {
            listen: (first.listen.ip(), 0).into(),
            kubeconfig: beside(&first.kubeconfig, &name),
            keep: first.keep.as_ref().map(|folder| folder.join(&name)),
        };
        let sandbox = Sandbox::start(setup, &options).await?;
        for object in serde_saphyr::from_multiple::<Value>(REMOTE_RIGHTS)? {
            sandbox::apply(&sandbox.cluster().client(), object).await?;
        }
        Ok(Self { name, sandbox })
    }

    pub(super) fn kubeconfig(&self) -> &Path {
        self.sandbox.kubeconfig()
    }

    /// Creates the KubevirtConfig and the Secret by which the operator finds the cluster.
    async fn register(&self, machines: &Client) -> Result<(), Box<dyn Error>> {
        let (namespace, account) = ACCOUNT;
        let accounts: Api<ServiceAccount> =
            Api::namespaced(self.sandbox.cluster().client(), namespace);
        let request = TokenRequest {
            spec: TokenRequestSpec {
                expiration_seconds: Some(TOKEN_SECONDS),
                ..TokenRequestSpec::default()
            },
            ..TokenRequest::default()
        };
        let granted = accounts
            .create_token_request(account, &PostParams::default(), &request)
            .await?;
        let token = granted.status.map(|status| status.token);
        let kubeconfig = self.sandbox.kubeconfig_of(&token.unwrap_or_default());
        let secret = format!("{}-kubeconfig", self.name);
        let objects = [
            json!({
                "apiVersion": "v1", "kind": "Secret",
                "metadata": { "name": secret, "namespace": SECRETS },
                "stringData": { "kubeconfig": kubeconfig.to_string() },
            }),
            json!({
                "apiVersion": api::API_VERSION, "kind": "KubevirtConfig",
                "metadata": { "name": self.name },
                "spec": {
                    "name": self.name, "secretNamespace": SECRETS, "kubeconfigSecretRef": secret,
                },
            }),
        ];
        for object in objects {
            sandbox::apply(machines, object).await?;
        }
        Ok(())
    }

    pub(super) async fn stop(self) -> Result<(), JournalError> {
        self.sandbox.stop().await
    }
}

/// Path of another kubeconfig: `sandbox-cluster-2.kubeconfig` beside `sandbox.kubeconfig`.
fn beside(kubeconfig: &Path, name: &str) -> PathBuf {
    let stem = kubeconfig.file_stem().unwrap_or_default().to_string_lossy();
    let mut file = format!("{stem}-{name}");
    if let Some(extension) = kubeconfig.extension() {
        file = format!("{file}.{}", extension.to_string_lossy());
    }
    kubeconfig.with_file_name(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kubeconfig_of_a_further_cluster_is_beside_the_first() {
        let beside = |path: &str| beside(Path::new(path), "cluster-2");
        let expected = Path::new("a/sandbox-cluster-2.kubeconfig");
        assert_eq!(beside("a/sandbox.kubeconfig"), expected);
        assert_eq!(beside("config"), Path::new("config-cluster-2"));
    }
}
