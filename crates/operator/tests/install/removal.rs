//! Removal of KubeVirt.

use serde_json::{Value, json};

use crate::{
    inventory::inventory,
    recording::WatchRecording,
    scenario::{InstallScenario, NAME, NAMESPACE, condition, run_scenario},
};

#[test]
fn removal_deletes_all_managed_objects_and_no_foreign_ones() {
    run_scenario(async {
        let scenario = InstallScenario::start().await;
        let foreign = json!({ "metadata": { "name": "theirs" }, "data": { "a": "b" } });
        scenario.create("ConfigMap", foreign).await;
        let labels = json!({ "app.kubernetes.io/managed-by": "somebody" });
        let account = json!({ "metadata": { "name": "theirs", "labels": labels } });
        scenario.create("ServiceAccount", account).await;
        scenario.wait(60).await;
        let before = inventory(&scenario.client).await;
        scenario.install("v1.9.0").await;
        scenario.until_deployed("v1.9.0").await;
        let states = WatchRecording::start(&scenario, "KubeVirt").await;
        scenario.remove().await;
        // Pods take a while to terminate.
        scenario.wait(300).await;
        let after = inventory(&scenario.client).await;
        let left: Vec<_> = after.symmetric_difference(&before).collect();
        assert!(left.is_empty(), "{left:#?}");
        for node in scenario.list("Node").await {
            let labels = node["metadata"]["labels"].as_object().unwrap();
            let mut labels = labels.keys();
            assert!(
                !labels.any(|label| label.starts_with("kubevirt.io/")),
                "{node:#}"
            );
        }
        let phases = states.values(|state| state["status"]["phase"].clone());
        assert_eq!(json!(phases), json!(["Deployed", "Deleting", "Deleted"]));
        // It can be installed again.
        scenario.install("v1.8.4").await;
        scenario.until_deployed("v1.8.4").await;
    });
}

#[test]
fn virtual_machines_are_removed_before_the_components() {
    run_scenario(async {
        let scenario = InstallScenario::with_version("v1.9.0").await;
        run_machine(&scenario, "web").await;
        let machines = WatchRecording::start(&scenario, "VirtualMachineInstance").await;
        let parts = WatchRecording::start(&scenario, "Deployment").await;
        scenario.remove().await;
        let gone = machines
            .first("the end of the machine", |state| state.is_deleted)
            .await;
        let gone = crate::scenario::version(&machines.states()[gone].object);
        let removed = parts
            .first("the end of virt-controller", |state| {
                state.is_deleted && state.object["metadata"]["name"] == "virt-controller"
            })
            .await;
        assert!(gone < crate::scenario::version(&parts.states()[removed].object));
        scenario.wait(300).await;
        let pods = scenario.api_in("Pod", NAMESPACE);
        let left = pods.list(&kube::api::ListParams::default()).await.unwrap();
        assert_eq!(left.items.len(), 0);
    });
}

#[test]
fn a_resource_deleted_during_its_rollout_leaves_nothing() {
    run_scenario(async {
        let scenario = InstallScenario::start().await;
        scenario.wait(60).await;
        let before = inventory(&scenario.client).await;
        for reason in [
            "WaitingForStrategy",
            "RollingOutVirtApi",
            "RollingOutVirtHandler",
        ] {
            scenario.install("v1.9.0").await;
            scenario
                .until("KubeVirt", NAME, |kubevirt| {
                    condition(kubevirt, "Progressing")["reason"] == reason
                })
                .await;
            scenario.remove().await;
            scenario.wait(300).await;
            let after = inventory(&scenario.client).await;
            let left: Vec<_> = after.symmetric_difference(&before).collect();
            assert!(left.is_empty(), "{reason}: {left:#?}");
        }
    });
}

#[test]
fn an_unreachable_virt_api_does_not_block_the_removal() {
    run_scenario(async {
        let scenario = InstallScenario::with_version("v1.9.0").await;
        run_machine(&scenario, "web").await;
        scenario
            .set_fault("Deployment", "virt-api", "NeverReady")
            .await;
        // Its pods are recreated and fail.
        for pod in scenario.list("Pod").await {
            if pod["metadata"]["labels"]["kubevirt.io"] == "virt-api" {
                let name = pod["metadata"]["name"].as_str().unwrap();
                scenario.delete("Pod", name).await;
            }
        }
        scenario
            .until("Deployment", "virt-api", |api| {
                api["status"]["readyReplicas"].is_null()
            })
            .await;
        scenario.remove().await;
    });
}

