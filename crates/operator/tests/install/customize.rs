//! What the KubeVirt resource changes of the release's objects.

use serde_json::{Value, json};

use crate::ground::{Ground, NAME, condition, tell};

#[test]
fn patches_and_flags_are_laid_over_components_and_go_with_the_resource() {
    tell(async {
        let ground = Ground::with("v1.9.0").await;
        let plain = ground.get("Deployment", "virt-controller").await["spec"].clone();
        let patch = json!({ "metadata": { "annotations": { "example.com/patched": "yes" } } });
        let environment = json!([{
            "op": "add", "path": "/spec/template/spec/containers/0/env/-",
            "value": { "name": "PROXY", "value": "proxy.example" },
        }]);
        ground
            .change(json!({ "customizeComponents": {
                "patches": [
                    { "resourceType": "Deployment", "resourceName": "*", "type": "merge", "patch": patch.to_string() },
                    { "resourceType": "DaemonSet", "resourceName": "virt-handler", "type": "json", "patch": environment.to_string() },
                ],
                "flags": { "controller": { "v": "5" } },
            } }))
            .await;
        ground
            .until("Deployment", "virt-controller", |controller| {
                let command = &controller["spec"]["template"]["spec"]["containers"][0]["command"];
                command
                    .as_array()
                    .is_some_and(|command| command.ends_with(&[json!("--v"), json!("5")]))
            })
            .await;
        let kubevirt = ground.until_deployed("v1.9.0").await;
        assert_eq!(condition(&kubevirt, "Degraded")["status"], "False");
        for name in ["virt-api", "virt-exportproxy"] {
            let deployment = ground.get("Deployment", name).await;
            let annotations = &deployment["metadata"]["annotations"];
            assert_eq!(annotations["example.com/patched"], "yes", "{name}");
        }
        let handler = ground.get("DaemonSet", "virt-handler").await;
        let handed = &handler["spec"]["template"]["spec"]["containers"][0]["env"];
        assert!(handed.to_string().contains("proxy.example"), "{handed}");

        ground.change(json!({ "customizeComponents": null })).await;
        ground
            .until("Deployment", "virt-controller", |controller| {
                controller["spec"] == plain
            })
            .await;
        let api = ground.get("Deployment", "virt-api").await;
        assert_eq!(
            api["metadata"]["annotations"].get("example.com/patched"),
            None
        );
        ground.until_deployed("v1.9.0").await;
    });
}

#[test]
fn placement_replicas_and_labels_reach_every_pod() {
    tell(async {
        let ground = Ground::with("v1.9.0").await;
        for node in ground.list("Node").await {
            let name = node["metadata"]["name"].as_str().unwrap();
            let labels = json!({ "zone": "one" });
            ground
                .patch("Node", name, json!({ "metadata": { "labels": labels } }))
                .await;
        }
        let toleration = json!({ "key": "dedicated", "operator": "Exists" });
        let placement = json!({ "nodeSelector": { "zone": "one" }, "tolerations": [toleration] });
        ground
            .change(json!({
                "infra": { "replicas": 3, "nodePlacement": placement },
                "workloads": { "nodePlacement": { "nodeSelector": { "zone": "one" } } },
                "productName": "Cloud", "productVersion": "2", "productComponent": "vm",
                "imagePullSecrets": [{ "name": "pull" }],
                "imagePullPolicy": "Always",
            }))
            .await;
        ground.until_deployed("v1.9.0").await;
        for name in ["virt-api", "virt-controller", "virt-exportproxy"] {
            let deployment = ground.get("Deployment", name).await;
            assert_eq!(deployment["spec"]["replicas"], 3, "{name}");
            assert_eq!(deployment["status"]["readyReplicas"], 3, "{name}");
            let budget = ground
                .get("PodDisruptionBudget", &format!("{name}-pdb"))
                .await;
            assert_eq!(budget["spec"]["minAvailable"], 2, "{name}");
            let pod = &deployment["spec"]["template"]["spec"];
            let tolerations = pod["tolerations"].as_array().unwrap();
            assert!(tolerations.contains(&toleration), "{name}");
        }
        ground.wait(60).await;
        for pod in ground.list("Pod").await {
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
        // One replica needs no budget: nobody could drain its node.
        ground.change(json!({ "infra": { "replicas": 1 } })).await;
        ground
            .until_gone("PodDisruptionBudget", "virt-api-pdb")
            .await;
        ground.until_deployed("v1.9.0").await;
    });
}

#[test]
fn virt_api_has_a_replica_for_every_ten_nodes() {
    tell(async {
        let ground = Ground::begin_with(|setup| setup.nodes = 31).await;
        ground.install("v1.9.0").await;
        ground.until_deployed("v1.9.0").await;
        let api = ground.get("Deployment", "virt-api").await;
        assert_eq!(api["spec"]["replicas"], 3);
        let controller = ground.get("Deployment", "virt-controller").await;
        assert_eq!(controller["spec"]["replicas"], 2);
    });
}

#[test]
fn gates_and_switches_bring_objects_and_take_them_away_again() {
    tell(async {
        let ground = Ground::with("v1.9.0").await;
        let (deployment, webhook) = (
            "virt-synchronization-controller",
            "virt-launcher-pod-mutator",
        );
        assert_eq!(ground.find("Deployment", deployment).await, None);
        assert_eq!(
            ground.find("MutatingWebhookConfiguration", webhook).await,
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
        ground.change(with(gates)).await;
        ground
            .until("MutatingWebhookConfiguration", webhook, |_| true)
            .await;
        ground
            .until("Deployment", deployment, |found| {
                found["status"]["readyReplicas"] == 2
            })
            .await;
        ground
            .until_gone("VirtualMachineClusterInstancetype", "u1.small")
            .await;
        ground.until_deployed("v1.9.0").await;
        let command = async || {
            let handler = ground.get("DaemonSet", "virt-handler").await;
            handler["spec"]["template"]["spec"]["containers"][0]["command"].to_string()
        };
        assert!(command().await.contains(r#""--max-devices","10""#));

        ground.change(with(Value::Null)).await;
        ground.until_gone("Deployment", deployment).await;
        ground
            .until_gone("MutatingWebhookConfiguration", webhook)
            .await;
        ground
            .until("VirtualMachineClusterInstancetype", "u1.small", |_| true)
            .await;
        ground.until_deployed("v1.9.0").await;
        assert!(!command().await.contains("--max-devices"));
    });
}

#[test]
fn a_patch_that_cannot_be_applied_is_told_and_changes_nothing() {
    tell(async {
        let mut ground = Ground::with("v1.9.0").await;
        let before = crate::census::picture(&ground).await;
        let patch = json!([{ "op": "remove", "path": "/spec/nothing" }]);
        // It was let in when the operator did not look.
        ground.stop_operator().await;
        let hooks = ground
            .get("ValidatingWebhookConfiguration", "virt-operator-validator")
            .await;
        ground
            .delete("ValidatingWebhookConfiguration", "virt-operator-validator")
            .await;
        ground
            .change(json!({ "customizeComponents": { "patches": [
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
        ground.create("ValidatingWebhookConfiguration", hooks).await;
        ground.start_operator();
        let kubevirt = ground
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
        assert_eq!(crate::census::picture(&ground).await, before);
        ground.change(json!({ "customizeComponents": null })).await;
        ground.until_deployed("v1.9.0").await;
    });
}
