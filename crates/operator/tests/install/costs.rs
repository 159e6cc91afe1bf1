//! What an installation asks of the API server, counted.

use std::collections::BTreeMap;

use kube::{
    Api,
    api::{DynamicObject, ListParams},
    discovery::verbs,
};

use crate::{
    census::{discover, is_of_others},
    ground::{Ground, tell},
    stories::objects::list_if_served,
};

/// How many objects of each resource the operator has made of a strategy. Those that others make of
/// them have owners.
pub(crate) async fn managed(ground: &Ground) -> BTreeMap<String, u64> {
    let client = ground.client.clone();
    let discovery = discover(&client).await;
    let labels = ListParams::default().labels("app.kubernetes.io/managed-by=virt-operator");
    let mut found = BTreeMap::new();
    for group in discovery.groups() {
        for (resource, capabilities) in group.recommended_resources() {
            let kind = resource.kind.as_str();
            if capabilities.supports_operation(verbs::LIST) && kind != "Pod" && !is_of_others(kind)
            {
                let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
                let objects = list_if_served(&api, &labels).await.into_iter().flatten();
                let ours = objects.filter(|object| {
                    let labels = object.metadata.labels.as_ref().unwrap();
                    object.metadata.owner_references.is_none()
                        && !labels.contains_key("kubevirt.io/install-strategy")
                });
                found.insert(resource.plural, u64::try_from(ours.count()).unwrap());
            }
        }
    }
    found.retain(|_, objects| *objects > 0);
    found
}

#[test]
fn every_object_is_written_once() {
    tell(async {
        let ground = Ground::begin().await;
        ground.wait(60).await;
        ground.calls.take();
        ground.install("v1.9.0").await;
        ground.until_deployed("v1.9.0").await;
        ground.wait(60).await;
        let mut written = ground.written();
        let objects = managed(&ground).await;
        // The finalizer, and one for each step that is told of.
        assert_eq!(written.remove("patch kubevirts"), Some(1));
        let told = written.remove("patch kubevirts/status").unwrap();
        assert!(told <= 8, "{told} writes to the status");
        assert_eq!(written.remove("patch namespaces"), Some(1));
        // The Job is gone when its work is done.
        assert_eq!(written.remove("create jobs"), Some(1));
        assert_eq!(written.remove("delete jobs"), Some(1));
        // So is what held back new kinds until the new API was up.
        let webhooks = "validatingwebhookconfigurations";
        assert_eq!(written.remove(&format!("delete {webhooks}")), Some(1));
        let mut once: BTreeMap<String, u64> = objects
            .into_iter()
            .map(|(resource, objects)| (format!("patch {resource}"), objects))
            .collect();
        *once.entry(format!("patch {webhooks}")).or_default() += 1;
        assert_eq!(written, once);
    });
}

#[test]
fn an_installation_that_is_as_it_should_be_costs_nothing() {
    tell(async {
        let ground = Ground::begin().await;
        ground.install("v1.9.0").await;
        ground.until_deployed("v1.9.0").await;
        ground.wait(60).await;
        ground.asked();
        ground.wait(3600).await;
        assert_eq!(ground.asked(), [].into());
    });
}

#[test]
fn a_restart_of_the_operator_costs_its_first_reads_and_nothing_else() {
    tell(async {
        let mut ground = Ground::begin().await;
        ground.install("v1.9.0").await;
        ground.until_deployed("v1.9.0").await;
        ground.wait(60).await;
        ground.stop_operator().await;
        ground.calls.take();
        ground.start_operator();
        ground.wait(60).await;
        assert_eq!(ground.written(), [].into());
    });
}