#[test]
fn objects_that_block_the_removal_are_named_with_their_finalizer() {
    run_scenario(async {
        let mut scenario = InstallScenario::with_version("v1.9.0").await;
        let spec = json!({ "runStrategy": "Halted", "template": machine_template() });
        let metadata = json!({
            "name": "blocked", "namespace": "default", "finalizers": ["example.com/backup"],
        });
        let vm = json!({ "metadata": metadata, "spec": spec });
        scenario.create("VirtualMachine", vm).await;
        scenario.delete("KubeVirt", NAME).await;
        scenario
            .until("KubeVirt", NAME, |kubevirt| {
                condition(kubevirt, "Progressing")["reason"] == "RemovingWorkloads"
            })
            .await;
        let kubevirt = scenario
            .until_within(60, "KubeVirt", NAME, |kubevirt| {
                let message = condition(kubevirt, "Progressing")["message"].to_string();
                let words = [
                    "default/blocked",
                    "blocked by finalizers example.com/backup",
                ];
                words.iter().all(|words| message.contains(words))
            })
            .await;
        assert_eq!(*condition(&kubevirt, "Synchronized"), Value::Null);
        scenario
            .until_event(60, |reason, text| {
                reason == "Waiting" && text.contains("blocked by finalizers example.com/backup")
            })
            .await;
        scenario.shorten_deadlines().await;
        let kubevirt = scenario
            .until("KubeVirt", NAME, |kubevirt| {
                condition(kubevirt, "Synchronized")["reason"] == "DeletionFailed"
            })
            .await;
        let message = condition(&kubevirt, "Synchronized")["message"].to_string();
        for words in [
            "RemovingWorkloads since ",
            "default/blocked",
            "example.com/backup",
        ] {
            assert!(message.contains(words), "{words:?} is not in {message}");
        }
        // The components that stop the VirtualMachine still exist.
        scenario.get("Deployment", "virt-controller").await;
        let free = json!({ "metadata": { "finalizers": null } });
        let api = scenario.api_in("VirtualMachine", "default");
        let patch = kube::api::Patch::Merge(free);
        api.patch("blocked", &kube::api::PatchParams::default(), &patch)
            .await
            .unwrap();
        scenario.until_gone("KubeVirt", NAME).await;
    });
}

#[test]
fn a_terminating_namespace_does_not_block_the_removal() {
    run_scenario(async {
        let scenario = InstallScenario::start().await;
        scenario.wait(60).await;
        let before = inventory(&scenario.client).await;
        scenario.install("v1.9.0").await;
        scenario.until_deployed("v1.9.0").await;
        scenario.delete("Namespace", NAMESPACE).await;
        scenario.until_gone("KubeVirt", NAME).await;
        scenario.until_gone("Namespace", NAMESPACE).await;
        let after = inventory(&scenario.client).await;
        let left: Vec<_> = after.difference(&before).collect();
        assert!(left.is_empty(), "{left:#?}");
    });
}

#[test]
fn a_blocked_removal_waits_for_the_last_machine_and_reports_it() {
    run_scenario(async {
        let mut scenario = InstallScenario::with_version("v1.9.0").await;
        let strategy = json!({ "uninstallStrategy": "BlockUninstallIfWorkloadsExist" });
        scenario.patch_spec(strategy).await;
        let spec = json!({ "runStrategy": "Halted", "template": machine_template() });
        let metadata = json!({ "name": "web", "namespace": "default" });
        let vm = json!({ "metadata": metadata, "spec": spec });
        // The VirtualMachine was created after the deletion had been admitted.
        scenario.stop_operator().await;
        scenario.delete("KubeVirt", NAME).await;
        scenario.create("VirtualMachine", vm).await;
        scenario.start_operator();
        let kubevirt = scenario
            .until("KubeVirt", NAME, |kubevirt| {
                condition(kubevirt, "Synchronized")["reason"] == "DeletionFailed"
            })
            .await;
        let message = condition(&kubevirt, "Synchronized")["message"].to_string();
        for words in ["default/web", "RemoveWorkloads"] {
            assert!(message.contains(words), "{words:?} is not in {message}");
        }
        let api = scenario.api_in("VirtualMachine", "default");
        api.delete("web", &kube::api::DeleteParams::default())
            .await
            .unwrap();
        scenario.until_gone("KubeVirt", NAME).await;
    });
}

/// Creates a VirtualMachine and waits until it runs.
async fn run_machine(scenario: &InstallScenario, name: &str) {
    let spec = json!({ "runStrategy": "Always", "template": machine_template() });
    let vm = json!({ "metadata": { "name": name }, "spec": spec });
    scenario.create("VirtualMachine", vm).await;
    scenario
        .until("VirtualMachineInstance", name, |found| {
            found["status"]["phase"] == "Running"
        })
        .await;
}

fn machine_template() -> Value {
    json!({ "spec": { "domain": { "memory": { "guest": "1Gi" }, "devices": {} } } })
}
