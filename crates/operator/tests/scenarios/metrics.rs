//! Metrics of Machines.

use serde_json::{Value, json};

use crate::{
    runner::run_scenario,
    scenario::{Scenario, condition},
};

/// Unix time of a timestamp in an object.
fn seconds(time: &Value) -> f64 {
    let time: jiff::Timestamp = time.as_str().unwrap().parse().unwrap();
    let seconds = i32::try_from(time.as_second()).unwrap();
    seconds.into()
}

#[test]
fn metrics_show_a_stuck_machine_and_its_recovery() {
    run_scenario(async {
        let mut scenario = Scenario::start().await;
        // No provisioner serves this class.
        let class = json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
            "metadata": { "name": "by-hand" },
            "provisioner": "kubernetes.io/no-provisioner",
        });
        scenario.apply_object(class).await;
        let disks = json!([{ "name": "root", "storageClass": "by-hand" }]);
        let spec = json!({ "template": "small", "disks": disks });
        scenario.create_machine("web", spec).await;
        let machine = scenario.until_phase("web", "Creating").await;
        scenario.wait(1200).await;

        let created = seconds(&machine["metadata"]["creationTimestamp"]);
        let waits = r#"machine_waiting_oldest_timestamp_seconds{waits_for="storage"}"#;
        let phase = r#"machine_phase_oldest_timestamp_seconds{phase="Creating"}"#;
        let claims = r#"claims_pending{storage_class="by-hand"}"#;
        let claim = r#"claim_pending_oldest_timestamp_seconds{storage_class="by-hand"}"#;
        let shown = |scenario: &Scenario| {
            [waits, phase, claims, claim].map(|series| scenario.metric(series))
        };
        let before = shown(&scenario);
        for since in [before[0], before[1], before[3]] {
            assert!(
                (created..created + 5.0).contains(&since.unwrap()),
                "{before:?}"
            );
        }
        assert_eq!(before[2], Some(1.0));

        // Another process reports the same.
        scenario.stop_operator().await;
        scenario.start_operator();
        scenario.wait(60).await;
        assert_eq!(shown(&scenario), before);

        scenario.delete("Machine", "web").await;
        scenario.until_gone("Machine", "web").await;
        scenario.wait(5).await;
        assert_eq!(shown(&scenario), [None; 4]);
    });
}

#[test]
fn the_time_to_the_first_start_is_counted_once() {
    run_scenario(async {
        let scenario = Scenario::start().await;
        scenario
            .create_machine("web", json!({ "template": "small" }))
            .await;
        let machine = scenario.until_phase("web", "Running").await;
        scenario.wait(5).await;
        let ready = seconds(&condition(&machine, "Ready")["lastTransitionTime"]);
        let took = ready - seconds(&machine["metadata"]["creationTimestamp"]);
        let count = || scenario.metric("machine_start_duration_seconds_count");
        assert_eq!(count(), Some(1.0));
        assert_eq!(
            scenario.metric("machine_start_duration_seconds_sum"),
            Some(took)
        );
        let phase = r#"machine_phase_oldest_timestamp_seconds{phase="Running"}"#;
        assert_eq!(scenario.metric(phase), Some(ready));

        for state in ["Stopped", "Running"] {
            scenario
                .patch_spec("web", json!({ "powerState": state }))
                .await;
            scenario.until_phase("web", state).await;
        }
        scenario.wait(5).await;
        assert_eq!(count(), Some(1.0));
    });
}

#[test]
fn metrics_show_a_machine_whose_deletion_is_stuck() {
    run_scenario(async {
        let scenario = Scenario::start().await;
        scenario
            .create_machine("web", json!({ "template": "small" }))
            .await;
        scenario.until_phase("web", "Running").await;
        let finalizers = json!({ "metadata": { "finalizers": ["example.com/hold"] } });
        scenario.patch("VirtualMachine", "web", finalizers).await;
        scenario.delete("Machine", "web").await;
        scenario.wait(600).await;
        let machine = scenario.get("Machine", "web").await;
        let waits = r#"machine_waiting_oldest_timestamp_seconds{waits_for="deletion"}"#;
        let since = seconds(&machine["metadata"]["deletionTimestamp"]);
        assert_eq!(scenario.metric(waits), Some(since));
        let phase = r#"machine_phase_oldest_timestamp_seconds{phase="Running"}"#;
        assert_eq!(scenario.metric(phase), None);

        let free = json!({ "metadata": { "finalizers": null } });
        scenario.patch("VirtualMachine", "web", free).await;
        scenario.until_gone("Machine", "web").await;
        scenario.wait(5).await;
        assert_eq!(scenario.metric(waits), None);
    });
}
