//! Machines that are stopped, paused and restarted, by the operator or by others.

use serde_json::{Value, json};

use crate::{
    runner::{Need, run_scenario, run_scenario_alone, run_scenario_with},
    scenario::{Scenario, condition},
};

async fn running(scenario: &Scenario) -> Value {
    scenario
        .create_machine("web", json!({ "template": "small" }))
        .await;
    scenario.until_phase("web", "Running").await;
    scenario.get("VirtualMachineInstance", "web").await
}

async fn set_power(scenario: &Scenario, state: &str) {
    scenario
        .patch_spec("web", json!({ "powerState": state }))
        .await;
}

/// Waits until an instance other than this one runs.
async fn until_another_runs(scenario: &Scenario, instance: &Value) -> Value {
    let another = scenario
        .until("VirtualMachineInstance", "web", |found| {
            found["metadata"]["uid"] != instance["metadata"]["uid"]
                && found["status"]["phase"] == "Running"
        })
        .await;
    scenario.until_condition("web", "Ready", "True").await;
    another
}

async fn fail(scenario: &Scenario, fault: &str) {
    let patch = json!({ "metadata": { "annotations": { "sandbox.vitistack.io/fail": fault } } });
    scenario.patch("VirtualMachineInstance", "web", patch).await;
}

#[test]
fn a_machine_is_stopped_and_started_with_the_same_disk() {
    run_scenario(async {
        let scenario = Scenario::start().await;
        running(&scenario).await;
        let disk = scenario.get("PersistentVolumeClaim", "web-root").await;

        set_power(&scenario, "Stopped").await;
        let machine = scenario.until_phase("web", "Stopped").await;
        let ready = condition(&machine, "Ready");
        assert_eq!(
            (&ready["status"], &ready["reason"]),
            (&"False".into(), &"Stopped".into())
        );
        scenario.until_gone("VirtualMachineInstance", "web").await;
        let machine = scenario
            .until("Machine", "web", |machine| {
                machine["status"]["nodeName"].is_null()
            })
            .await;
        assert_eq!(machine["status"]["vmName"], "web");
        assert_eq!(machine["status"]["ipAddresses"], json!([]));

        set_power(&scenario, "Running").await;
        scenario.until_phase("web", "Running").await;
        let same = scenario.get("PersistentVolumeClaim", "web-root").await;
        assert_eq!(same["metadata"]["uid"], disk["metadata"]["uid"]);
        // A repeated Event is counted, not created again.
        let reasons = scenario.reasons("web").await;
        assert!(
            reasons.starts_with(&["Created", "Started", "Stopping", "Stopped"].map(str::to_owned)),
            "{reasons:?}"
        );
    });
}

#[test]
fn a_machine_created_stopped_does_not_start() {
    run_scenario(async {
        let scenario = Scenario::start().await;
        let recording = scenario
            .record(&["Machine", "VirtualMachineInstance"])
            .await;
        let spec = json!({ "template": "small", "powerState": "Stopped" });
        scenario.create_machine("web", spec).await;
        let machine = scenario.until_phase("web", "Stopped").await;
        assert_eq!(condition(&machine, "Ready")["reason"], "Stopped");
        assert_eq!(condition(&machine, "VirtualMachineReady")["status"], "True");
        scenario.wait(5).await;
        assert!(recording.of("VirtualMachineInstance", "web").is_empty());
        let failed = |phase: &Value| phase == "Failed" || phase == "Running";
        let changes = recording.of("Machine", "web");
        assert!(
            !changes
                .iter()
                .any(|change| failed(&change.object["status"]["phase"]))
        );

        set_power(&scenario, "Running").await;
        scenario.until_phase("web", "Running").await;
    });
}

#[test]
fn a_machine_is_paused_and_unpaused_with_the_same_guest() {
    run_scenario_with(&[Need::Services], async {
        let scenario = Scenario::start().await;
        let instance = running(&scenario).await;
        set_power(&scenario, "Paused").await;
        let machine = scenario.until_reason("web", "Paused").await;
        assert_eq!(machine["status"]["phase"], "Running");
        assert_eq!(condition(&machine, "Ready")["status"], "False");

        set_power(&scenario, "Running").await;
        scenario.until_reason("web", "Running").await;
        let same = scenario.get("VirtualMachineInstance", "web").await;
        assert_eq!(same["metadata"]["uid"], instance["metadata"]["uid"]);
        let reasons = scenario.reasons("web").await;
        assert_eq!(reasons, ["Created", "Started", "Paused", "Unpaused"]);
    });
}

