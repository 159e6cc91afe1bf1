//! Disks whose Machine is gone.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use crate::{
    ground::{tell, tell_with_controllers},
    story::Story,
};

const CLAIM: &str = "PersistentVolumeClaim";

/// How many disks of the story's namespace the operator counts.
fn counted(story: &Story) -> Option<f64> {
    let namespace = &story.namespace;
    story.figure(&format!(
        "orphaned_disks{{machine_namespace=\"{namespace}\"}}"
    ))
}

async fn until_counted(story: &Story, count: Option<f64>) {
    let counting = async {
        while counted(story) != count {
            sleep(Duration::from_secs(1)).await;
        }
    };
    let waited = timeout(story.ground.patience(), counting).await;
    assert!(waited.is_ok(), "{:?}, not {count:?}", counted(story));
}

/// The Events on the claim, once the operator has sent them.
async fn reports(story: &Story, claim: &Value) -> Vec<Value> {
    story.wait(2).await;
    let mut events = story.list("Event").await;
    events.retain(|event| {
        event["reason"] == "DiskOrphaned"
            && event["involvedObject"]["uid"] == claim["metadata"]["uid"]
    });
    events
}

/// Deletes a Machine past the operator, as somebody does who removes its finalizer by hand.
async fn remove(story: &mut Story, machine: &str) {
    story.stop_operator().await;
    let free = json!({ "metadata": { "finalizers": null } });
    story.patch("Machine", machine, free).await;
    story.delete("Machine", machine).await;
    story.until_gone("Machine", machine).await;
    story.until_gone("VirtualMachine", machine).await;
    story.until_gone("VirtualMachineInstance", machine).await;
}

#[test]
fn a_disk_whose_machine_is_gone_is_reported_once_and_kept() {
    tell_with_controllers(async {
        let mut story = Story::begin().await;
        story.machine("web", json!({ "template": "small" })).await;
        story.until_phase("web", "Running").await;
        let claim = story.get(CLAIM, "web-root").await;
        remove(&mut story, "web").await;

        story.start_operator();
        until_counted(&story, Some(1.0)).await;
        let found = reports(&story, &claim).await;
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0]["type"], "Warning");
        assert_eq!(found[0]["involvedObject"]["kind"], CLAIM);
        let message = found[0]["message"].as_str().unwrap();
        assert!(message.starts_with("Machine web, which"), "{message}");
        story.wait(600).await;
        let found = reports(&story, &claim).await;
        assert_eq!(found.len(), 1);
        assert!(found[0]["count"] == 1, "{:?}", found[0]);
        let kept = story.get(CLAIM, "web-root").await;
        assert_eq!(kept["metadata"]["uid"], claim["metadata"]["uid"]);
        assert!(kept["metadata"]["deletionTimestamp"].is_null());

        // Another Machine of the name is not the one that the disk was made for, until it adopts it.
        story.machine("web", json!({ "template": "small" })).await;
        story.until_reason("web", "ForeignObject").await;
        story.wait(60).await;
        assert_eq!(counted(&story), Some(1.0));
        let adopts =
            json!({ "metadata": { "annotations": { "vitistack.io/adopt-disks": "true" } } });
        story.patch("Machine", "web", adopts).await;
        story.until_phase("web", "Running").await;
        until_counted(&story, None).await;
        assert_eq!(reports(&story, &claim).await.len(), 1);
    });
}

#[test]
fn a_disk_that_is_retained_is_not_reported_and_no_machine_that_exists_is() {
    tell_with_controllers(async {
        let mut story = Story::begin().await;
        story.machine("web", json!({ "template": "small" })).await;
        story.machine("shop", json!({ "template": "small" })).await;
        story.until_phase("web", "Running").await;
        story.until_phase("shop", "Running").await;
        let claim = story.get(CLAIM, "web-root").await;
        remove(&mut story, "web").await;
        story.start_operator();
        until_counted(&story, Some(1.0)).await;
        let retained = json!({ "metadata": { "labels": { "vitistack.io/retained": "true" } } });
        story.patch(CLAIM, "web-root", retained).await;
        until_counted(&story, None).await;
        assert_eq!(reports(&story, &claim).await.len(), 1);
        let other = story.get(CLAIM, "shop-root").await;
        assert_eq!(reports(&story, &other).await, [] as [Value; 0]);
    });
}

#[test]
fn disks_of_a_machine_that_is_deleted_are_not_reported() {
    tell(async {
        let story = Story::begin().await;
        for policy in ["Delete", "Retain"] {
            let spec = json!({ "template": "small", "deletionPolicy": policy });
            story.machine("web", spec).await;
            story.until_phase("web", "Running").await;
            let claim = story.get(CLAIM, "web-root").await;
            story.delete("Machine", "web").await;
            story.until_gone("Machine", "web").await;
            story.wait(120).await;
            assert_eq!(counted(&story), None, "{policy}");
            assert_eq!(reports(&story, &claim).await, [] as [Value; 0], "{policy}");
        }
    });
}
