//! Disks whose Machine is gone.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use crate::{
    runner::{run_scenario, run_scenario_with_controllers},
    scenario::Scenario,
};

const CLAIM: &str = "PersistentVolumeClaim";

/// Number of orphaned disks of the scenario's namespace in the metrics.
fn counted(scenario: &Scenario) -> Option<f64> {
    let namespace = &scenario.namespace;
    scenario.metric(&format!(
        "orphaned_disks{{machine_namespace=\"{namespace}\"}}"
    ))
}

async fn until_counted(scenario: &Scenario, count: Option<f64>) {
    let counting = async {
        while counted(scenario) != count {
            sleep(Duration::from_secs(1)).await;
        }
    };
    let waited = timeout(scenario.cluster.timeout(), counting).await;
    assert!(waited.is_ok(), "{:?}, not {count:?}", counted(scenario));
}

/// Events of the claim, once the operator has written them.
async fn claim_events(scenario: &Scenario, claim: &Value) -> Vec<Value> {
    scenario.wait(2).await;
    let mut events = scenario.list("Event").await;
    events.retain(|event| {
        event["reason"] == "DiskOrphaned"
            && event["involvedObject"]["uid"] == claim["metadata"]["uid"]
    });
    events
}

/// Deletes a Machine by removing its finalizer while the operator is down.
async fn remove(scenario: &mut Scenario, machine: &str) {
    scenario.stop_operator().await;
    let free = json!({ "metadata": { "finalizers": null } });
    scenario.patch("Machine", machine, free).await;
    scenario.delete("Machine", machine).await;
    scenario.until_gone("Machine", machine).await;
    scenario.until_gone("VirtualMachine", machine).await;
    scenario.until_gone("VirtualMachineInstance", machine).await;
}

#[test]
fn an_orphaned_disk_is_reported_once_and_kept() {
    run_scenario_with_controllers(async {
        let mut scenario = Scenario::start().await;
        scenario
            .create_machine("web", json!({ "template": "small" }))
            .await;
        scenario.until_phase("web", "Running").await;
        let claim = scenario.get(CLAIM, "web-root").await;
        remove(&mut scenario, "web").await;

        scenario.start_operator();
        until_counted(&scenario, Some(1.0)).await;
        let found = claim_events(&scenario, &claim).await;
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0]["type"], "Warning");
        assert_eq!(found[0]["involvedObject"]["kind"], CLAIM);
        let message = found[0]["message"].as_str().unwrap();
        assert!(message.starts_with("Machine web, which"), "{message}");
        scenario.wait(600).await;
        let found = claim_events(&scenario, &claim).await;
        assert_eq!(found.len(), 1);
        assert!(found[0]["count"] == 1, "{:?}", found[0]);
        let kept = scenario.get(CLAIM, "web-root").await;
        assert_eq!(kept["metadata"]["uid"], claim["metadata"]["uid"]);
        assert!(kept["metadata"]["deletionTimestamp"].is_null());

        // Another Machine of the same name does not own the disk until it adopts it.
        scenario
            .create_machine("web", json!({ "template": "small" }))
            .await;
        scenario.until_reason("web", "ForeignObject").await;
        scenario.wait(60).await;
        assert_eq!(counted(&scenario), Some(1.0));
        let adopts =
            json!({ "metadata": { "annotations": { "vitistack.io/adopt-disks": "true" } } });
        scenario.patch("Machine", "web", adopts).await;
        scenario.until_phase("web", "Running").await;
        until_counted(&scenario, None).await;
        assert_eq!(claim_events(&scenario, &claim).await.len(), 1);
    });
}

#[test]
fn retained_disks_and_disks_of_existing_machines_are_not_orphans() {
    run_scenario_with_controllers(async {
        let mut scenario = Scenario::start().await;
        scenario
            .create_machine("web", json!({ "template": "small" }))
            .await;
        scenario
            .create_machine("shop", json!({ "template": "small" }))
            .await;
        scenario.until_phase("web", "Running").await;
        scenario.until_phase("shop", "Running").await;
        let claim = scenario.get(CLAIM, "web-root").await;
        remove(&mut scenario, "web").await;
        scenario.start_operator();
        until_counted(&scenario, Some(1.0)).await;
        let retained = json!({ "metadata": { "labels": { "vitistack.io/retained": "true" } } });
        scenario.patch(CLAIM, "web-root", retained).await;
        until_counted(&scenario, None).await;
        assert_eq!(claim_events(&scenario, &claim).await.len(), 1);
        let other = scenario.get(CLAIM, "shop-root").await;
        assert_eq!(claim_events(&scenario, &other).await, [] as [Value; 0]);
    });
}

#[test]
fn disks_of_a_machine_being_deleted_are_not_orphans() {
    run_scenario(async {
        let scenario = Scenario::start().await;
        for policy in ["Delete", "Retain"] {
            let spec = json!({ "template": "small", "deletionPolicy": policy });
            scenario.create_machine("web", spec).await;
            scenario.until_phase("web", "Running").await;
            let claim = scenario.get(CLAIM, "web-root").await;
            scenario.delete("Machine", "web").await;
            scenario.until_gone("Machine", "web").await;
            scenario.wait(120).await;
            assert_eq!(counted(&scenario), None, "{policy}");
            assert_eq!(
                claim_events(&scenario, &claim).await,
                [] as [Value; 0],
                "{policy}"
            );
        }
    });
}
