//! What the operator shows of Machines to those who watch over many.

use serde_json::{Value, json};

use crate::{
    ground::tell,
    story::{Story, condition},
};

/// Seconds since 1970 of a time in an object.
fn seconds(time: &Value) -> f64 {
    let time: jiff::Timestamp = time.as_str().unwrap().parse().unwrap();
    let seconds = i32::try_from(time.as_second()).unwrap();
    seconds.into()
}

#[test]
fn a_machine_that_hangs_is_seen_from_afar_and_so_is_its_end() {
    tell(async {
        let mut story = Story::begin().await;
        // Nobody makes volumes of this class.
        let class = json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
            "metadata": { "name": "by-hand" },
            "provisioner": "kubernetes.io/no-provisioner",
        });
        story.give(class).await;
        let disks = json!([{ "name": "root", "storageClass": "by-hand" }]);
        let spec = json!({ "template": "small", "disks": disks });
        story.machine("web", spec).await;
        let machine = story.until_phase("web", "Creating").await;
        story.wait(1200).await;

        let created = seconds(&machine["metadata"]["creationTimestamp"]);
        let waits = r#"machine_waiting_oldest_timestamp_seconds{waits_for="storage"}"#;
        let phase = r#"machine_phase_oldest_timestamp_seconds{phase="Creating"}"#;
        let claims = r#"claims_pending{storage_class="by-hand"}"#;
        let claim = r#"claim_pending_oldest_timestamp_seconds{storage_class="by-hand"}"#;
        let shown =
            |story: &Story| [waits, phase, claims, claim].map(|series| story.figure(series));
        let before = shown(&story);
        for since in [before[0], before[1], before[3]] {
            assert!(
                (created..created + 5.0).contains(&since.unwrap()),
                "{before:?}"
            );
        }
        assert_eq!(before[2], Some(1.0));

        // Another process finds the same.
        story.stop_operator().await;
        story.start_operator();
        story.wait(60).await;
        assert_eq!(shown(&story), before);

        story.delete("Machine", "web").await;
        story.until_gone("Machine", "web").await;
        story.wait(5).await;
        assert_eq!(shown(&story), [None; 4]);
    });
}

#[test]
fn the_time_to_the_first_start_is_counted_once() {
    tell(async {
        let story = Story::begin().await;
        story.machine("web", json!({ "template": "small" })).await;
        let machine = story.until_phase("web", "Running").await;
        story.wait(5).await;
        let ready = seconds(&condition(&machine, "Ready")["lastTransitionTime"]);
        let took = ready - seconds(&machine["metadata"]["creationTimestamp"]);
        let count = || story.figure("machine_start_duration_seconds_count");
        assert_eq!(count(), Some(1.0));
        assert_eq!(
            story.figure("machine_start_duration_seconds_sum"),
            Some(took)
        );
        let phase = r#"machine_phase_oldest_timestamp_seconds{phase="Running"}"#;
        assert_eq!(story.figure(phase), Some(ready));

        for state in ["Stopped", "Running"] {
            story.change("web", json!({ "powerState": state })).await;
            story.until_phase("web", state).await;
        }
        story.wait(5).await;
        assert_eq!(count(), Some(1.0));
    });
}

#[test]
fn a_machine_that_cannot_go_is_seen_from_afar() {
    tell(async {
        let story = Story::begin().await;
        story.machine("web", json!({ "template": "small" })).await;
        story.until_phase("web", "Running").await;
        let held = json!({ "metadata": { "finalizers": ["example.com/held"] } });
        story.patch("VirtualMachine", "web", held).await;
        story.delete("Machine", "web").await;
        story.wait(600).await;
        let machine = story.get("Machine", "web").await;
        let waits = r#"machine_waiting_oldest_timestamp_seconds{waits_for="deletion"}"#;
        let since = seconds(&machine["metadata"]["deletionTimestamp"]);
        assert_eq!(story.figure(waits), Some(since));
        let phase = r#"machine_phase_oldest_timestamp_seconds{phase="Running"}"#;
        assert_eq!(story.figure(phase), None);

        let free = json!({ "metadata": { "finalizers": null } });
        story.patch("VirtualMachine", "web", free).await;
        story.until_gone("Machine", "web").await;
        story.wait(5).await;
        assert_eq!(story.figure(waits), None);
    });
}