#[test]
fn a_machine_created_paused_starts_and_is_paused() {
    run_scenario_with(&[Need::Services], async {
        let scenario = Scenario::start().await;
        let spec = json!({ "template": "small", "powerState": "Paused" });
        scenario.create_machine("web", spec).await;
        scenario.until_reason("web", "Paused").await;
        let instance = scenario.get("VirtualMachineInstance", "web").await;
        assert_eq!(condition(&instance, "Paused")["status"], "True");

        set_power(&scenario, "Stopped").await;
        scenario.until_phase("web", "Stopped").await;
        scenario.until_gone("VirtualMachineInstance", "web").await;
    });
}

#[test]
fn a_guest_paused_by_another_client_is_unpaused() {
    run_scenario_with(&[Need::Services], async {
        let scenario = Scenario::start().await;
        running(&scenario).await;
        let recording = scenario.record(&["VirtualMachineInstance"]).await;
        let path = format!(
            "/apis/subresources.kubevirt.io/v1/namespaces/{}/virtualmachineinstances/web/pause",
            scenario.namespace
        );
        let request = http::Request::put(path)
            .header("content-type", "application/json")
            .body(b"{}".to_vec())
            .unwrap();
        scenario.client.request_text(request).await.unwrap();
        scenario.wait(2).await;
        let paused: Vec<_> = recording
            .of("VirtualMachineInstance", "web")
            .iter()
            .map(|change| condition(&change.object, "Paused")["status"] == "True")
            .collect();
        assert!(
            paused.contains(&true) && paused.last() == Some(&false),
            "{paused:?}"
        );
        scenario.until_reason("web", "Running").await;
        assert!(scenario.has_event("web", "Unpaused").await);
    });
}

#[test]
fn a_requested_restart_ends_exactly_one_guest() {
    run_scenario(async {
        let mut scenario = Scenario::start().await;
        let instance = running(&scenario).await;
        let recording = scenario.record(&["VirtualMachineInstance"]).await;
        let requested = json!({ "spec": { "restartedAt": "2026-01-02T03:04:05Z" } });
        scenario.patch("Machine", "web", requested).await;
        until_another_runs(&scenario, &instance).await;

        // Neither a resync nor another operator repeats it.
        scenario.wait(5).await;
        scenario.stop_operator().await;
        scenario.start_operator();
        scenario.wait(5).await;
        let changes = recording.of("VirtualMachineInstance", "web");
        let ends = changes.iter().filter(|change| change.is_deletion);
        assert_eq!(ends.count(), 1);
        let reasons = scenario.reasons("web").await;
        assert_eq!(
            reasons
                .iter()
                .filter(|reason| *reason == "Restarted")
                .count(),
            1
        );
        assert!(
            !reasons.iter().any(|reason| reason == "StoppedByOther"),
            "{reasons:?}"
        );
    });
}

#[test]
fn a_restart_happens_once_even_if_the_operator_crashes_meanwhile() {
    for writes in 1..=4 {
        run_scenario(async move {
            let mut scenario = Scenario::start().await;
            let instance = running(&scenario).await;
            let recording = scenario.record(&["VirtualMachineInstance"]).await;
            scenario.faults.hang_after_writes(writes);
            let requested = json!({ "spec": { "restartedAt": "2026-01-02T03:04:05Z" } });
            scenario.patch("Machine", "web", requested).await;
            scenario.until_writes(writes).await;
            scenario.kill_operator().await;
            scenario.faults.clear();
            scenario.start_operator();
            until_another_runs(&scenario, &instance).await;
            scenario.wait(5).await;
            let changes = recording.of("VirtualMachineInstance", "web");
            let ends = changes.iter().filter(|change| change.is_deletion);
            assert_eq!(ends.count(), 1, "after {writes} writes");
        });
    }
}

#[test]
fn a_restart_requested_at_creation_is_ignored() {
    run_scenario(async {
        let scenario = Scenario::start().await;
        let recording = scenario.record(&["VirtualMachineInstance"]).await;
        let spec = json!({ "template": "small", "restartedAt": "2026-01-02T03:04:05Z" });
        scenario.create_machine("web", spec).await;
        scenario.until_phase("web", "Running").await;
        scenario.wait(5).await;
        let changes = recording.of("VirtualMachineInstance", "web");
        assert!(!changes.iter().any(|change| change.is_deletion));
    });
}

