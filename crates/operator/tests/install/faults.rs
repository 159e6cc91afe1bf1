//! What the operator meets with, and what it says of it.

use std::sync::Arc;

use http::Method;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api,
    api::{ApiResource, DynamicObject},
    core::GroupVersionKind,
};
use kubevirt_operator::kubevirt::Given;
use plan::kubevirt::{Object, Strategy, strategy::decode};
use serde_json::{Value, json};

use crate::{
    ground::{Ground, NAME, NAMESPACE, REGISTRY, condition, tell},
    line::Fault,
};

#[test]
fn a_write_that_is_refused_is_told_and_tried_again() {
    tell(async {
        let ground = Ground::begin().await;
        ground.line.fail(|method, path| {
            let is_it = *method == Method::PATCH && path.ends_with("/deployments/virt-api");
            is_it.then_some(Fault::Status(403))
        });
        ground.install("v1.9.0").await;
        let degraded = ground.until_condition("Degraded", "True").await;
        let message = degraded["message"].as_str().unwrap();
        assert!(
            message.contains("Deployment kubevirt/virt-api"),
            "{message}"
        );
        assert!(message.contains("told to fail"), "{message}");
        ground.line.mend();
        ground.until_deployed("v1.9.0").await;
        let kubevirt = ground.kubevirt().await;
        assert_eq!(condition(&kubevirt, "Degraded")["status"], "False");
    });
}

#[test]
fn an_api_server_that_is_away_for_a_while_stops_nothing_for_good() {
    tell(async {
        let ground = Ground::begin().await;
        ground.install("v1.9.0").await;
        ground.line.until_writes(20).await;
        ground.line.fail(|_, _| Some(Fault::Refused));
        ground.line.cut();
        ground.wait(120).await;
        ground.line.mend();
        ground.until_deployed("v1.9.0").await;
        let events = ground.events().await;
        assert!(!events.is_empty());
    });
}

/// As virt-api's do, two webhooks of one server are for a kind each.
#[test]
fn a_webhook_that_fails_is_tried_with_one_object_for_all_of_the_stage() {
    tell(async {
        let mut ground = Ground::with("v1.9.0").await;
        let webhook = |resource: &str| {
            json!({
                "name": format!("{resource}.example.com"),
                "clientConfig": { "url": format!("https://127.0.0.1:9/{resource}") },
                "rules": [{
                    "apiGroups": ["instancetype.kubevirt.io"], "apiVersions": ["*"],
                    "operations": ["CREATE", "UPDATE"], "resources": [resource],
                }],
                "admissionReviewVersions": ["v1"], "sideEffects": "None",
                "failurePolicy": "Fail", "timeoutSeconds": 1,
            })
        };
        let webhooks = [
            webhook("virtualmachineclusterinstancetypes"),
            webhook("virtualmachineclusterpreferences"),
        ];
        let configuration = json!({ "metadata": { "name": "broken" }, "webhooks": webhooks });
        let kind = "ValidatingWebhookConfiguration";
        ground.create(kind, configuration).await;
        let object = |kind: &str, number: usize, spec: Value| {
            json!({
                "apiVersion": "instancetype.kubevirt.io/v1beta1", "kind": kind,
                "metadata": { "name": format!("added-{number}") }, "spec": spec,
            })
        };
        let added: Vec<Value> = (0..60)
            .flat_map(|number| {
                let size = json!({ "cpu": { "guest": 1 }, "memory": { "guest": "1Gi" } });
                [
                    object("VirtualMachineClusterInstancetype", number, size),
                    object("VirtualMachineClusterPreference", number, json!({})),
                ]
            })
            .collect();
        ground.asked();
        add_to_strategy(&mut ground, &added).await;
        let message = |kubevirt: &Value| {
            let progressing = condition(kubevirt, "Progressing");
            progressing["message"]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        };
        ground
            .until("KubeVirt", NAME, |kubevirt| {
                message(kubevirt).contains(".example.com")
            })
            .await;
        ground.wait(120).await;
        let written = ground.written();
        let tries: u64 = written
            .iter()
            .filter(|(what, _)| what.starts_with("patch virtualmachinecluster"))
            .map(|(_, count)| count)
            .sum();
        // The first round has ten under way at a time, of which the other kind may be tried once more;
        // then one object is tried for all, seven times in two minutes.
        assert!((2..=18).contains(&tries), "{tries} tries: {written:#?}");
        let statuses = written["patch kubevirts/status"];
        assert!(statuses <= 5, "{statuses} writes to the status");
        ground.delete(kind, "broken").await;
        for kind in [
            "VirtualMachineClusterInstancetype",
            "VirtualMachineClusterPreference",
        ] {
            ground.until(kind, "added-59", |_| true).await;
        }
        ground.until_deployed("v1.9.0").await;
    });
}

