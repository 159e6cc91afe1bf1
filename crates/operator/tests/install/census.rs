//! Everything that is in a cluster.

use std::collections::BTreeSet;

use kube::{
    Api, Client,
    api::{DynamicObject, ListParams},
    discovery::{Discovery, verbs},
};

/// Every object of every kind that can be listed, as `Kind namespace/name`, but for what comes and
/// goes by itself.
pub(crate) async fn census(client: &Client) -> BTreeSet<String> {
    let discovery = Discovery::new(client.clone()).run().await.unwrap();
    let mut found = BTreeSet::new();
    for group in discovery.groups() {
        for (resource, capabilities) in group.recommended_resources() {
            let kind = resource.kind.as_str();
            if !capabilities.supports_operation(verbs::LIST) || matches!(kind, "Event" | "Lease") {
                continue;
            }
            let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
            for object in api.list(&ListParams::default()).await.unwrap() {
                let namespace = object.metadata.namespace.unwrap_or_default();
                let name = object.metadata.name.unwrap_or_default();
                found.insert(format!("{kind} {namespace}/{name}"));
            }
        }
    }
    found
}
