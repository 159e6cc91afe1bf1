//! Machines that are stopped, paused and restarted, by whomever.

use serde_json::{Value, json};

use crate::{
    ground::{Need, tell, tell_alone, tell_with},
    story::{Story, condition},
};

async fn running(story: &Story) -> Value {
    story.machine("web", json!({ "template": "small" })).await;
    story.until_phase("web", "Running").await;
    story.get("VirtualMachineInstance", "web").await
}

async fn set_power(story: &Story, state: &str) {
    story.change("web", json!({ "powerState": state })).await;
}

/// Waits until another instance than this one runs.
async fn until_another_runs(story: &Story, instance: &Value) -> Value {
    let another = story
        .until("VirtualMachineInstance", "web", |found| {
            found["metadata"]["uid"] != instance["metadata"]["uid"]
                && found["status"]["phase"] == "Running"
        })
        .await;
    story.until_condition("web", "Ready", "True").await;
    another
}

async fn fail(story: &Story, fault: &str) {
    let patch = json!({ "metadata": { "annotations": { "sandbox.vitistack.io/fail": fault } } });
    story.patch("VirtualMachineInstance", "web", patch).await;
}

#[test]
fn a_machine_is_stopped_and_started_with_the_same_disk() {
    tell(async {
        let story = Story::begin().await;
        running(&story).await;
        let disk = story.get("PersistentVolumeClaim", "web-root").await;

        set_power(&story, "Stopped").await;
        let machine = story.until_phase("web", "Stopped").await;
        let ready = condition(&machine, "Ready");
        assert_eq!(
            (&ready["status"], &ready["reason"]),
            (&"False".into(), &"Stopped".into())
        );
        story.until_gone("VirtualMachineInstance", "web").await;
        let machine = story
            .until("Machine", "web", |machine| {
                machine["status"]["nodeName"].is_null()
            })
            .await;
        assert_eq!(machine["status"]["vmName"], "web");
        assert_eq!(machine["status"]["ipAddresses"], json!([]));

        set_power(&story, "Running").await;
        story.until_phase("web", "Running").await;
        let same = story.get("PersistentVolumeClaim", "web-root").await;
        assert_eq!(same["metadata"]["uid"], disk["metadata"]["uid"]);
        // What is said again of the same node is counted, not told anew.
        let reasons = story.reasons("web").await;
        assert!(
            reasons.starts_with(&["Created", "Started", "Stopping", "Stopped"].map(str::to_owned)),
            "{reasons:?}"
        );
    });
}

#[test]
fn a_machine_that_is_created_stopped_does_not_start() {
    tell(async {
        let story = Story::begin().await;
        let record = story.record(&["Machine", "VirtualMachineInstance"]).await;
        let spec = json!({ "template": "small", "powerState": "Stopped" });
        story.machine("web", spec).await;
        let machine = story.until_phase("web", "Stopped").await;
        assert_eq!(condition(&machine, "Ready")["reason"], "Stopped");
        assert_eq!(condition(&machine, "VirtualMachineReady")["status"], "True");
        story.wait(5).await;
        assert!(record.of("VirtualMachineInstance", "web").is_empty());
        let failed = |phase: &Value| phase == "Failed" || phase == "Running";
        let changes = record.of("Machine", "web");
        assert!(
            !changes
                .iter()
                .any(|change| failed(&change.object["status"]["phase"]))
        );

        set_power(&story, "Running").await;
        story.until_phase("web", "Running").await;
    });
}

#[test]
fn a_machine_is_paused_and_goes_on_with_the_same_guest() {
    tell_with(&[Need::Services], async {
        let story = Story::begin().await;
        let instance = running(&story).await;
        set_power(&story, "Paused").await;
        let machine = story.until_reason("web", "Paused").await;
        assert_eq!(machine["status"]["phase"], "Running");
        assert_eq!(condition(&machine, "Ready")["status"], "False");

        set_power(&story, "Running").await;
        story.until_reason("web", "Running").await;
        let same = story.get("VirtualMachineInstance", "web").await;
        assert_eq!(same["metadata"]["uid"], instance["metadata"]["uid"]);
        let reasons = story.reasons("web").await;
        assert_eq!(reasons, ["Created", "Started", "Paused", "Unpaused"]);
    });
}

