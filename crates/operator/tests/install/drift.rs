//! Drift of KubeVirt's objects is repaired, and foreign fields stay.

use std::collections::BTreeSet;

use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::scenario::{InstallScenario, NAMESPACE, run_scenario};

#[test]
fn deleted_objects_are_recreated() {
    run_scenario(async {
        let scenario = InstallScenario::with_version("v1.9.0").await;
        scenario.wait(60).await;
        for (kind, name) in [
            ("Deployment", "virt-exportproxy"),
            ("DaemonSet", "virt-handler"),
            ("PodDisruptionBudget", "virt-api-pdb"),
            ("Service", "virt-api"),
            ("ServiceAccount", "kubevirt-controller"),
            ("ClusterRole", "kubevirt-controller"),
            ("ClusterRoleBinding", "kubevirt-controller"),
            ("ValidatingWebhookConfiguration", "virt-api-validator"),
            ("MutatingWebhookConfiguration", "virt-api-mutator"),
            ("APIService", "v1.subresources.kubevirt.io"),
            ("VirtualMachineClusterInstancetype", "u1.small"),
            ("ConfigMap", "kubevirt-ca"),
        ] {
            let old = scenario.get(kind, name).await;
            scenario.delete(kind, name).await;
            scenario
                .until(kind, name, |new| {
                    new["metadata"]["uid"] != old["metadata"]["uid"]
                })
                .await;
        }
        scenario.until_deployed("v1.9.0").await;
        scenario
            .until_event(60, |reason, message| {
                reason == "DriftCorrected" && message.contains("Service kubevirt/virt-api")
            })
            .await;
    });
}

#[test]
fn each_edited_object_is_repaired_with_one_write() {
    run_scenario(async {
        let scenario = InstallScenario::with_version("v1.9.0").await;
        scenario.wait(60).await;
        let other = json!([{ "name": "virt-api", "image": "example.com/other" }]);
        let cases = [
            (
                "Deployment",
                "virt-controller",
                json!({ "spec": { "replicas": 1 } }),
                "/spec/replicas",
            ),
            (
                "Deployment",
                "virt-api",
                json!({ "spec": { "template": { "spec": { "containers": other } } } }),
                "/spec/template/spec/containers/0/image",
            ),
            (
                "DaemonSet",
                "virt-handler",
                json!({ "spec": { "template": { "spec": { "hostPID": false } } } }),
                "/spec/template/spec/hostPID",
            ),
            (
                "CustomResourceDefinition",
                "virtualmachines.kubevirt.io",
                json!({ "spec": { "names": { "shortNames": ["other"] } } }),
                "/spec/names/shortNames",
            ),
            (
                "PodDisruptionBudget",
                "virt-api-pdb",
                json!({ "spec": { "minAvailable": 2 } }),
                "/spec/minAvailable",
            ),
            (
                "Service",
                "virt-api",
                json!({ "spec": { "ports": [{ "port": 443, "targetPort": 8444 }] } }),
                "/spec/ports/0/targetPort",
            ),
            (
                "ClusterRole",
                "kubevirt-controller",
                json!({ "rules": [] }),
                "/rules",
            ),
            (
                "ClusterRoleBinding",
                "kubevirt-controller",
                json!({ "subjects": [{ "kind": "User", "name": "eve", "apiGroup": "rbac.authorization.k8s.io" }] }),
                "/subjects",
            ),
            (
                "ValidatingWebhookConfiguration",
                "virt-api-validator",
                json!({ "webhooks": [] }),
                "/webhooks",
            ),
            (
                "APIService",
                "v1.subresources.kubevirt.io",
                json!({ "spec": { "versionPriority": 1 } }),
                "/spec/versionPriority",
            ),
            (
                "Deployment",
                "virt-exportproxy",
                json!({ "metadata": { "labels": { "app.kubernetes.io/component": "other" } } }),
                "/metadata/labels/app.kubernetes.io~1component",
            ),
        ];
        scenario.take_requests();
        let count = cases.len() as u64;
        for (kind, name, patch, path) in cases {
            let before = scenario.get(kind, name).await.pointer(path).cloned();
            let edited = scenario
                .patch(kind, name, patch)
                .await
                .pointer(path)
                .cloned();
            assert_ne!(edited, before, "{kind} {name}");
            scenario
                .until(kind, name, |now| now.pointer(path).cloned() == before)
                .await;
        }
        scenario.until_deployed("v1.9.0").await;
        scenario.wait(60).await;
        let mut written = scenario.take_writes();
        written.remove("patch kubevirts/status");
        assert_eq!(written.values().sum::<u64>(), count, "{written:#?}");
    });
}

#[test]
fn objects_with_immutable_drift_are_recreated() {
    run_scenario(async {
        let scenario = InstallScenario::with_version("v1.9.0").await;
        scenario.wait(60).await;
        for (kind, name, changed) in [
            (
                "ClusterRoleBinding",
                "kubevirt-controller",
                json!({ "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view" } }),
            ),
            (
                "Service",
                "kubevirt-prometheus-metrics",
                json!({ "spec": { "clusterIP": null } }),
            ),
        ] {
            let wanted = scenario.get(kind, name).await;
            let mut other = wanted.clone();
            let metadata = json!({
                "name": name, "labels": wanted["metadata"]["labels"],
                "annotations": wanted["metadata"]["annotations"],
            });
            other["metadata"] = metadata;
            if let Some(spec) = other.get_mut("spec").and_then(Value::as_object_mut) {
                spec.remove("clusterIPs");
            }
            merge(&mut other, changed);
            scenario.delete(kind, name).await;
            // Another client may recreate the object before or after the operator does.
            let path = if kind == "Service" {
                "/spec/clusterIP"
            } else {
                "/roleRef/name"
            };
            if scenario.try_create(kind, other.clone()).await.is_err() {
                scenario.delete(kind, name).await;
                scenario.create(kind, other).await;
            }
            let was = wanted.pointer(path).cloned();
            scenario
                .until(kind, name, |now| now.pointer(path).cloned() == was)
                .await;
        }
        scenario.until_deployed("v1.9.0").await;
    });
}

