//! Guests that are not ready, and unreachable nodes.

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::{
    runner::{run_scenario, run_scenario_alone, run_scenario_in_sandbox},
    scenario::{Scenario, condition},
};

async fn running(scenario: &Scenario) -> String {
    scenario
        .create_machine("web", json!({ "template": "small" }))
        .await;
    scenario.until_condition("web", "Ready", "True").await;
    let machine = scenario.get("Machine", "web").await;
    machine["status"]["nodeName"].as_str().unwrap().to_owned()
}

async fn set_fault(scenario: &Scenario, kind: &str, name: &str, fault: Option<&str>) {
    let patch = json!({ "metadata": { "annotations": { "sandbox.vitistack.io/fail": fault } } });
    scenario.patch(kind, name, patch).await;
}

fn ready_message(machine: &Value) -> &str {
    condition(machine, "Ready")["message"]
        .as_str()
        .unwrap_or_default()
}

#[test]
fn an_unready_guest_and_its_recovery_are_reported() {
    run_scenario(async {
        let scenario = Scenario::start().await;
        running(&scenario).await;
        set_fault(
            &scenario,
            "VirtualMachineInstance",
            "web",
            Some("NeverReady"),
        )
        .await;
        let machine = scenario.until_reason("web", "GuestNotReady").await;
        assert_eq!(machine["status"]["phase"], "Running");
        assert_eq!(condition(&machine, "Ready")["status"], "False");
        let words = ready_message(&machine);
        assert!(words.contains("unready status: [compute]"), "{words}");

        set_fault(&scenario, "VirtualMachineInstance", "web", None).await;
        scenario.until_condition("web", "Ready", "True").await;
        scenario.wait(1).await;
        let reasons = scenario.reasons("web").await;
        assert_eq!(
            reasons,
            ["Created", "Started", "GuestNotReady", "Recovered"]
        );
    });
}

#[test]
fn a_guest_with_nothing_to_boot_is_reported_until_it_can_boot() {
    run_scenario(async {
        let scenario = Scenario::start().await;
        running(&scenario).await;
        let bootable = scenario.until_condition("web", "Bootable", "False").await;
        assert_eq!(bootable["reason"], "NothingToBoot");
        let message = bootable["message"].as_str().unwrap();
        assert!(message.contains("disk \"root\" starts empty"), "{message}");

        // After a network installation the disk is bootable.
        let is_observed = |machine: &Value| {
            machine["status"]["observedGeneration"] == machine["metadata"]["generation"]
                && condition(machine, "Bootable").is_null()
        };
        let boot_order = |devices: Value| json!({ "bootOrder": devices });
        scenario
            .patch_spec("web", boot_order(json!(["network"])))
            .await;
        scenario.until("Machine", "web", is_observed).await;
        scenario.patch_spec("web", boot_order(Value::Null)).await;
        scenario.until("Machine", "web", is_observed).await;
    });
}

#[test]
fn a_machine_whose_guest_never_becomes_ready_does_not_become_ready() {
    run_scenario_alone(&[], async {
        let rule = "[{ kind: VirtualMachineInstance, name: web, fault: NeverReady }]";
        let faults = sandbox::faults::Faults::from_yaml(rule).unwrap();
        let scenario = Scenario::start_with(|setup| setup.faults = faults).await;
        let recording = scenario.record(&["Machine"]).await;
        scenario
            .create_machine("web", json!({ "template": "small" }))
            .await;
        scenario.until_reason("web", "GuestNotReady").await;
        for change in recording.of("Machine", "web") {
            assert_ne!(condition(&change.object, "Ready")["status"], "True");
        }
    });
}

#[test]
fn an_unreachable_node_is_reported_until_it_returns() {
    run_scenario_alone(&[], async {
        let scenario = Scenario::start().await;
        let node = running(&scenario).await;
        let lost = Instant::now();
        set_fault(&scenario, "Node", &node, Some("NotReady")).await;
        let machine = scenario.until_reason("web", "NodeLost").await;
        assert!(lost.elapsed() < scenario.cluster.timeout_of(10));
        assert_eq!(machine["status"]["phase"], "Running");
        assert_eq!(machine["status"]["nodeName"], node);
        assert!(ready_message(&machine).contains(&node));
        let instance = scenario.get("VirtualMachineInstance", "web").await;
        assert_eq!(instance["status"]["phase"], "Running");

        set_fault(&scenario, "Node", &node, None).await;
        scenario.until_condition("web", "Ready", "True").await;
        let same = scenario.get("VirtualMachineInstance", "web").await;
        assert_eq!(same["metadata"]["uid"], instance["metadata"]["uid"]);
        scenario.wait(1).await;
        let reasons = scenario.reasons("web").await;
        assert_eq!(reasons, ["Created", "Started", "NodeLost", "Recovered"]);
    });
}

#[test]
fn a_short_node_outage_is_not_reported() {
    run_scenario_alone(&[], async {
        let scenario = Scenario::start().await;
        let node = running(&scenario).await;
        let before = scenario.writes("machines");
        set_fault(&scenario, "Node", &node, Some("NotReady")).await;
        scenario.wait(3).await;
        set_fault(&scenario, "Node", &node, None).await;
        scenario.wait(60).await;
        assert_eq!(scenario.writes("machines"), before);
        assert_eq!(scenario.reasons("web").await, ["Created", "Started"]);
    });
}

#[test]
fn a_guest_of_a_lost_node_restarts_once_the_node_is_out_of_service() {
    run_scenario_in_sandbox("pods are evicted minutes after their node is lost", async {
        let scenario = Scenario::start().await;
        let node = running(&scenario).await;
        let disk = scenario.get("PersistentVolumeClaim", "web-root").await;
        set_fault(&scenario, "Node", &node, Some("NotReady")).await;
        // Evicted after tolerationSeconds, the pod stays Terminating: its kubelet does not respond.
        scenario.wait(400).await;
        let machine = scenario.get("Machine", "web").await;
        assert_eq!(condition(&machine, "Ready")["reason"], "NodeLost");
        let pods = scenario.list("Pod").await;
        assert!(!pods[0]["metadata"]["deletionTimestamp"].is_null());
        assert_eq!(pods.len(), 1);

        let mut taints = scenario.get("Node", &node).await["spec"]["taints"].clone();
        let out_of_service = json!({
            "key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown",
            "effect": "NoExecute",
        });
        taints.as_array_mut().unwrap().push(out_of_service);
        let patch = json!({ "spec": { "taints": taints } });
        scenario.patch("Node", &node, patch).await;
        scenario.until_condition("web", "Ready", "True").await;
        let machine = scenario.get("Machine", "web").await;
        assert_ne!(machine["status"]["nodeName"], node);
        let same = scenario.get("PersistentVolumeClaim", "web-root").await;
        assert_eq!(same["metadata"]["uid"], disk["metadata"]["uid"]);
    });
}

#[test]
fn a_guest_of_a_deleted_node_restarts_on_another_node() {
    run_scenario_alone(&[], async {
        let scenario = Scenario::start().await;
        let node = running(&scenario).await;
        scenario.delete("Node", &node).await;
        let machine = scenario
            .until("Machine", "web", |machine| {
                machine["status"]["nodeName"] != node.as_str()
                    && condition(machine, "Ready")["status"] == "True"
            })
            .await;
        assert_eq!(machine["status"]["phase"], "Running");
    });
}
