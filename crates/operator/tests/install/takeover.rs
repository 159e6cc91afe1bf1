//! What KubeVirt's own operator has made is gone on with.

use std::collections::BTreeSet;

use kube::{
    Api,
    api::{DynamicObject, Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::{
    census::{Found, made},
    ground::{Ground, tell},
};

#[test]
fn objects_of_kubevirts_own_operator_are_taken_over_without_touching_a_pod() {
    tell(async {
        let mut ground = Ground::with("v1.8.4").await;
        ground.wait(60).await;
        ground.stop_operator().await;
        for found in made(&ground).await {
            hand_over(&ground, &found).await;
        }
        // What it set and the next release does not have.
        let params = PatchParams {
            field_manager: Some("virt-operator".to_owned()),
            ..PatchParams::default()
        };
        let label = json!({ "metadata": { "labels": { "kubevirt.io/old": "yes" } } });
        let services = ground.api("Service");
        services
            .patch("virt-api", &params, &Patch::Merge(label))
            .await
            .unwrap();
        let before = pods(&ground).await;
        ground.asked();
        ground.start_operator();
        ground.wait(300).await;
        ground.until_deployed("v1.8.4").await;
        assert_eq!(pods(&ground).await, before);
        assert_eq!(ground.written(), [].into());

        ground.change(json!({ "imageTag": "v1.9.0" })).await;
        ground.until_deployed("v1.9.0").await;
        ground.wait(60).await;
        for found in made(&ground).await {
            // A certificate is written when it is replaced.
            if found.resource.kind == "Secret" {
                continue;
            }
            let managers = managers(&found.object);
            assert!(
                !managers.contains("virt-operator Update"),
                "{}: {managers:?}",
                found.name
            );
        }
        let service = ground.get("Service", "virt-api").await;
        assert_eq!(service["metadata"]["labels"].get("kubevirt.io/old"), None);
    });
}

/// Makes an object look as if KubeVirt's own operator had made it.
async fn hand_over(ground: &Ground, found: &Found) {
    let object = &found.object;
    let resource = &found.resource;
    let metadata = &object["metadata"];
    let api: Api<DynamicObject> = match metadata["namespace"].as_str() {
        Some(namespace) => Api::namespaced_with(ground.client.clone(), namespace, resource),
        None => Api::all_with(ground.client.clone(), resource),
    };
    let mut managers = metadata["managedFields"].as_array().unwrap().clone();
    for entry in &mut managers {
        if entry["manager"] == "vitistack-virt-operator" {
            entry["manager"] = "virt-operator".into();
            entry["operation"] = "Update".into();
        }
    }
    let patch = json!([{ "op": "replace", "path": "/metadata/managedFields", "value": managers }]);
    let patch = serde_json::from_value(patch).unwrap();
    let name = metadata["name"].as_str().unwrap();
    api.patch(name, &PatchParams::default(), &Patch::<()>::Json(patch))
        .await
        .unwrap();
}

/// Who has set fields of an object, and how.
fn managers(object: &Value) -> BTreeSet<String> {
    let entries = object["metadata"]["managedFields"].as_array();
    let entries = entries.into_iter().flatten();
    let named = entries.map(|entry| {
        let text = |field: &str| entry[field].as_str().unwrap_or_default().to_owned();
        format!("{} {}", text("manager"), text("operation"))
    });
    named.collect()
}

/// The pods that are there, by uid.
async fn pods(ground: &Ground) -> BTreeSet<String> {
    let pods = ground.list("Pod").await;
    let uids = pods.iter().map(|pod| pod["metadata"]["uid"].to_string());
    uids.collect()
}
