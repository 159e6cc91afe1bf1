//! Protection of Machines from deletion.

use serde_json::json;

use crate::{
    runner::{run_scenario, run_scenario_alone},
    scenario::{Scenario, condition},
};

#[test]
fn a_protected_machine_that_is_deleted_runs_on_until_the_protection_is_switched_off() {
    run_scenario(async {
        let scenario = Scenario::start().await;
        let spec = json!({ "template": "small", "deletionProtection": true });
        scenario.create_machine("web", spec).await;
        scenario.until_phase("web", "Running").await;
        let instance = scenario.get("VirtualMachineInstance", "web").await;
        scenario.delete("Machine", "web").await;
        let blocked = scenario
            .until_condition("web", "DeletionBlocked", "True")
            .await;
        assert_eq!(blocked["reason"], "DeletionProtection");
        let message = blocked["message"].as_str().unwrap();
        assert!(
            message.contains("set spec.deletionProtection to false"),
            "{message}"
        );
        assert!(scenario.has_event("web", "DeletionBlocked").await);

        scenario.wait_long().await;
        let machine = scenario.get("Machine", "web").await;
        assert_eq!(machine["status"]["phase"], "Running");
        assert_eq!(condition(&machine, "Ready")["status"], "True");
        let later = scenario.get("VirtualMachineInstance", "web").await;
        assert_eq!(later["metadata"]["uid"], instance["metadata"]["uid"]);
        for (kind, name) in [
            ("VirtualMachine", "web"),
            ("PersistentVolumeClaim", "web-root"),
        ] {
            let child = scenario.get(kind, name).await;
            assert!(child["metadata"]["deletionTimestamp"].is_null(), "{kind}");
        }

        scenario
            .patch_spec("web", json!({ "deletionProtection": false }))
            .await;
        scenario.until_gone("Machine", "web").await;
        scenario.until_gone("VirtualMachine", "web").await;
        scenario
            .until_gone("PersistentVolumeClaim", "web-root")
            .await;
    });
}

#[test]
fn a_blocked_deletion_survives_a_restart_of_the_operator_and_writes_nothing() {
    run_scenario_alone(&[], async {
        let mut scenario = Scenario::start().await;
        let spec = json!({ "template": "small", "deletionProtection": true });
        scenario.create_machine("web", spec).await;
        scenario.until_phase("web", "Running").await;
        scenario.delete("Machine", "web").await;
        scenario
            .until_condition("web", "DeletionBlocked", "True")
            .await;
        scenario.wait(5).await;
        scenario.stop_operator().await;
        scenario.calls.take();
        scenario.start_operator();
        scenario.wait(60).await;
        let calls = scenario.calls.take();
        let writes: Vec<_> = calls
            .into_iter()
            .filter(|((verb, resource, _), _)| {
                !["list", "watch", "get"].contains(verb) && resource != "leases"
            })
            .collect();
        assert!(writes.is_empty(), "{writes:?}");
    });
}
