//! What KubeVirt's own operator has made is gone on with.

use std::collections::{BTreeMap, BTreeSet};

use kube::{
    Api,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams},
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
        // Its own text of what a certificate's duration is: no certificate is issued anew for it.
        for secret in certificates(&ground).await {
            let duration = &secret["metadata"]["annotations"]["kubevirt.io/duration"];
            let hours = match secret["metadata"]["name"].as_str() {
                Some("kubevirt-ca" | "kubevirt-export-ca" | "kubevirt-backup-ca") => "168h0m0s",
                _ => "24h0m0s",
            };
            assert_eq!(
                *duration,
                format!("&Duration{{Duration:{hours},}}"),
                "{secret:#}"
            );
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
            // A certificate is written when it is replaced, a strategy by its Job.
            let labels = &found.object["metadata"]["labels"];
            let is_strategy = labels.get("kubevirt.io/install-strategy").is_some();
            if found.resource.kind == "Secret" || is_strategy {
                continue;
            }
            let managers = managers(&found.object);
            assert!(
                managers.contains("vitistack-virt-operator Apply"),
                "{}: {managers:?}",
                found.name
            );
        }
        let service = ground.get("Service", "virt-api").await;
        assert_eq!(service["metadata"]["labels"].get("kubevirt.io/old"), None);
    });
}

#[test]
fn taking_an_object_over_is_one_write_where_nothing_is_dropped() {
    tell(async {
        let mut ground = Ground::with("v1.9.0").await;
        ground.wait(60).await;
        ground.stop_operator().await;
        let accounts: Vec<Found> = made(&ground)
            .await
            .into_iter()
            .filter(|found| found.resource.kind == "ServiceAccount")
            .collect();
        assert!(accounts.len() > 3);
        let params = PatchParams {
            field_manager: Some("virt-operator".to_owned()),
            ..PatchParams::default()
        };
        let label = json!({ "metadata": { "labels": { "app.kubernetes.io/component": "old" } } });
        for found in &accounts {
            hand_over(&ground, found).await;
            let api = ground.api("ServiceAccount");
            let name = found.object["metadata"]["name"].as_str().unwrap();
            let patch = Patch::Merge(label.clone());
            api.patch(name, &params, &patch).await.unwrap();
        }
        ground.asked();
        ground.start_operator();
        ground.wait(60).await;
        let count = u64::try_from(accounts.len()).unwrap();
        assert_eq!(
            ground.written(),
            [("patch serviceaccounts".to_owned(), count)].into()
        );
    });
}

#[test]
fn defaults_in_an_entry_of_kubevirts_own_operator_cost_no_second_write() {
    tell(async {
        let mut ground = Ground::with("v1.9.0").await;
        ground.wait(60).await;
        ground.stop_operator().await;
        let kinds = [
            ("Deployment", "deployments"),
            ("Service", "services"),
            (
                "MutatingWebhookConfiguration",
                "mutatingwebhookconfigurations",
            ),
        ];
        let mut expected = BTreeMap::new();
        for found in made(&ground).await {
            let kind = found.resource.kind.as_str();
            let Some((_, plural)) = kinds.iter().find(|(listed, _)| *listed == kind) else {
                continue;
            };
            create_as_upstream(&ground, &found).await;
            *expected.entry(format!("patch {plural}")).or_insert(0) += 1;
        }
        assert_eq!(expected.len(), kinds.len());
        ground.asked();
        ground.start_operator();
        for (kind, _) in kinds {
            for object in ground.list(kind).await {
                let name = object["metadata"]["name"].as_str().unwrap();
                if object["metadata"]["labels"][COMPONENT] == "old" {
                    ground
                        .until(kind, name, |found| {
                            found["metadata"]["labels"][COMPONENT] != "old"
                        })
                        .await;
                }
            }
        }
        ground.until_deployed("v1.9.0").await;
        ground.wait(60).await;
        let mut written = ground.written();
        written.retain(|what, _| expected.contains_key(what));
        assert_eq!(written, expected);
    });
}

const COMPONENT: &str = "app.kubernetes.io/component";

/// Creates an object anew as KubeVirt's own operator does, so that its entry owns what the API server sets
/// by default. One label is to be changed.
async fn create_as_upstream(ground: &Ground, found: &Found) {
    let mut object = found.object.clone();
    let metadata = object["metadata"].as_object_mut().unwrap();
    for field in [
        "uid",
        "resourceVersion",
        "managedFields",
        "creationTimestamp",
        "generation",
    ] {
        metadata.remove(field);
    }
    // Upstream does not send what a server or a controller allocates.
    if let Some(annotations) = object["metadata"]["annotations"].as_object_mut() {
        annotations.remove("deployment.kubernetes.io/revision");
    }
    for field in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        if let Some(spec) = object["spec"].as_object_mut() {
            spec.remove(field);
        }
    }
    object["metadata"]["labels"][COMPONENT] = "old".into();
    object.as_object_mut().unwrap().remove("status");
    let kind = found.resource.kind.as_str();
    let name = object["metadata"]["name"].as_str().unwrap().to_owned();
    let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
    let api = ground.api_in(kind, namespace);
    let uid = found.object["metadata"]["uid"].as_str();
    api.delete(&name, &DeleteParams::background())
        .await
        .unwrap();
    while let Some(left) = api.get_opt(&name).await.unwrap()
        && left.metadata.uid.as_deref() == uid
    {
        ground.wait(1).await;
    }
    let params = PostParams {
        field_manager: Some("virt-operator".to_owned()),
        ..PostParams::default()
    };
    let object = serde_json::from_value(object).unwrap();
    api.create(&params, &object).await.unwrap();
}

/// The Secrets with certificates.
async fn certificates(ground: &Ground) -> Vec<Value> {
    let secrets = ground.list("Secret").await.into_iter();
    let is_certificate = |secret: &Value| {
        let annotations = &secret["metadata"]["annotations"];
        annotations.get("kubevirt.io/duration").is_some()
    };
    let found: Vec<Value> = secrets.filter(is_certificate).collect();
    assert!(found.len() > 10);
    found
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