#[test]
fn a_guest_stopped_with_virtctl_is_restarted_with_an_event() {
    run_scenario_with(&[Need::Services], async {
        let scenario = Scenario::start().await;
        let instance = running(&scenario).await;
        scenario.virtctl("stop", "web").await;
        let machine = scenario.until_reason("web", "StoppedByOther").await;
        let message = condition(&machine, "Ready")["message"].as_str().unwrap();
        assert!(
            message.contains("set spec.powerState to Stopped to stop it"),
            "{message}"
        );
        until_another_runs(&scenario, &instance).await;
        let reasons = scenario.reasons("web").await;
        for reason in ["StoppedByOther", "DriftCorrected"] {
            assert_eq!(reasons.iter().filter(|found| *found == reason).count(), 1);
        }
    });
}

#[test]
fn a_guest_that_shuts_down_is_restarted_with_an_event() {
    run_scenario(async {
        let scenario = Scenario::start().await;
        let recording = scenario.record(&["Machine"]).await;
        let instance = running(&scenario).await;
        fail(&scenario, "Shutdown").await;
        scenario.until_reason("web", "GuestShutdown").await;
        until_another_runs(&scenario, &instance).await;
        let reasons = scenario.reasons("web").await;
        assert!(
            reasons.starts_with(&["Created", "Started", "GuestShutdown"].map(str::to_owned)),
            "{reasons:?}"
        );
        let changes = recording.of("Machine", "web");
        assert!(
            !changes
                .iter()
                .any(|change| change.object["status"]["phase"] == "Failed")
        );
    });
}

#[test]
fn a_guest_that_crashes_is_shown_as_failed_and_recovers() {
    run_scenario(async {
        let scenario = Scenario::start().await;
        let instance = running(&scenario).await;
        fail(&scenario, "Crash").await;
        let machine = scenario.until_phase("web", "Failed").await;
        assert_eq!(condition(&machine, "Ready")["reason"], "Crashed");
        until_another_runs(&scenario, &instance).await;
        assert_eq!(
            scenario.get("Machine", "web").await["status"]["phase"],
            "Running"
        );
        let reasons = scenario.reasons("web").await;
        assert_eq!(
            reasons.iter().filter(|reason| *reason == "Crashed").count(),
            1
        );
    });
}

#[test]
fn a_guest_whose_instance_is_deleted_is_restarted() {
    run_scenario(async {
        let scenario = Scenario::start().await;
        let instance = running(&scenario).await;
        scenario.delete("VirtualMachineInstance", "web").await;
        until_another_runs(&scenario, &instance).await;
        let reasons = scenario.reasons("web").await;
        assert!(
            reasons.iter().any(|reason| reason == "StoppedByOther"),
            "{reasons:?}"
        );
    });
}

#[test]
fn a_machine_without_shared_disks_restarts_on_another_node_when_its_node_is_drained() {
    run_scenario_alone(&[Need::Services, Need::CurrentApis], async {
        let scenario = Scenario::start().await;
        let instance = running(&scenario).await;
        let node = instance["status"]["nodeName"].as_str().unwrap();
        let cordon = json!({ "spec": { "unschedulable": true } });
        scenario.patch("Node", node, cordon).await;
        let pods = scenario.list("Pod").await;
        let pod = pods[0]["metadata"]["name"].as_str().unwrap();
        let eviction = json!({
            "apiVersion": "policy/v1", "kind": "Eviction",
            "metadata": { "name": pod, "namespace": scenario.namespace },
        });
        let request = http::Request::post(format!(
            "/api/v1/namespaces/{}/pods/{pod}/eviction",
            scenario.namespace
        ))
        .header("content-type", "application/json")
        .body(eviction.to_string().into_bytes())
        .unwrap();
        scenario.client.request_text(request).await.unwrap();
        let another = until_another_runs(&scenario, &instance).await;
        assert_ne!(another["status"]["nodeName"], node);
        let reasons = scenario.reasons("web").await;
        assert!(
            !reasons.iter().any(|reason| reason == "StoppedByOther"),
            "{reasons:?}"
        );
    });
}
