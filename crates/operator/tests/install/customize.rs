//! Customization of the release's objects by the KubeVirt resource.

use serde_json::{Value, json};

use crate::scenario::{InstallScenario, NAME, condition, run_scenario};

#[test]
fn patches_and_flags_apply_to_components_and_are_removed_with_the_resource() {
    run_scenario(async {
        let scenario = InstallScenario::with_version("v1.9.0").await;
        let plain = scenario.get("Deployment", "virt-controller").await["spec"].clone();
        let patch = json!({ "metadata": { "annotations": { "example.com/patched": "yes" } } });
        let environment = json!([{
            "op": "add", "path": "/spec/template/spec/containers/0/env/-",
            "value": { "name": "PROXY", "value": "proxy.example" },
        }]);
        scenario
            .patch_spec(json!({ "customizeComponents": {
                "patches": [
                    { "resourceType": "Deployment", "resourceName": "*", "type": "merge", "patch": patch.to_string() },
                    { "resourceType": "DaemonSet", "resourceName": "virt-handler", "type": "json", "patch": environment.to_string() },
                ],
                "flags": { "controller": { "v": "5" } },
            } }))
            .await;
        scenario
            .until("Deployment", "virt-controller", |controller| {
                let command = &controller["spec"]["template"]["spec"]["containers"][0]["command"];
                command
                    .as_array()
                    .is_some_and(|command| command.ends_with(&[json!("--v"), json!("5")]))
            })
            .await;
        let kubevirt = scenario.until_deployed("v1.9.0").await;
        assert_eq!(condition(&kubevirt, "Degraded")["status"], "False");
        for name in ["virt-api", "virt-exportproxy"] {
            let deployment = scenario.get("Deployment", name).await;
            let annotations = &deployment["metadata"]["annotations"];
            assert_eq!(annotations["example.com/patched"], "yes", "{name}");
        }
        let handler = scenario.get("DaemonSet", "virt-handler").await;
        let handed = &handler["spec"]["template"]["spec"]["containers"][0]["env"];
        assert!(handed.to_string().contains("proxy.example"), "{handed}");

        scenario
            .patch_spec(json!({ "customizeComponents": null }))
            .await;
        scenario
            .until("Deployment", "virt-controller", |controller| {
                controller["spec"] == plain
            })
            .await;
        let api = scenario.get("Deployment", "virt-api").await;
        assert_eq!(
            api["metadata"]["annotations"].get("example.com/patched"),
            None
        );
        scenario.until_deployed("v1.9.0").await;
    });
}

#[test]
fn placement_replicas_and_labels_reach_every_pod() {
    run_scenario(async {
        let scenario = InstallScenario::with_version("v1.9.0").await;
        for node in scenario.list("Node").await {
            let name = node["metadata"]["name"].as_str().unwrap();
            let labels = json!({ "zone": "one" });
            scenario
                .patch("Node", name, json!({ "metadata": { "labels": labels } }))
                .await;
        }
        let toleration = json!({ "key": "dedicated", "operator": "Exists" });
        let placement = json!({ "nodeSelector": { "zone": "one" }, "tolerations": [toleration] });
        scenario
            .patch_spec(json!({
                "infra": { "replicas": 3, "nodePlacement": placement },
                "workloads": { "nodePlacement": { "nodeSelector": { "zone": "one" } } },
                "productName": "Cloud", "productVersion": "2", "productComponent": "vm",
                "imagePullSecrets": [{ "name": "pull" }],
                "imagePullPolicy": "Always",
            }))
            .await;
        scenario.until_deployed("v1.9.0").await;
        for name in ["virt-api", "virt-controller", "virt-exportproxy"] {
            let deployment = scenario.get("Deployment", name).await;
            assert_eq!(deployment["spec"]["replicas"], 3, "{name}");
            assert_eq!(deployment["status"]["readyReplicas"], 3, "{name}");
            let budget = scenario
                .get("PodDisruptionBudget", &format!("{name}-pdb"))
                .await;
            assert_eq!(budget["spec"]["minAvailable"], 2, "{name}");
            let pod = &deployment["spec"]["template"]["spec"];
            let tolerations = pod["tolerations"].as_array().unwrap();
            assert!(tolerations.contains(&toleration), "{name}");
        }
        scenario.wait(60).await;
        for pod in scenario.list("Pod").await {
            let name = &pod["metadata"]["name"];
            assert_eq!(pod["spec"]["nodeSelector"]["zone"], "one", "{name}");
            assert_eq!(
                pod["spec"]["imagePullSecrets"],
                json!([{ "name": "pull" }]),
                "{name}"
            );
            let policy = &pod["spec"]["containers"][0]["imagePullPolicy"];
            assert_eq!(policy, "Always", "{name}");
            let labels = &pod["metadata"]["labels"];
            assert_eq!(labels["app.kubernetes.io/part-of"], "Cloud", "{name}");
            assert_eq!(labels["app.kubernetes.io/version"], "2", "{name}");
            assert_eq!(labels["app.kubernetes.io/component"], "vm", "{name}");
        }
        // A budget for a single replica would block every drain.
        scenario
            .patch_spec(json!({ "infra": { "replicas": 1 } }))
            .await;
        scenario
            .until_gone("PodDisruptionBudget", "virt-api-pdb")
            .await;
        scenario.until_deployed("v1.9.0").await;
    });
}

