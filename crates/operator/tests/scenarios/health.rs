//! Guests that run and are not ready, and nodes that stop answering.

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::{
    ground::{tell, tell_alone, tell_in_sandbox},
    story::{Story, condition},
};

async fn running(story: &Story) -> String {
    story.machine("web", json!({ "template": "small" })).await;
    story.until_condition("web", "Ready", "True").await;
    let machine = story.get("Machine", "web").await;
    machine["status"]["nodeName"].as_str().unwrap().to_owned()
}

async fn set_fault(story: &Story, kind: &str, name: &str, fault: Option<&str>) {
    let patch = json!({ "metadata": { "annotations": { "sandbox.vitistack.io/fail": fault } } });
    story.patch(kind, name, patch).await;
}

fn ready_message(machine: &Value) -> &str {
    condition(machine, "Ready")["message"]
        .as_str()
        .unwrap_or_default()
}

#[test]
fn a_guest_that_is_not_ready_is_reported_and_so_is_its_recovery() {
    tell(async {
        let story = Story::begin().await;
        running(&story).await;
        set_fault(&story, "VirtualMachineInstance", "web", Some("NeverReady")).await;
        let machine = story.until_reason("web", "GuestNotReady").await;
        assert_eq!(machine["status"]["phase"], "Running");
        assert_eq!(condition(&machine, "Ready")["status"], "False");
        let words = ready_message(&machine);
        assert!(words.contains("unready status: [compute]"), "{words}");

        set_fault(&story, "VirtualMachineInstance", "web", None).await;
        story.until_condition("web", "Ready", "True").await;
        story.wait(1).await;
        let reasons = story.reasons("web").await;
        assert_eq!(
            reasons,
            ["Created", "Started", "GuestNotReady", "Recovered"]
        );
    });
}

#[test]
fn a_guest_with_nothing_to_boot_is_reported_until_it_has_something() {
    tell(async {
        let story = Story::begin().await;
        running(&story).await;
        let bootable = story.until_condition("web", "Bootable", "False").await;
        assert_eq!(bootable["reason"], "NothingToBoot");
        let message = bootable["message"].as_str().unwrap();
        assert!(message.contains("disk \"root\" starts empty"), "{message}");

        // Installed over the network, the disk has something to boot from then on.
        let is_observed = |machine: &Value| {
            machine["status"]["observedGeneration"] == machine["metadata"]["generation"]
                && condition(machine, "Bootable").is_null()
        };
        let boot_order = |devices: Value| json!({ "bootOrder": devices });
        story.change("web", boot_order(json!(["network"]))).await;
        story.until("Machine", "web", is_observed).await;
        story.change("web", boot_order(Value::Null)).await;
        story.until("Machine", "web", is_observed).await;
    });
}

#[test]
fn a_machine_whose_guest_never_becomes_ready_does_not_become_ready() {
    tell_alone(&[], async {
        let rule = "[{ kind: VirtualMachineInstance, name: web, fault: NeverReady }]";
        let faults = sandbox::faults::Faults::from_yaml(rule).unwrap();
        let story = Story::begin_with(|setup| setup.faults = faults).await;
        let record = story.record(&["Machine"]).await;
        story.machine("web", json!({ "template": "small" })).await;
        story.until_reason("web", "GuestNotReady").await;
        for change in record.of("Machine", "web") {
            assert_ne!(condition(&change.object, "Ready")["status"], "True");
        }
    });
}

#[test]
fn a_node_that_stops_answering_is_reported_until_it_answers_again() {
    tell_alone(&[], async {
        let story = Story::begin().await;
        let node = running(&story).await;
        let lost = Instant::now();
        set_fault(&story, "Node", &node, Some("NotReady")).await;
        let machine = story.until_reason("web", "NodeLost").await;
        assert!(lost.elapsed() < story.ground.patience_of(10));
        assert_eq!(machine["status"]["phase"], "Running");
        assert_eq!(machine["status"]["nodeName"], node);
        assert!(ready_message(&machine).contains(&node));
        let instance = story.get("VirtualMachineInstance", "web").await;
        assert_eq!(instance["status"]["phase"], "Running");

        set_fault(&story, "Node", &node, None).await;
        story.until_condition("web", "Ready", "True").await;
        let same = story.get("VirtualMachineInstance", "web").await;
        assert_eq!(same["metadata"]["uid"], instance["metadata"]["uid"]);
        story.wait(1).await;
        let reasons = story.reasons("web").await;
        assert_eq!(reasons, ["Created", "Started", "NodeLost", "Recovered"]);
    });
}

#[test]
fn a_node_that_is_away_for_a_moment_is_not_reported() {
    tell_alone(&[], async {
        let story = Story::begin().await;
        let node = running(&story).await;
        let before = story.writes("machines");
        set_fault(&story, "Node", &node, Some("NotReady")).await;
        story.wait(3).await;
        set_fault(&story, "Node", &node, None).await;
        story.wait(60).await;
        assert_eq!(story.writes("machines"), before);
        assert_eq!(story.reasons("web").await, ["Created", "Started"]);
    });
}

#[test]
fn a_guest_of_a_lost_node_starts_elsewhere_once_the_node_is_out_of_service() {
    tell_in_sandbox("pods are evicted minutes after their node is lost", async {
        let story = Story::begin().await;
        let node = running(&story).await;
        let disk = story.get("PersistentVolumeClaim", "web-root").await;
        set_fault(&story, "Node", &node, Some("NotReady")).await;
        // Evicted after tolerationSeconds, the pod cannot end: its kubelet does not answer.
        story.wait(400).await;
        let machine = story.get("Machine", "web").await;
        assert_eq!(condition(&machine, "Ready")["reason"], "NodeLost");
        let pods = story.list("Pod").await;
        assert!(!pods[0]["metadata"]["deletionTimestamp"].is_null());
        assert_eq!(pods.len(), 1);

        let mut taints = story.get("Node", &node).await["spec"]["taints"].clone();
        let out_of_service = json!({
            "key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown",
            "effect": "NoExecute",
        });
        taints.as_array_mut().unwrap().push(out_of_service);
        let patch = json!({ "spec": { "taints": taints } });
        story.patch("Node", &node, patch).await;
        story.until_condition("web", "Ready", "True").await;
        let machine = story.get("Machine", "web").await;
        assert_ne!(machine["status"]["nodeName"], node);
        let same = story.get("PersistentVolumeClaim", "web-root").await;
        assert_eq!(same["metadata"]["uid"], disk["metadata"]["uid"]);
    });
}

#[test]
fn a_guest_whose_node_is_deleted_starts_elsewhere() {
    tell_alone(&[], async {
        let story = Story::begin().await;
        let node = running(&story).await;
        story.delete("Node", &node).await;
        let machine = story
            .until("Machine", "web", |machine| {
                machine["status"]["nodeName"] != node.as_str()
                    && condition(machine, "Ready")["status"] == "True"
            })
            .await;
        assert_eq!(machine["status"]["phase"], "Running");
    });
}