#[test]
fn the_pod_that_a_step_waits_for_is_named_within_a_minute() {
    tell(async {
        let ground = Ground::begin().await;
        let nowhere = json!({ "nodePlacement": { "nodeSelector": { "example.com/no": "node" } } });
        ground
            .install_with(json!({
                "imageTag": "v1.9.0", "imageRegistry": REGISTRY, "infra": nowhere,
            }))
            .await;
        // The strategy's Job has the same placement.
        let kubevirt = ground
            .until_within(60, "KubeVirt", NAME, |kubevirt| {
                let message = condition(kubevirt, "Progressing")["message"].as_str();
                let words = ["waiting for ", "(", "pod ", "Unschedulable"];
                message.is_some_and(|message| words.iter().all(|words| message.contains(words)))
            })
            .await;
        assert_ne!(condition(&kubevirt, "Degraded")["reason"], "Stalled");
    });
}

#[test]
fn a_rollout_that_waits_for_a_pod_has_an_event_within_a_minute() {
    tell(async {
        let ground = Ground::begin().await;
        ground.install("v1.9.0").await;
        ground.until("Deployment", "virt-api", |_| true).await;
        ground.fail("Deployment", "virt-api", "NeverReady").await;
        ground
            .until("KubeVirt", NAME, |kubevirt| {
                condition(kubevirt, "Progressing")["reason"] == "RollingOutVirtApi"
            })
            .await;
        ground.asked();
        let kubevirt = ground
            .until_within(60, "KubeVirt", NAME, |kubevirt| {
                let message = condition(kubevirt, "Progressing")["message"].to_string();
                let words = ["Deployment kubevirt/virt-api (", "; pod virt-api-"];
                words.iter().all(|words| message.contains(words))
            })
            .await;
        ground
            .until_event(60, |reason, text| {
                reason == "Waiting" && text.contains("; pod virt-api-")
            })
            .await;
        assert_ne!(condition(&kubevirt, "Degraded")["reason"], "Stalled");
        let statuses = ground.written().remove("patch kubevirts/status");
        assert!(statuses.unwrap_or_default() <= 3, "{statuses:?}");
    });
}

/// Has the operator take its strategy from a file, which has an object of a kind more.
async fn add_to_strategy(ground: &mut Ground, objects: &[Value]) {
    ground.stop_operator().await;
    let config_maps = ground.list("ConfigMap").await;
    let mut strategies = config_maps.into_iter().filter(|config_map| {
        let labels = &config_map["metadata"]["labels"];
        labels["kubevirt.io/install-strategy"].is_string()
    });
    let found: ConfigMap = serde_json::from_value(strategies.next().unwrap()).unwrap();
    let annotations = found.metadata.annotations.unwrap_or_default();
    let text = decode(&found.data.unwrap_or_default(), &annotations).unwrap();
    let mut strategy = Strategy::parse(&text).unwrap();
    let objects = objects.iter().map(|object| Object::new(object).unwrap());
    strategy.objects.extend(objects);
    ground.options.strategies = vec![Given {
        version: "v1.9.0".to_owned(),
        strategy: Arc::new(strategy),
    }];
    ground.start_operator();
}

fn definition_of_widgets() -> Value {
    let schema = json!({ "openAPIV3Schema": {
        "type": "object", "x-kubernetes-preserve-unknown-fields": true,
    } });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "widgets.example.com" },
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": { "kind": "Widget", "plural": "widgets", "singular": "widget" },
            "versions": [{ "name": "v1", "served": true, "storage": true, "schema": schema }],
        },
    })
}

