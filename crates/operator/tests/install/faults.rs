//! Faults of API server, webhooks and kinds, and how the operator reports them.

use std::sync::Arc;

use http::Method;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api,
    api::{ApiResource, DynamicObject},
    core::GroupVersionKind,
};
use kubevirt_operator::kubevirt::StrategyFile;
use plan::kubevirt::{Object, Strategy, strategy::decode};
use serde_json::{Value, json};

use crate::{
    fault_injection::Fault,
    harness::skipped::skip_checks,
    scenario::{InstallScenario, NAME, NAMESPACE, REGISTRY, condition, run_scenario},
};

#[test]
fn a_refused_write_is_reported_and_retried() {
    run_scenario(async {
        let scenario = InstallScenario::start().await;
        scenario.faults.inject(|method, path| {
            let is_match = *method == Method::PATCH && path.ends_with("/deployments/virt-api");
            is_match.then_some(Fault::Status(403))
        });
        scenario.install("v1.9.0").await;
        let degraded = scenario.until_condition("Degraded", "True").await;
        let message = degraded["message"].as_str().unwrap();
        assert!(
            message.contains("Deployment kubevirt/virt-api"),
            "{message}"
        );
        assert!(message.contains("injected fault"), "{message}");
        scenario.faults.clear();
        scenario.until_deployed("v1.9.0").await;
        let kubevirt = scenario.kubevirt().await;
        assert_eq!(condition(&kubevirt, "Degraded")["status"], "False");
    });
}

#[test]
fn an_api_server_outage_does_not_stop_the_installation() {
    run_scenario(async {
        let scenario = InstallScenario::start().await;
        scenario.install("v1.9.0").await;
        scenario.faults.until_writes(20).await;
        scenario.faults.inject(|_, _| Some(Fault::Refused));
        scenario.faults.drop_connections();
        scenario.wait(120).await;
        scenario.faults.clear();
        scenario.until_deployed("v1.9.0").await;
        let events = scenario.events().await;
        assert!(!events.is_empty());
    });
}

/// Two webhooks of one server, one per kind, as virt-api has.
#[test]
fn a_failing_webhook_is_retried_with_one_object_of_the_stage() {
    run_scenario(async {
        let mut scenario = InstallScenario::with_version("v1.9.0").await;
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
        scenario.create(kind, configuration).await;
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
        scenario.take_requests();
        add_to_strategy(&mut scenario, &added).await;
        let message = |kubevirt: &Value| {
            let progressing = condition(kubevirt, "Progressing");
            progressing["message"]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        };
        scenario
            .until("KubeVirt", NAME, |kubevirt| {
                message(kubevirt).contains(".example.com")
            })
            .await;
        scenario.wait(120).await;
        let written = scenario.take_writes();
        let tries: u64 = written
            .iter()
            .filter(|(what, _)| what.starts_with("patch virtualmachinecluster"))
            .map(|(_, count)| count)
            .sum();
        // The first round has ten writes in flight, some of which retry for the other kind; then one
        // object is retried for all, seven times in two minutes.
        assert!((2..=18).contains(&tries), "{tries} tries: {written:#?}");
        let statuses = written["patch kubevirts/status"];
        assert!(statuses <= 5, "{statuses} writes to the status");
        scenario.delete(kind, "broken").await;
        for kind in [
            "VirtualMachineClusterInstancetype",
            "VirtualMachineClusterPreference",
        ] {
            scenario.until(kind, "added-59", |_| true).await;
        }
        scenario.until_deployed("v1.9.0").await;
    });
}

