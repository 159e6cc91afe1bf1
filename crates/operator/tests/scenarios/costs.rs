//! Number of requests of the operator.

use std::{collections::BTreeMap, time::Duration};

use serde_json::json;

use crate::{
    runner::{run_scenario, run_scenario_alone},
    scenario::Scenario,
};

/// Requests by verb and resource, without watches and initial lists.
type Requests = BTreeMap<String, u64>;

fn take_requests(scenario: &Scenario) -> Requests {
    let calls = scenario.calls.take();
    let counted = calls
        .into_iter()
        .filter(|((verb, _, _), _)| *verb != "watch");
    let mut requests = Requests::new();
    for ((verb, resource, _), count) in counted {
        *requests.entry(format!("{verb} {resource}")).or_default() += count;
    }
    requests
}

fn expected<const N: usize>(counts: [(&str, u64); N]) -> Requests {
    counts.map(|(what, count)| (what.to_owned(), count)).into()
}

/// Starts an operator and waits until its caches are filled.
async fn settled() -> Scenario {
    let scenario = Scenario::start().await;
    scenario.wait(2).await;
    scenario.calls.take();
    scenario
}

#[test]
fn a_machine_with_one_disk_costs_six_writes_and_two_events_and_one_for_the_guest_agent() {
    run_scenario(async {
        let scenario = settled().await;
        scenario
            .create_machine("web", json!({ "template": "small" }))
            .await;
        let running = scenario.until_phase("web", "Running").await;
        assert!(running["status"]["operatingSystem"].is_null());
        // A watch may show a write before its response arrives, with which it is counted.
        assert!(scenario.writes("machines/status") <= 3);
        scenario.wait(3).await;
        let counts = expected([
            ("patch machines", 1),
            ("create persistentvolumeclaims", 1),
            ("create virtualmachines", 1),
            ("patch machines/status", 4),
            ("create events", 2),
        ]);
        assert_eq!(take_requests(&scenario), counts);
    });
}

#[test]
fn cloud_init_costs_one_write_more() {
    run_scenario(async {
        let scenario = settled().await;
        let spec = json!({ "template": "small", "cloudInit": { "userData": "#!/bin/sh" } });
        scenario.create_machine("web", spec).await;
        scenario.until_phase("web", "Running").await;
        scenario.wait(3).await;
        let counts = expected([
            ("patch machines", 1),
            ("create persistentvolumeclaims", 1),
            ("create secrets", 1),
            ("create virtualmachines", 1),
            ("patch machines/status", 4),
            ("create events", 2),
        ]);
        assert_eq!(take_requests(&scenario), counts);
    });
}

#[test]
fn an_idle_fleet_costs_no_requests() {
    run_scenario_alone(&[], async {
        let mut scenario = Scenario::for_many_machines().await;
        scenario
            .start_operator_with(|options| options.reconcile_interval = Duration::from_mins(10));
        for number in 0..200 {
            scenario.create_idle_machine(&format!("web-{number}")).await;
        }
        scenario.until_all("Stopped").await;
        assert_costs_nothing(&scenario).await;
    });
}

#[test]
fn running_machines_cost_no_requests() {
    run_scenario_alone(&[], async {
        let scenario = Scenario::start().await;
        for number in 0..3 {
            let spec = json!({ "template": "small", "cloudInit": { "userData": "#!/bin/sh" } });
            scenario
                .create_machine(&format!("web-{number}"), spec)
                .await;
        }
        scenario.until_all("Running").await;
        assert_costs_nothing(&scenario).await;
    });
}

/// Asserts that an hour of resyncs causes no request.
async fn assert_costs_nothing(scenario: &Scenario) {
    scenario.wait(60).await;
    scenario.calls.take();
    scenario.wait(3600).await;
    assert_eq!(take_requests(scenario), Requests::new());
}

#[test]
fn a_restart_of_the_operator_costs_the_initial_lists_only() {
    run_scenario(async {
        let mut scenario = settled().await;
        scenario
            .create_machine("web", json!({ "template": "small" }))
            .await;
        scenario.until_phase("web", "Running").await;
        scenario.wait(3).await;
        scenario.stop_operator().await;
        scenario.calls.take();
        scenario.start_operator();
        scenario.wait(5).await;
        let requests = take_requests(&scenario);
        assert_eq!(requests.len(), 13, "{requests:?}");
        for (what, count) in requests {
            if what == "get customresourcedefinitions" {
                // The operator writes only fields of the served schemas of Machines and networks.
                assert_eq!(count, 2);
                continue;
            }
            assert!(what.starts_with("list ") && count == 1, "{what}: {count}");
        }
    });
}

#[test]
fn a_deletion_costs_one_request_per_object_and_two_status_writes() {
    run_scenario(async {
        let scenario = settled().await;
        scenario
            .create_machine("web", json!({ "template": "small" }))
            .await;
        scenario.until_phase("web", "Running").await;
        scenario.wait(3).await;
        scenario.calls.take();
        scenario.delete("Machine", "web").await;
        scenario.until_gone("Machine", "web").await;
        scenario.wait(3).await;
        let counts = expected([
            ("delete virtualmachines", 1),
            // The status reports what the deletion waits for: VirtualMachine and instance, then one of
            // them.
            ("patch machines/status", 2),
            // Only a live read shows that the disk is unused.
            ("list virtualmachines", 1),
            ("list virtualmachineinstances", 1),
            ("delete persistentvolumeclaims", 1),
            // Only a live read shows whether there is a Secret to delete.
            ("get secrets", 1),
            ("patch machines", 1),
            ("create events", 1),
        ]);
        assert_eq!(take_requests(&scenario), counts);
    });
}