#[test]
fn virt_api_has_a_replica_for_every_ten_nodes() {
    run_scenario(async {
        let scenario = InstallScenario::start_with(|setup| setup.nodes = 31).await;
        scenario.install("v1.9.0").await;
        scenario.until_deployed("v1.9.0").await;
        let api = scenario.get("Deployment", "virt-api").await;
        assert_eq!(api["spec"]["replicas"], 3);
        let controller = scenario.get("Deployment", "virt-controller").await;
        assert_eq!(controller["spec"]["replicas"], 2);
    });
}

#[test]
fn feature_gates_and_switches_add_and_remove_objects() {
    run_scenario(async {
        let scenario = InstallScenario::with_version("v1.9.0").await;
        let (deployment, webhook) = (
            "virt-synchronization-controller",
            "virt-launcher-pod-mutator",
        );
        assert_eq!(scenario.find("Deployment", deployment).await, None);
        assert_eq!(
            scenario.find("MutatingWebhookConfiguration", webhook).await,
            None
        );
        let gates = json!(["DecentralizedLiveMigration", "ContainerPathVolumes"]);
        let with = |gates: Value| {
            json!({ "configuration": {
            "developerConfiguration": { "featureGates": gates },
            "commonInstancetypesDeployment": { "enabled": gates.is_null() },
            "virtualMachineInstancesPerNode": if gates.is_null() { Value::Null } else { json!(10) },
        } })
        };
        scenario.patch_spec(with(gates)).await;
        scenario
            .until("MutatingWebhookConfiguration", webhook, |_| true)
            .await;
        scenario
            .until("Deployment", deployment, |found| {
                found["status"]["readyReplicas"] == 2
            })
            .await;
        scenario
            .until_gone("VirtualMachineClusterInstancetype", "u1.small")
            .await;
        scenario.until_deployed("v1.9.0").await;
        let command = async || {
            let handler = scenario.get("DaemonSet", "virt-handler").await;
            handler["spec"]["template"]["spec"]["containers"][0]["command"].to_string()
        };
        assert!(command().await.contains(r#""--max-devices","10""#));

        scenario.patch_spec(with(Value::Null)).await;
        scenario.until_gone("Deployment", deployment).await;
        scenario
            .until_gone("MutatingWebhookConfiguration", webhook)
            .await;
        scenario
            .until("VirtualMachineClusterInstancetype", "u1.small", |_| true)
            .await;
        scenario.until_deployed("v1.9.0").await;
        assert!(!command().await.contains("--max-devices"));
    });
}

#[test]
fn an_inapplicable_patch_is_reported_and_changes_nothing() {
    run_scenario(async {
        let mut scenario = InstallScenario::with_version("v1.9.0").await;
        let before = crate::inventory::snapshot(&scenario).await;
        let patch = json!([{ "op": "remove", "path": "/spec/nothing" }]);
        // The patch was admitted while the operator was down.
        scenario.stop_operator().await;
        let hooks = scenario
            .get("ValidatingWebhookConfiguration", "virt-operator-validator")
            .await;
        scenario
            .delete("ValidatingWebhookConfiguration", "virt-operator-validator")
            .await;
        scenario
            .patch_spec(json!({ "customizeComponents": { "patches": [
                { "resourceType": "Deployment", "resourceName": "virt-api", "type": "json", "patch": patch.to_string() },
            ] } }))
            .await;
        let hooks = json!({
            "metadata": {
                "name": "virt-operator-validator",
                "labels": hooks["metadata"]["labels"],
                "annotations": hooks["metadata"]["annotations"],
            },
            "webhooks": hooks["webhooks"],
        });
        scenario
            .create("ValidatingWebhookConfiguration", hooks)
            .await;
        scenario.start_operator();
        let kubevirt = scenario
            .until("KubeVirt", NAME, |kubevirt| {
                condition(kubevirt, "Degraded")["reason"] == "DeploymentFailed"
            })
            .await;
        let message = condition(&kubevirt, "Degraded")["message"].to_string();
        for words in [
            "spec.customizeComponents.patches[0]",
            "Deployment kubevirt/virt-api",
        ] {
            assert!(message.contains(words), "{words:?} is not in {message}");
        }
        assert_eq!(crate::inventory::snapshot(&scenario).await, before);
        scenario
            .patch_spec(json!({ "customizeComponents": null }))
            .await;
        scenario.until_deployed("v1.9.0").await;
    });
}
