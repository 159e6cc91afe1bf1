//! Contents of every namespace: the ServiceAccount `default` and the cluster's CA certificate.

use serde_json::{Value, json};

use crate::{
    Actor, Caches, Context, Key, Kind,
    kind::{CONFIG_MAP, NAMESPACE, SERVICE_ACCOUNT},
    object::{is_deleted, name, namespace},
};

const ROOT_CA: &str = "kube-root-ca.crt";

#[derive(Clone, Debug, Default)]
pub struct Namespaces {
    /// The API server's CA certificate in PEM; not published if empty.
    pub ca: String,
}

impl Actor for Namespaces {
    fn name(&self) -> &'static str {
        "kube-controller-manager"
    }

    fn watches(&self) -> &[Kind] {
        &[NAMESPACE, SERVICE_ACCOUNT, CONFIG_MAP]
    }

    fn keys(&self, kind: Kind, object: &Value, _: &Caches) -> Vec<Key> {
        match (kind, name(object)) {
            (NAMESPACE, name) => vec![Key::cluster(name)],
            (SERVICE_ACCOUNT, "default") | (CONFIG_MAP, ROOT_CA) => {
                vec![Key::cluster(namespace(object))]
            }
            _ => Vec::new(),
        }
    }

    fn reconcile(&self, ctx: &mut Context<'_>) {
        let Some(object) = ctx.observed(NAMESPACE) else {
            return;
        };
        if is_deleted(&object) {
            return;
        }
        let within = name(&object);
        if ctx
            .caches
            .find(SERVICE_ACCOUNT, within, "default")
            .is_none()
        {
            ctx.create(
                SERVICE_ACCOUNT,
                json!({"metadata": {"name": "default", "namespace": within}}),
            );
        }
        if !self.ca.is_empty() && ctx.caches.find(CONFIG_MAP, within, ROOT_CA).is_none() {
            ctx.create(
                CONFIG_MAP,
                json!({
                    "metadata": {
                        "name": ROOT_CA,
                        "namespace": within,
                        "annotations": {"kubernetes.io/description":
                            "The certificate authority that pods trust the API server by."},
                    },
                    "data": {"ca.crt": self.ca},
                }),
            );
        }
    }
}
