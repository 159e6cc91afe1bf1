//! Take-over of an installation of upstream's virt-operator.

use std::collections::{BTreeMap, BTreeSet};

use kube::{
    Api,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use crate::{
    inventory::{ListedObject, managed_objects},
    scenario::{InstallScenario, run_scenario},
};

#[test]
fn a_take_over_from_virt_operator_changes_no_pod() {
    run_scenario(async {
        let mut scenario = InstallScenario::with_version("v1.8.4").await;
        scenario.wait(60).await;
        scenario.stop_operator().await;
        for found in managed_objects(&scenario).await {
            hand_over(&scenario, &found).await;
        }
        // Upstream writes the duration of a certificate in another format, which must not cause a
        // rotation.
        for secret in certificates(&scenario).await {
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
        // A field that upstream set and the next release does not have.
        let params = PatchParams {
            field_manager: Some("virt-operator".to_owned()),
            ..PatchParams::default()
        };
        let label = json!({ "metadata": { "labels": { "kubevirt.io/old": "yes" } } });
        let services = scenario.api("Service");
        services
            .patch("virt-api", &params, &Patch::Merge(label))
            .await
            .unwrap();
        let before = pods(&scenario).await;
        scenario.take_requests();
        scenario.start_operator();
        scenario.wait(300).await;
        scenario.until_deployed("v1.8.4").await;
        assert_eq!(pods(&scenario).await, before);
        assert_eq!(scenario.take_writes(), [].into());

        scenario.patch_spec(json!({ "imageTag": "v1.9.0" })).await;
        scenario.until_deployed("v1.9.0").await;
        scenario.wait(60).await;
        for found in managed_objects(&scenario).await {
            // Certificates are written at rotation, strategies by their Job.
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
        let service = scenario.get("Service", "virt-api").await;
        assert_eq!(service["metadata"]["labels"].get("kubevirt.io/old"), None);
    });
}

#[test]
fn taking_over_an_object_costs_one_write_unless_fields_are_dropped() {
    run_scenario(async {
        let mut scenario = InstallScenario::with_version("v1.9.0").await;
        scenario.wait(60).await;
        scenario.stop_operator().await;
        let accounts: Vec<ListedObject> = managed_objects(&scenario)
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
            hand_over(&scenario, found).await;
            let api = scenario.api("ServiceAccount");
            let name = found.object["metadata"]["name"].as_str().unwrap();
            let patch = Patch::Merge(label.clone());
            api.patch(name, &params, &patch).await.unwrap();
        }
        scenario.take_requests();
        scenario.start_operator();
        scenario.wait(60).await;
        let count = u64::try_from(accounts.len()).unwrap();
        assert_eq!(
            scenario.take_writes(),
            [("patch serviceaccounts".to_owned(), count)].into()
        );
    });
}

#[test]
fn defaults_in_managed_fields_of_virt_operator_cost_no_second_write() {
    run_scenario(async {
        let mut scenario = InstallScenario::with_version("v1.9.0").await;
        scenario.wait(60).await;
        scenario.stop_operator().await;
        let kinds = [
            ("Deployment", "deployments"),
            ("Service", "services"),
            (
                "MutatingWebhookConfiguration",
                "mutatingwebhookconfigurations",
            ),
        ];
        let mut expected = BTreeMap::new();
        for found in managed_objects(&scenario).await {
            let kind = found.resource.kind.as_str();
            let Some((_, plural)) = kinds.iter().find(|(listed, _)| *listed == kind) else {
                continue;
            };
            create_as_upstream(&scenario, &found).await;
            *expected.entry(format!("patch {plural}")).or_insert(0) += 1;
        }
        assert_eq!(expected.len(), kinds.len());
        scenario.take_requests();
        scenario.start_operator();
        for (kind, _) in kinds {
            for object in scenario.list(kind).await {
                let name = object["metadata"]["name"].as_str().unwrap();
                if object["metadata"]["labels"][COMPONENT] == "old" {
                    scenario
                        .until(kind, name, |found| {
                            found["metadata"]["labels"][COMPONENT] != "old"
                        })
                        .await;
                }
            }
        }
        scenario.until_deployed("v1.9.0").await;
        scenario.wait(60).await;
        let mut written = scenario.take_writes();
        written.retain(|what, _| expected.contains_key(what));
        assert_eq!(written, expected);
    });
}

const COMPONENT: &str = "app.kubernetes.io/component";

/// Recreates an object as upstream's virt-operator does, so that its managed fields include the API
/// server's defaults. One label differs from the desired state.
async fn create_as_upstream(scenario: &InstallScenario, found: &ListedObject) {
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
    // Upstream does not send fields that a server or controller allocates.
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
    let api = scenario.api_in(kind, namespace);
    let uid = found.object["metadata"]["uid"].as_str();
    api.delete(&name, &DeleteParams::background())
        .await
        .unwrap();
    while let Some(left) = api.get_opt(&name).await.unwrap()
        && left.metadata.uid.as_deref() == uid
    {
        scenario.wait(1).await;
    }
    let params = PostParams {
        field_manager: Some("virt-operator".to_owned()),
        ..PostParams::default()
    };
    let object = serde_json::from_value(object).unwrap();
    api.create(&params, &object).await.unwrap();
}

/// Secrets of certificates.
async fn certificates(scenario: &InstallScenario) -> Vec<Value> {
    let secrets = scenario.list("Secret").await.into_iter();
    let is_certificate = |secret: &Value| {
        let annotations = &secret["metadata"]["annotations"];
        annotations.get("kubevirt.io/duration").is_some()
    };
    let found: Vec<Value> = secrets.filter(is_certificate).collect();
    assert!(found.len() > 10);
    found
}

/// Rewrites the managed fields of an object as if upstream's virt-operator had created it.
async fn hand_over(scenario: &InstallScenario, found: &ListedObject) {
    let object = &found.object;
    let resource = &found.resource;
    let metadata = &object["metadata"];
    let api: Api<DynamicObject> = match metadata["namespace"].as_str() {
        Some(namespace) => Api::namespaced_with(scenario.client.clone(), namespace, resource),
        None => Api::all_with(scenario.client.clone(), resource),
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

/// Field managers of an object with their operations.
fn managers(object: &Value) -> BTreeSet<String> {
    let entries = object["metadata"]["managedFields"].as_array();
    let entries = entries.into_iter().flatten();
    let named = entries.map(|entry| {
        let text = |field: &str| entry[field].as_str().unwrap_or_default().to_owned();
        format!("{} {}", text("manager"), text("operation"))
    });
    named.collect()
}

/// UIDs of all pods.
async fn pods(scenario: &InstallScenario) -> BTreeSet<String> {
    let pods = scenario.list("Pod").await;
    let uids = pods.iter().map(|pod| pod["metadata"]["uid"].to_string());
    uids.collect()
}