#[test]
fn a_machine_that_is_created_paused_starts_and_is_held() {
    tell_with(&[Need::Services], async {
        let story = Story::begin().await;
        let spec = json!({ "template": "small", "powerState": "Paused" });
        story.machine("web", spec).await;
        story.until_reason("web", "Paused").await;
        let instance = story.get("VirtualMachineInstance", "web").await;
        assert_eq!(condition(&instance, "Paused")["status"], "True");

        set_power(&story, "Stopped").await;
        story.until_phase("web", "Stopped").await;
        story.until_gone("VirtualMachineInstance", "web").await;
    });
}

#[test]
fn a_guest_that_somebody_pauses_goes_on() {
    tell_with(&[Need::Services], async {
        let story = Story::begin().await;
        running(&story).await;
        let record = story.record(&["VirtualMachineInstance"]).await;
        let path = format!(
            "/apis/subresources.kubevirt.io/v1/namespaces/{}/virtualmachineinstances/web/pause",
            story.namespace
        );
        let request = http::Request::put(path)
            .header("content-type", "application/json")
            .body(b"{}".to_vec())
            .unwrap();
        story.client.request_text(request).await.unwrap();
        story.wait(2).await;
        let held: Vec<_> = record
            .of("VirtualMachineInstance", "web")
            .iter()
            .map(|change| condition(&change.object, "Paused")["status"] == "True")
            .collect();
        assert!(
            held.contains(&true) && held.last() == Some(&false),
            "{held:?}"
        );
        story.until_reason("web", "Running").await;
        assert!(story.was_told("web", "Unpaused").await);
    });
}