#[test]
fn foreign_labels_annotations_and_fields_survive_an_upgrade() {
    run_scenario(async {
        let scenario = InstallScenario::with_version("v1.8.4").await;
        let foreign_entry = json!({ "example.com/theirs": "yes" });
        let patch =
            json!({ "metadata": { "labels": foreign_entry, "annotations": foreign_entry } });
        let all = [
            ("Deployment", "virt-api"),
            ("DaemonSet", "virt-handler"),
            ("Service", "virt-api"),
            ("CustomResourceDefinition", "virtualmachines.kubevirt.io"),
            ("ClusterRole", "kubevirt-controller"),
            ("Secret", "kubevirt-ca"),
            ("ConfigMap", "kubevirt-ca"),
            ("ValidatingWebhookConfiguration", "virt-api-validator"),
        ];
        for (kind, name) in all {
            scenario.patch(kind, name, patch.clone()).await;
        }
        let pods = pods(&scenario).await;
        scenario.wait(60).await;
        assert_eq!(self::pods(&scenario).await, pods);
        scenario.take_requests();
        scenario.wait(600).await;
        assert_eq!(scenario.take_writes(), [].into());
        scenario.patch_spec(json!({ "imageTag": "v1.9.0" })).await;
        scenario.until_deployed("v1.9.0").await;
        for (kind, name) in all {
            let object = scenario.get(kind, name).await;
            for part in ["labels", "annotations"] {
                let foreign = &object["metadata"][part]["example.com/theirs"];
                assert_eq!(foreign, "yes", "{part} of {kind} {name}");
            }
        }
    });
}

#[test]
fn an_existing_object_is_adopted_and_its_foreign_fields_are_kept() {
    run_scenario(async {
        let scenario = InstallScenario::start().await;
        let labels = json!({ "example.com/theirs": "yes" });
        scenario
            .create(
                "ServiceAccount",
                json!({ "metadata": { "name": "kubevirt-controller", "labels": labels } }),
            )
            .await;
        let foreign = json!({ "metadata": { "name": "theirs" }, "data": { "a": "b" } });
        scenario.create("ConfigMap", foreign).await;
        scenario.install("v1.9.0").await;
        scenario.until_deployed("v1.9.0").await;
        let account = scenario.get("ServiceAccount", "kubevirt-controller").await;
        let labels = &account["metadata"]["labels"];
        assert_eq!(labels["app.kubernetes.io/managed-by"], "virt-operator");
        assert_eq!(labels["example.com/theirs"], "yes");
        scenario.get("ConfigMap", "theirs").await;
    });
}

#[test]
fn managed_objects_of_no_version_are_deleted() {
    run_scenario(async {
        let scenario = InstallScenario::with_version("v1.9.0").await;
        let labels = json!({ "app.kubernetes.io/managed-by": "virt-operator" });
        let stray = json!({ "metadata": { "name": "stray", "labels": labels } });
        scenario.create("ServiceAccount", stray).await;
        scenario.until_gone("ServiceAccount", "stray").await;
    });
}

#[test]
fn a_removed_ownership_label_is_restored() {
    run_scenario(async {
        let scenario = InstallScenario::with_version("v1.9.0").await;
        let label = "app.kubernetes.io/managed-by";
        let unlabelled = json!({ "metadata": { "labels": { label: null } } });
        scenario.patch("Service", "virt-api", unlabelled).await;
        scenario
            .until("Service", "virt-api", |service| {
                service["metadata"]["labels"][label] == "virt-operator"
            })
            .await;
    });
}

#[test]
fn a_field_conflict_by_forced_apply_does_not_cause_a_write_loop() {
    run_scenario(async {
        let scenario = InstallScenario::with_version("v1.9.0").await;
        scenario.wait(60).await;
        scenario.take_requests();
        let params = PatchParams::apply("somebody").force();
        let replicas = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": { "name": "virt-controller", "namespace": NAMESPACE },
            "spec": { "replicas": 5 },
        });
        let api = scenario.api("Deployment");
        api.patch("virt-controller", &params, &Patch::Apply(replicas))
            .await
            .unwrap();
        scenario
            .until("Deployment", "virt-controller", |found| {
                found["spec"]["replicas"] == 2
            })
            .await;
        scenario.wait(600).await;
        assert_eq!(scenario.take_writes()["patch deployments"], 1);
    });
}

/// UIDs of all pods.
async fn pods(scenario: &InstallScenario) -> BTreeSet<String> {
    let pods = scenario.list("Pod").await;
    let uids = pods.iter().map(|pod| pod["metadata"]["uid"].to_string());
    uids.collect()
}

fn merge(to: &mut Value, patch: Value) {
    match (to, patch) {
        (Value::Object(to), Value::Object(patch)) => {
            for (name, value) in patch {
                if value.is_null() {
                    to.remove(&name);
                } else {
                    merge(to.entry(name).or_insert(Value::Null), value);
                }
            }
        }
        (to, patch) => *to = patch,
    }
}
