//! Inventory of a cluster: all objects of all kinds.

use std::collections::{BTreeMap, BTreeSet};

use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, ListParams},
    core::GroupVersionKind,
    discovery::{Discovery, verbs},
};
use serde_json::Value;

use crate::{
    harness::objects::list_if_served,
    scenario::{InstallScenario, as_value},
};

pub(crate) struct ListedObject {
    /// As `Kind namespace/name`.
    pub(crate) name: String,
    pub(crate) resource: ApiResource,
    pub(crate) object: Value,
}

/// Every object of every kind that can be listed, as `Kind namespace/name`, without short-lived ones.
pub(crate) async fn inventory(client: &Client) -> BTreeSet<String> {
    let found = everything(client, "").await;
    found.into_iter().map(|found| found.name).collect()
}

/// Every object with the operator's managed-by label.
pub(crate) async fn managed_objects(scenario: &InstallScenario) -> Vec<ListedObject> {
    everything(
        &scenario.client,
        "app.kubernetes.io/managed-by=virt-operator",
    )
    .await
    .into_iter()
    // Children of workloads inherit the labels of their owner.
    .filter(|found| {
        !matches!(
            found.resource.plural.as_str(),
            "pods" | "replicasets" | "controllerrevisions"
        )
    })
    .collect()
}

/// Every managed object, without the fields that differ between two installations.
pub(crate) async fn snapshot(scenario: &InstallScenario) -> BTreeMap<String, Value> {
    let managed = managed_objects(scenario).await.into_iter();
    let mut snapshot: BTreeMap<_, _> = managed
        .filter(|found| !found.name.contains("install-strategy"))
        .map(|found| (found.name, found.object))
        .collect();
    snapshot.values_mut().for_each(strip_variable_fields);
    snapshot
}

/// Removes the fields that differ between two installations.
fn strip_variable_fields(object: &mut Value) {
    let fields = object.as_object_mut().unwrap();
    fields.remove("status");
    // Certificates.
    fields.remove("data");
    let metadata = fields["metadata"].as_object_mut().unwrap();
    for field in [
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "generation",
        "managedFields",
    ] {
        metadata.remove(field);
    }
    let annotations = metadata.get_mut("annotations");
    if let Some(annotations) = annotations.and_then(Value::as_object_mut) {
        annotations.remove("kubevirt.io/generation");
        annotations.remove("deprecated.daemonset.template.generation");
        annotations.remove("deployment.kubernetes.io/revision");
        annotations.remove(sandbox::faults::ANNOTATION);
    }
    if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
        for field in ["caBundle", "clusterIP", "clusterIPs"] {
            spec.remove(field);
        }
    }
    let webhooks = object.get_mut("webhooks").and_then(Value::as_array_mut);
    for webhook in webhooks.into_iter().flatten() {
        webhook["clientConfig"]["caBundle"].take();
    }
}

/// Discovery without aggregated APIs: those of KubeVirt have no objects, and their discovery fails while
/// the aggregator does not reach them.
pub(crate) async fn discover(client: &Client) -> Discovery {
    let kind = GroupVersionKind::gvk("apiregistration.k8s.io", "v1", "APIService");
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource::from_gvk(&kind));
    let services = api.list(&ListParams::default()).await.unwrap();
    let aggregated: Vec<&str> = services
        .iter()
        .filter(|service| service.data["spec"]["service"].is_object())
        .filter_map(|service| service.data["spec"]["group"].as_str())
        .collect();
    let discovery = Discovery::new(client.clone()).exclude(&aggregated);
    discovery.run().await.unwrap()
}

/// Kinds whose objects other controllers create and delete: endpoints carry the labels of their Service.
pub(crate) fn is_short_lived(kind: &str) -> bool {
    matches!(kind, "Event" | "Lease" | "Endpoints" | "EndpointSlice")
}

async fn everything(client: &Client, labels: &str) -> Vec<ListedObject> {
    let discovery = discover(client).await;
    let mut all = Vec::new();
    for group in discovery.groups() {
        for (resource, capabilities) in group.recommended_resources() {
            let kind = resource.kind.as_str();
            if !capabilities.supports_operation(verbs::LIST) || is_short_lived(kind) {
                continue;
            }
            let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
            let params = ListParams::default().labels(labels);
            for object in list_if_served(&api, &params).await.into_iter().flatten() {
                let namespace = object.metadata.namespace.clone().unwrap_or_default();
                let name = object.metadata.name.clone().unwrap_or_default();
                all.push(ListedObject {
                    name: format!("{kind} {namespace}/{name}"),
                    resource: resource.clone(),
                    object: as_value(object),
                });
            }
        }
    }
    all
}
