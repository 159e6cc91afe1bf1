//! Requests to the API server of `KUBECONFIG`, and waits for objects there.

use std::{fmt::Debug, time::Duration};

use futures::{StreamExt as _, TryStreamExt as _};
use kube::{
    Api, Client, ResourceExt as _,
    api::{
        DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams, WatchEvent,
        WatchParams,
    },
    core::{ApiResource, GroupVersionKind},
};
use serde_json::{Value, json};

use crate::null_strings;

/// Timeout of a wait, also on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Timeout for what an idle controller does immediately.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);

pub(crate) struct Cluster {
    client: Client,
    namespace: String,
}

/// Whether a condition of an object is true.
pub(crate) fn condition(object: &Value, of_type: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    conditions
        .into_iter()
        .flatten()
        .any(|condition| condition["type"] == of_type && condition["status"] == "True")
}

impl Cluster {
    pub(crate) async fn connect() -> Self {
        assert!(
            std::env::var_os("KUBECONFIG").is_some(),
            "KUBECONFIG is not set: run e2e/run actors"
        );
        Self {
            client: Client::try_default().await.unwrap(),
            namespace: format!("actors-{}", std::process::id()),
        }
    }

    fn api(&self, api_version: &str, kind: &str) -> Api<DynamicObject> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        let is_cluster_scoped = matches!(
            kind,
            "Node" | "Namespace" | "PersistentVolume" | "CustomResourceDefinition"
        );
        if is_cluster_scoped {
            Api::all_with(self.client.clone(), &resource)
        } else {
            Api::namespaced_with(self.client.clone(), &self.namespace, &resource)
        }
    }

    fn definitions(&self) -> Api<DynamicObject> {
        self.api("apiextensions.k8s.io/v1", "CustomResourceDefinition")
    }

    /// Name of a node that the actors did not create.
    pub(crate) async fn foreign_node(&self) -> Option<String> {
        let nodes = self.api("v1", "Node").list(&ListParams::default()).await;
        nodes
            .unwrap()
            .iter()
            .find(|node| !node.labels().contains_key(sandbox::NODE_LABEL))
            .map(kube::ResourceExt::name_any)
    }

    /// Creates definitions that do not exist, and waits until they are established.
    pub(crate) async fn define(&self, definitions: &[Value]) {
        for definition in definitions {
            let object = serde_json::from_value(definition.clone()).unwrap();
            match self
                .definitions()
                .create(&PostParams::default(), &object)
                .await
            {
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                created => {
                    created.unwrap();
                }
            }
            let name = definition["metadata"]["name"].as_str().unwrap();
            let (api_version, kind) = ("apiextensions.k8s.io/v1", "CustomResourceDefinition");
            self.until(api_version, kind, name, |definition| {
                condition(definition, "Established")
            })
            .await;
        }
    }

    /// Allows null in KubeVirt's objects, for servers that decode an empty string as null.
    pub(crate) async fn allow_null_strings(&self) {
        let name = "virtualmachineinstances.kubevirt.io";
        let (api_version, kind) = ("apiextensions.k8s.io/v1", "CustomResourceDefinition");
        self.until(api_version, kind, name, |definition| {
            condition(definition, "Established")
        })
        .await;
        null_strings::allow_null_strings(&self.client).await;
    }

    /// Whether a garbage collector and a namespace controller run, which are not among the actors.
    pub(crate) async fn has_namespace_controller(&self) -> bool {
        let name = format!("{}-probe", self.namespace);
        let metadata = json!({"name": name});
        self.create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}))
            .await;
        self.delete("v1", "Namespace", &name).await;
        let gone = self.until_gone("v1", "Namespace", &name);
        tokio::time::timeout(IDLE_TIMEOUT, gone).await.is_ok()
    }

    pub(crate) async fn create_namespace(&self) {
        let metadata = json!({"name": self.namespace});
        self.create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}))
            .await;
    }

    pub(crate) async fn delete_namespace(&self) {
        self.delete("v1", "Namespace", &self.namespace).await;
        self.until_gone("v1", "Namespace", &self.namespace).await;
    }

    pub(crate) async fn create(&self, object: Value) {
        let text = |key: &str| object[key].as_str().unwrap().to_owned();
        let api = self.api(&text("apiVersion"), &text("kind"));
        let object = serde_json::from_value(object).unwrap();
        api.create(&PostParams::default(), &object).await.unwrap();
    }

    pub(crate) async fn merge(&self, api_version: &str, kind: &str, name: &str, patch: Value) {
        let api = self.api(api_version, kind);
        let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
        api.patch(name, &params, &patch).await.unwrap();
    }

    /// Deletes an object, if it exists.
    pub(crate) async fn delete(&self, api_version: &str, kind: &str, name: &str) {
        let api = self.api(api_version, kind);
        match api.delete(name, &DeleteParams::background()).await {
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            deleted => {
                deleted.unwrap();
            }
        }
    }

    pub(crate) async fn delete_all(&self, api_version: &str, kind: &str) {
        let api = self.api(api_version, kind);
        for object in api.list(&ListParams::default()).await.unwrap() {
            self.delete(api_version, kind, &object.name_any()).await;
        }
    }

    /// Waits until an object exists and satisfies `matches`.
    pub(crate) async fn until(
        &self,
        api_version: &str,
        kind: &str,
        name: &str,
        matches: impl Fn(&Value) -> bool,
    ) {
        let what = format!("{kind} {name}");
        self.wait(api_version, kind, &what, Some(name), |objects| {
            objects.first().is_some_and(&matches)
        })
        .await;
    }

    pub(crate) async fn until_gone(&self, api_version: &str, kind: &str, name: &str) {
        let what = format!("the end of {kind} {name}");
        self.wait(api_version, kind, &what, Some(name), <[Value]>::is_empty)
            .await;
    }

    pub(crate) async fn until_none(&self, api_version: &str, kind: &str) {
        let what = format!("the end of every {kind}");
        self.wait(api_version, kind, &what, None, <[Value]>::is_empty)
            .await;
    }

    /// Lists after each watch event, until the list satisfies `matches`.
    async fn wait(
        &self,
        api_version: &str,
        kind: &str,
        what: &str,
        name: Option<&str>,
        matches: impl Fn(&[Value]) -> bool,
    ) {
        let api = self.api(api_version, kind);
        let selector = name.map(|name| format!("metadata.name={name}"));
        let mut last = Vec::new();
        let waiting = async {
            loop {
                let listing = ListParams {
                    field_selector: selector.clone(),
                    ..ListParams::default()
                };
                let answer = api.list(&listing).await.unwrap();
                let version = answer.metadata.resource_version.clone().unwrap_or_default();
                let objects = answer
                    .items
                    .iter()
                    .map(|object| serde_json::to_value(object).unwrap());
                last = objects.collect();
                if matches(&last) {
                    return;
                }
                let watching = WatchParams {
                    field_selector: selector.clone(),
                    ..WatchParams::default()
                };
                let events = api.watch(&watching, &version).await.unwrap();
                next_event(events.boxed()).await;
            }
        };
        let waited = tokio::time::timeout(TIMEOUT, waiting).await;
        let shown = serde_json::to_string_pretty(&last).unwrap();
        assert!(
            waited.is_ok(),
            "timed out waiting for {what}; last state: {shown}"
        );
        println!("{what}: ok");
    }
}

/// Waits for a watch event or for the end of the watch.
async fn next_event<E: Debug>(
    mut events: impl futures::Stream<Item = Result<WatchEvent<DynamicObject>, E>> + Unpin,
) {
    while let Some(event) = events.try_next().await.unwrap() {
        if !matches!(event, WatchEvent::Bookmark(_)) {
            return;
        }
    }
}