#[test]
fn an_object_whose_kind_comes_later_is_made_then() {
    tell(async {
        let mut ground = Ground::begin().await;
        ground.install("v1.9.0").await;
        ground.until_deployed("v1.9.0").await;
        for (kind, rest) in [
            (
                "ClusterRole",
                json!({ "rules": [
                    { "apiGroups": ["example.com"], "resources": ["widgets"], "verbs": ["*"] },
                ] }),
            ),
            (
                "ClusterRoleBinding",
                json!({
                    "roleRef": {
                        "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
                        "name": "widgets",
                    },
                    "subjects": [{
                        "kind": "ServiceAccount", "name": "kubevirt-operator",
                        "namespace": NAMESPACE,
                    }],
                }),
            ),
        ] {
            let mut object = rest;
            object["metadata"] = json!({ "name": "widgets" });
            ground.create(kind, object).await;
        }
        let widget = json!({
            "apiVersion": "example.com/v1", "kind": "Widget",
            "metadata": { "name": "sprocket", "namespace": NAMESPACE },
        });
        add_to_strategy(&mut ground, std::slice::from_ref(&widget)).await;
        ground.wait(300).await;
        ground.asked();
        ground.delete("Service", "virt-api").await;
        ground.wait(600).await;
        ground.get("Service", "virt-api").await;
        let asked = ground.asked();
        let is_read = |what: &String| what.starts_with("get ") || what.starts_with("list ");
        // Where time is real, discovery still retries.
        if !ground.cluster.is_real() {
            assert!(!asked.keys().any(is_read), "{asked:?}");
        }
        let definition = definition_of_widgets();
        sandbox::apply(&ground.client, definition).await.unwrap();
        ground.wait(60).await;
        let kind = GroupVersionKind::gvk("example.com", "v1", "Widget");
        let widgets: Api<DynamicObject> = Api::namespaced_with(
            ground.client.clone(),
            NAMESPACE,
            &ApiResource::from_gvk(&kind),
        );
        widgets.get("sprocket").await.unwrap();
    });
}

#[test]
fn a_ca_that_has_lost_its_labels_is_taken_in_as_it_is() {
    tell(async {
        let ground = Ground::begin().await;
        ground.install("v1.9.0").await;
        ground.until_deployed("v1.9.0").await;
        let before = ground.get("Secret", "kubevirt-ca").await;
        let label = "app.kubernetes.io/managed-by";
        let unlabelled = json!({ "metadata": { "labels": { label: null } } });
        ground.patch("Secret", "kubevirt-ca", unlabelled).await;
        ground.wait(60).await;
        let after = ground.get("Secret", "kubevirt-ca").await;
        assert_eq!(after["metadata"]["labels"][label], "virt-operator");
        // A comparison that fails must not print keys.
        assert!(after["data"] == before["data"], "there is another CA");
    });
}

#[test]
fn the_definition_of_kubevirt_comes_back_and_its_objects_go_with_it() {
    tell(async {
        let ground = Ground::begin().await;
        ground.install("v1.9.0").await;
        ground.until_deployed("v1.9.0").await;
        let name = "kubevirts.kubevirt.io";
        let before = ground.get("CustomResourceDefinition", name).await;
        ground.delete("CustomResourceDefinition", name).await;
        let after = ground
            .until("CustomResourceDefinition", name, |found| {
                found["metadata"]["uid"] != before["metadata"]["uid"]
            })
            .await;
        assert!(after["metadata"]["deletionTimestamp"].is_null());
        assert!(ground.find("Deployment", "virt-api").await.is_none());
        ground.install("v1.9.0").await;
        ground.until_deployed("v1.9.0").await;
    });
}

fn refuse_reads_of(ground: &Ground, plural: &'static str) {
    ground.line.fail(move |method, path| {
        let is_it = *method == Method::GET && path.ends_with(plural);
        is_it.then_some(Fault::Status(403))
    });
}

#[test]
fn a_kind_that_may_not_be_seen_stops_no_installation_but_its_removal() {
    tell(async {
        let mut ground = Ground::without_operator(|_| {}).await;
        refuse_reads_of(&ground, "/validatingadmissionpolicies");
        ground.start_operator();
        ground.install("v1.9.0").await;
        ground.until_deployed("v1.9.0").await;
        ground.delete("KubeVirt", NAME).await;
        let synchronized = ground.until_condition("Synchronized", "False").await;
        let message = synchronized["message"].as_str().unwrap();
        let told =
            "the operator cannot read objects of kind ValidatingAdmissionPolicy: told to fail";
        assert!(message.contains(told), "{message}");
        ground.line.mend();
        ground.until_gone("KubeVirt", NAME).await;
    });
}

#[test]
fn a_kind_that_must_be_seen_is_named_until_it_is() {
    tell(async {
        let mut ground = Ground::without_operator(|_| {}).await;
        refuse_reads_of(&ground, "/poddisruptionbudgets");
        ground.start_operator();
        ground.install("v1.9.0").await;
        let degraded = ground.until_condition("Degraded", "True").await;
        let message = degraded["message"].as_str().unwrap();
        let told = "the operator cannot read objects of kind PodDisruptionBudget: told to fail";
        assert!(message.contains(told), "{message}");
        ground.line.mend();
        ground.until_deployed("v1.9.0").await;
    });
}