#[test]
fn a_restart_that_is_asked_for_ends_one_guest_and_no_other() {
    tell(async {
        let mut story = Story::begin().await;
        let instance = running(&story).await;
        let record = story.record(&["VirtualMachineInstance"]).await;
        let asked = json!({ "spec": { "restartedAt": "2026-01-02T03:04:05Z" } });
        story.patch("Machine", "web", asked).await;
        until_another_runs(&story, &instance).await;

        // Neither time nor another operator make it happen again.
        story.wait(5).await;
        story.stop_operator().await;
        story.start_operator();
        story.wait(5).await;
        let changes = record.of("VirtualMachineInstance", "web");
        let ends = changes.iter().filter(|change| change.is_deletion);
        assert_eq!(ends.count(), 1);
        let reasons = story.reasons("web").await;
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
fn a_restart_happens_once_also_when_the_operator_dies_in_the_middle_of_it() {
    for writes in 1..=4 {
        tell(async move {
            let mut story = Story::begin().await;
            let instance = running(&story).await;
            let record = story.record(&["VirtualMachineInstance"]).await;
            story.line.die_after(writes);
            let asked = json!({ "spec": { "restartedAt": "2026-01-02T03:04:05Z" } });
            story.patch("Machine", "web", asked).await;
            story.until_writes(writes).await;
            story.kill_operator().await;
            story.line.mend();
            story.start_operator();
            until_another_runs(&story, &instance).await;
            story.wait(5).await;
            let changes = record.of("VirtualMachineInstance", "web");
            let ends = changes.iter().filter(|change| change.is_deletion);
            assert_eq!(ends.count(), 1, "after {writes} writes");
        });
    }
}

#[test]
fn a_restart_that_is_asked_for_at_creation_is_none() {
    tell(async {
        let story = Story::begin().await;
        let record = story.record(&["VirtualMachineInstance"]).await;
        let spec = json!({ "template": "small", "restartedAt": "2026-01-02T03:04:05Z" });
        story.machine("web", spec).await;
        story.until_phase("web", "Running").await;
        story.wait(5).await;
        let changes = record.of("VirtualMachineInstance", "web");
        assert!(!changes.iter().any(|change| change.is_deletion));
    });
}

#[test]
fn a_guest_that_is_stopped_with_virtctl_is_started_again_and_people_are_told_why() {
    tell_with(&[Need::Services], async {
        let story = Story::begin().await;
        let instance = running(&story).await;
        story.virtctl("stop", "web").await;
        let machine = story.until_reason("web", "StoppedByOther").await;
        let message = condition(&machine, "Ready")["message"].as_str().unwrap();
        assert!(
            message.contains("set spec.powerState to stop it"),
            "{message}"
        );
        until_another_runs(&story, &instance).await;
        let reasons = story.reasons("web").await;
        for reason in ["StoppedByOther", "PutBack"] {
            assert_eq!(reasons.iter().filter(|told| *told == reason).count(), 1);
        }
    });
}

#[test]
fn a_guest_that_shuts_itself_down_is_started_again_and_people_are_told_why() {
    tell(async {
        let story = Story::begin().await;
        let record = story.record(&["Machine"]).await;
        let instance = running(&story).await;
        fail(&story, "Shutdown").await;
        story.until_reason("web", "GuestShutdown").await;
        until_another_runs(&story, &instance).await;
        let reasons = story.reasons("web").await;
        assert!(
            reasons.starts_with(&["Created", "Started", "GuestShutdown"].map(str::to_owned)),
            "{reasons:?}"
        );
        let changes = record.of("Machine", "web");
        assert!(
            !changes
                .iter()
                .any(|change| change.object["status"]["phase"] == "Failed")
        );
    });
}

#[test]
fn a_guest_that_crashes_is_shown_as_failed_and_recovers() {
    tell(async {
        let story = Story::begin().await;
        let instance = running(&story).await;
        fail(&story, "Crash").await;
        let machine = story.until_phase("web", "Failed").await;
        assert_eq!(condition(&machine, "Ready")["reason"], "Crashed");
        until_another_runs(&story, &instance).await;
        assert_eq!(
            story.get("Machine", "web").await["status"]["phase"],
            "Running"
        );
        let reasons = story.reasons("web").await;
        assert_eq!(
            reasons.iter().filter(|reason| *reason == "Crashed").count(),
            1
        );
    });
}

#[test]
fn a_guest_whose_instance_is_deleted_is_started_again() {
    tell(async {
        let story = Story::begin().await;
        let instance = running(&story).await;
        story.delete("VirtualMachineInstance", "web").await;
        until_another_runs(&story, &instance).await;
        let reasons = story.reasons("web").await;
        assert!(
            reasons.iter().any(|reason| reason == "StoppedByOther"),
            "{reasons:?}"
        );
    });
}

#[test]
fn a_machine_without_shared_disks_is_started_elsewhere_when_its_node_is_drained() {
    tell_alone(&[Need::Services, Need::CurrentApis], async {
        let story = Story::begin().await;
        let instance = running(&story).await;
        let node = instance["status"]["nodeName"].as_str().unwrap();
        let cordon = json!({ "spec": { "unschedulable": true } });
        story.patch("Node", node, cordon).await;
        let pods = story.list("Pod").await;
        let pod = pods[0]["metadata"]["name"].as_str().unwrap();
        let eviction = json!({
            "apiVersion": "policy/v1", "kind": "Eviction",
            "metadata": { "name": pod, "namespace": story.namespace },
        });
        let request = http::Request::post(format!(
            "/api/v1/namespaces/{}/pods/{pod}/eviction",
            story.namespace
        ))
        .header("content-type", "application/json")
        .body(eviction.to_string().into_bytes())
        .unwrap();
        story.client.request_text(request).await.unwrap();
        let another = until_another_runs(&story, &instance).await;
        assert_ne!(another["status"]["nodeName"], node);
        let reasons = story.reasons("web").await;
        assert!(
            !reasons.iter().any(|reason| reason == "StoppedByOther"),
            "{reasons:?}"
        );
    });
}