#[test]
fn the_pod_that_blocks_a_step_is_named_within_a_minute() {
    run_scenario(async {
        let scenario = InstallScenario::start().await;
        let nowhere = json!({ "nodePlacement": { "nodeSelector": { "example.com/no": "node" } } });
        scenario
            .install_with(json!({
                "imageTag": "v1.9.0", "imageRegistry": REGISTRY, "infra": nowhere,
            }))
            .await;
        // The strategy Job has the same placement.
        let kubevirt = scenario
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
fn a_rollout_blocked_by_a_pod_has_an_event_within_a_minute() {
    run_scenario(async {
        let scenario = InstallScenario::start().await;
        scenario.install("v1.9.0").await;
        scenario.until("Deployment", "virt-api", |_| true).await;
        scenario
            .set_fault("Deployment", "virt-api", "NeverReady")
            .await;
        scenario
            .until("KubeVirt", NAME, |kubevirt| {
                condition(kubevirt, "Progressing")["reason"] == "RollingOutVirtApi"
            })
            .await;
        scenario.take_requests();
        let kubevirt = scenario
            .until_within(60, "KubeVirt", NAME, |kubevirt| {
                let message = condition(kubevirt, "Progressing")["message"].to_string();
                let words = ["Deployment kubevirt/virt-api (", "; pod virt-api-"];
                words.iter().all(|words| message.contains(words))
            })
            .await;
        scenario
            .until_event(60, |reason, text| {
                reason == "Waiting" && text.contains("; pod virt-api-")
            })
            .await;
        assert_ne!(condition(&kubevirt, "Degraded")["reason"], "Stalled");
        let statuses = scenario.take_writes().remove("patch kubevirts/status");
        assert!(statuses.unwrap_or_default() <= 3, "{statuses:?}");
    });
}

/// Restarts the operator with a strategy file that has additional objects.
async fn add_to_strategy(scenario: &mut InstallScenario, objects: &[Value]) {
    scenario.stop_operator().await;
    let config_maps = scenario.list("ConfigMap").await;
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
    scenario.options.strategies = vec![StrategyFile {
        version: "v1.9.0".to_owned(),
        strategy: Arc::new(strategy),
    }];
    scenario.start_operator();
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
fn an_object_is_created_once_its_kind_is_served() {
    run_scenario(async {
        let mut scenario = InstallScenario::start().await;
        scenario.install("v1.9.0").await;
        scenario.until_deployed("v1.9.0").await;
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
            scenario.create(kind, object).await;
        }
        let widget = json!({
            "apiVersion": "example.com/v1", "kind": "Widget",
            "metadata": { "name": "sprocket", "namespace": NAMESPACE },
        });
        add_to_strategy(&mut scenario, std::slice::from_ref(&widget)).await;
        scenario.wait(300).await;
        scenario.take_requests();
        scenario.delete("Service", "virt-api").await;
        scenario.wait(600).await;
        scenario.get("Service", "virt-api").await;
        let requests = scenario.take_requests();
        let is_read = |what: &String| what.starts_with("get ") || what.starts_with("list ");
        if scenario.cluster.is_real() {
            skip_checks("the operator still retries discovery after a few seconds");
        } else {
            assert!(!requests.keys().any(is_read), "{requests:?}");
        }
        let definition = definition_of_widgets();
        sandbox::apply(&scenario.client, definition).await.unwrap();
        scenario.wait(60).await;
        let kind = GroupVersionKind::gvk("example.com", "v1", "Widget");
        let widgets: Api<DynamicObject> = Api::namespaced_with(
            scenario.client.clone(),
            NAMESPACE,
            &ApiResource::from_gvk(&kind),
        );
        widgets.get("sprocket").await.unwrap();
    });
}

#[test]
fn a_ca_without_its_labels_is_adopted_unchanged() {
    run_scenario(async {
        let scenario = InstallScenario::start().await;
        scenario.install("v1.9.0").await;
        scenario.until_deployed("v1.9.0").await;
        let before = scenario.get("Secret", "kubevirt-ca").await;
        let label = "app.kubernetes.io/managed-by";
        let unlabelled = json!({ "metadata": { "labels": { label: null } } });
        scenario.patch("Secret", "kubevirt-ca", unlabelled).await;
        scenario.wait(60).await;
        let after = scenario.get("Secret", "kubevirt-ca").await;
        assert_eq!(after["metadata"]["labels"][label], "virt-operator");
        // assert_eq! would print keys.
        assert!(after["data"] == before["data"], "there is another CA");
    });
}

#[test]
fn a_deleted_kubevirt_definition_is_recreated_without_its_objects() {
    run_scenario(async {
        let scenario = InstallScenario::start().await;
        scenario.install("v1.9.0").await;
        scenario.until_deployed("v1.9.0").await;
        let name = "kubevirts.kubevirt.io";
        let before = scenario.get("CustomResourceDefinition", name).await;
        scenario.delete("CustomResourceDefinition", name).await;
        let after = scenario
            .until("CustomResourceDefinition", name, |found| {
                found["metadata"]["uid"] != before["metadata"]["uid"]
            })
            .await;
        assert!(after["metadata"]["deletionTimestamp"].is_null());
        assert!(scenario.find("Deployment", "virt-api").await.is_none());
        scenario.install("v1.9.0").await;
        scenario.until_deployed("v1.9.0").await;
    });
}

fn refuse_reads_of(scenario: &InstallScenario, plural: &'static str) {
    scenario.faults.inject(move |method, path| {
        let is_match = *method == Method::GET && path.ends_with(plural);
        is_match.then_some(Fault::Status(403))
    });
}

#[test]
fn a_kind_without_list_rights_blocks_only_the_removal() {
    run_scenario(async {
        let mut scenario = InstallScenario::without_operator(|_| {}).await;
        refuse_reads_of(&scenario, "/validatingadmissionpolicies");
        scenario.start_operator();
        scenario.install("v1.9.0").await;
        scenario.until_deployed("v1.9.0").await;
        scenario.delete("KubeVirt", NAME).await;
        let synchronized = scenario.until_condition("Synchronized", "False").await;
        let message = synchronized["message"].as_str().unwrap();
        let expected =
            "the operator cannot read objects of kind ValidatingAdmissionPolicy: injected fault";
        assert!(message.contains(expected), "{message}");
        scenario.faults.clear();
        scenario.until_gone("KubeVirt", NAME).await;
    });
}

#[test]
fn a_required_kind_without_list_rights_is_reported_until_granted() {
    run_scenario(async {
        let mut scenario = InstallScenario::without_operator(|_| {}).await;
        refuse_reads_of(&scenario, "/poddisruptionbudgets");
        scenario.start_operator();
        scenario.install("v1.9.0").await;
        let degraded = scenario.until_condition("Degraded", "True").await;
        let message = degraded["message"].as_str().unwrap();
        let expected =
            "the operator cannot read objects of kind PodDisruptionBudget: injected fault";
        assert!(message.contains(expected), "{message}");
        scenario.faults.clear();
        scenario.until_deployed("v1.9.0").await;
    });
}
