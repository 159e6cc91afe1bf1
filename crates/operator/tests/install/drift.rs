//! What people change of KubeVirt's objects is put back, and what is theirs stays.

use std::collections::BTreeSet;

use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::ground::{Ground, NAMESPACE, tell};

#[test]
fn what_is_deleted_comes_back() {
    tell(async {
        let ground = Ground::with("v1.9.0").await;
        ground.wait(60).await;
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
            let old = ground.get(kind, name).await;
            ground.delete(kind, name).await;
            ground
                .until(kind, name, |new| {
                    new["metadata"]["uid"] != old["metadata"]["uid"]
                })
                .await;
        }
        ground.until_deployed("v1.9.0").await;
        ground
            .until_event(60, |reason, message| {
                reason == "PutBack" && message.contains("Service kubevirt/virt-api")
            })
            .await;
    });
}

#[test]
fn what_is_edited_is_put_back_with_one_write_each() {
    tell(async {
        let ground = Ground::with("v1.9.0").await;
        ground.wait(60).await;
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
        ground.asked();
        let count = cases.len() as u64;
        for (kind, name, patch, path) in cases {
            let before = ground.get(kind, name).await.pointer(path).cloned();
            let edited = ground.patch(kind, name, patch).await.pointer(path).cloned();
            assert_ne!(edited, before, "{kind} {name}");
            ground
                .until(kind, name, |now| now.pointer(path).cloned() == before)
                .await;
        }
        ground.until_deployed("v1.9.0").await;
        ground.wait(60).await;
        let mut written = ground.written();
        written.remove("patch kubevirts/status");
        assert_eq!(written.values().sum::<u64>(), count, "{written:#?}");
    });
}

#[test]
fn what_cannot_be_changed_is_made_anew() {
    tell(async {
        let ground = Ground::with("v1.9.0").await;
        ground.wait(60).await;
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
            let wanted = ground.get(kind, name).await;
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
            ground.delete(kind, name).await;
            // Somebody is faster than the operator, or makes it anew after it did.
            let path = if kind == "Service" {
                "/spec/clusterIP"
            } else {
                "/roleRef/name"
            };
            if ground.try_create(kind, other.clone()).await.is_err() {
                ground.delete(kind, name).await;
                ground.create(kind, other).await;
            }
            let was = wanted.pointer(path).cloned();
            ground
                .until(kind, name, |now| now.pointer(path).cloned() == was)
                .await;
        }
        ground.until_deployed("v1.9.0").await;
    });
}

#[test]
fn labels_annotations_and_fields_of_others_stay_also_over_an_update() {
    tell(async {
        let ground = Ground::with("v1.8.4").await;
        let mark = json!({ "example.com/theirs": "yes" });
        let patch = json!({ "metadata": { "labels": mark, "annotations": mark } });
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
            ground.patch(kind, name, patch.clone()).await;
        }
        let pods = pods(&ground).await;
        ground.wait(60).await;
        assert_eq!(self::pods(&ground).await, pods);
        ground.asked();
        ground.wait(600).await;
        assert_eq!(ground.written(), [].into());
        ground.change(json!({ "imageTag": "v1.9.0" })).await;
        ground.until_deployed("v1.9.0").await;
        for (kind, name) in all {
            let object = ground.get(kind, name).await;
            for part in ["labels", "annotations"] {
                let theirs = &object["metadata"][part]["example.com/theirs"];
                assert_eq!(theirs, "yes", "{part} of {kind} {name}");
            }
        }
    });
}

#[test]
fn an_object_that_was_there_before_is_taken_over_and_what_is_nobodys_business_is_left() {
    tell(async {
        let ground = Ground::begin().await;
        let labels = json!({ "example.com/theirs": "yes" });
        ground
            .create(
                "ServiceAccount",
                json!({ "metadata": { "name": "kubevirt-controller", "labels": labels } }),
            )
            .await;
        let theirs = json!({ "metadata": { "name": "theirs" }, "data": { "a": "b" } });
        ground.create("ConfigMap", theirs).await;
        ground.install("v1.9.0").await;
        ground.until_deployed("v1.9.0").await;
        let account = ground.get("ServiceAccount", "kubevirt-controller").await;
        let labels = &account["metadata"]["labels"];
        assert_eq!(labels["app.kubernetes.io/managed-by"], "virt-operator");
        assert_eq!(labels["example.com/theirs"], "yes");
        ground.get("ConfigMap", "theirs").await;
    });
}

#[test]
fn what_is_marked_as_the_operators_and_belongs_to_no_version_goes() {
    tell(async {
        let ground = Ground::with("v1.9.0").await;
        let labels = json!({ "app.kubernetes.io/managed-by": "virt-operator" });
        let stray = json!({ "metadata": { "name": "stray", "labels": labels } });
        ground.create("ServiceAccount", stray).await;
        ground.until_gone("ServiceAccount", "stray").await;
    });
}

#[test]
fn a_label_that_makes_it_ours_comes_back() {
    tell(async {
        let ground = Ground::with("v1.9.0").await;
        let label = "app.kubernetes.io/managed-by";
        let unlabelled = json!({ "metadata": { "labels": { label: null } } });
        ground.patch("Service", "virt-api", unlabelled).await;
        ground
            .until("Service", "virt-api", |service| {
                service["metadata"]["labels"][label] == "virt-operator"
            })
            .await;
    });
}

#[test]
fn a_field_that_somebody_applies_by_force_does_not_start_a_war() {
    tell(async {
        let ground = Ground::with("v1.9.0").await;
        ground.wait(60).await;
        ground.asked();
        let params = PatchParams::apply("somebody").force();
        let replicas = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": { "name": "virt-controller", "namespace": NAMESPACE },
            "spec": { "replicas": 5 },
        });
        let api = ground.api("Deployment");
        api.patch("virt-controller", &params, &Patch::Apply(replicas))
            .await
            .unwrap();
        ground
            .until("Deployment", "virt-controller", |found| {
                found["spec"]["replicas"] == 2
            })
            .await;
        ground.wait(600).await;
        assert_eq!(ground.written()["patch deployments"], 1);
    });
}

/// The pods that are there, by uid.
async fn pods(ground: &Ground) -> BTreeSet<String> {
    let pods = ground.list("Pod").await;
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
