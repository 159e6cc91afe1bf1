//! Devices of nodes, huge pages, and what a change of the hardware does.

use serde_json::{Value, json};

use crate::{
    runner::{run_scenario, run_scenario_in_sandbox},
    scenario::{Scenario, condition},
};

/// Offers a resource on the first node.
async fn offer(scenario: &Scenario, resource: &str, amount: &str) {
    let nodes = scenario.list("Node").await;
    let node = nodes[0]["metadata"]["name"].as_str().unwrap();
    let amounts = json!({ "allocatable": { resource: amount }, "capacity": { resource: amount } });
    let params = kube::api::PatchParams::default();
    let patch = kube::api::Patch::Merge(json!({ "status": amounts }));
    let api = scenario.api("Node");
    api.patch_status(node, &params, &patch).await.unwrap();
}

#[test]
fn a_machine_waits_for_a_node_with_its_devices_and_pages() {
    run_scenario_in_sandbox("it offers resources on nodes", async {
        let scenario = Scenario::start().await;
        for (name, domain, resource, amount) in [
            (
                "trainer",
                json!({ "gpus": [{ "name": "gpu", "deviceName": "nvidia.com/A10" }] }),
                "nvidia.com/A10",
                "1",
            ),
            (
                "paged",
                json!({ "hugepages": "1Gi" }),
                "hugepages-1Gi",
                "4Gi",
            ),
        ] {
            let spec = json!({ "template": "small", "domain": domain });
            scenario.create_machine(name, spec).await;
            let machine = scenario.until_reason(name, "InsufficientResources").await;
            let message = condition(&machine, "Ready")["message"].as_str().unwrap();
            assert!(
                message.contains(&format!("Insufficient {resource}")),
                "{message}"
            );
            offer(&scenario, resource, amount).await;
            scenario.until_phase(name, "Running").await;
        }
        let instance = scenario.get("VirtualMachineInstance", "trainer").await;
        assert_eq!(instance["spec"]["evictionStrategy"], Value::Null);
    });
}

#[test]
fn kubevirt_admits_what_windows_11_needs() {
    run_scenario(async {
        let scenario = Scenario::start().await;
        let spec = json!({
            "template": "large",
            "domain": {
                "features": { "hyperv": true }, "tpm": { "persistent": true }, "rng": true,
                "firmware": { "bootloader": { "efi": true, "secureBoot": true } },
            },
        });
        scenario.create_machine("windows", spec).await;
        scenario.until_phase("windows", "Running").await;
        let instance = scenario.get("VirtualMachineInstance", "windows").await;
        let domain = &instance["spec"]["domain"];
        assert_eq!(domain["devices"]["tpm"]["persistent"], true);
        assert_eq!(domain["features"]["smm"]["enabled"], true);
    });
}

#[test]
fn other_hardware_needs_a_restart_and_the_uuid_stays_without_one_in_the_spec() {
    run_scenario(async {
        let scenario = Scenario::start().await;
        scenario
            .create_machine("web", json!({ "template": "small" }))
            .await;
        scenario.until_phase("web", "Running").await;
        let uuid =
            |vm: &Value| vm["spec"]["template"]["spec"]["domain"]["firmware"]["uuid"].clone();
        let before = uuid(&scenario.get("VirtualMachine", "web").await);
        assert!(before.is_string(), "KubeVirt generates one");
        let changed = json!({ "domain": { "watchdog": { "action": "poweroff" } } });
        scenario.patch_spec("web", changed).await;
        scenario
            .until_condition("web", "RestartRequired", "True")
            .await;
        assert_eq!(uuid(&scenario.get("VirtualMachine", "web").await), before);
        let own = "6a1f0b4e-3d0e-4d51-9d8f-0c4d2c4a8f5b";
        let changed = json!({ "domain": { "firmware": { "uuid": own } } });
        scenario.patch_spec("web", changed).await;
        scenario
            .until("VirtualMachine", "web", |vm| uuid(vm) == own)
            .await;
    });
}
