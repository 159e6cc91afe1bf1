//! Status of a virtual machine whose lifecycle was recorded.

use api::{Phase, kubevirt::ObservedInstance};
use k8s_openapi::jiff::SignedDuration;
use rstest::rstest;
use serde_json::{Value, json};

use super::{World, at, object, owner};
use crate::kubevirt::releases::Source;

/// Replays the recorded VM as if Machine `web` had created it.
fn replay(world: &mut World, event: &Value) {
    let started = at("2026-11-15T02:15:31.640Z");
    let seconds = SignedDuration::from_secs_f64(event["t"].as_f64().unwrap());
    world.now.0 = started.0 + seconds;
    let mut observed = event["object"].clone();
    let is_gone = event["type"] == "DELETED";
    match observed["kind"].as_str().unwrap() {
        "VirtualMachine" => {
            observed["metadata"]["ownerReferences"] = json!([owner("Machine", "m1")]);
            // The machine is stopped and started by its Machine.
            let power = if observed["spec"]["runStrategy"] == "Halted" {
                "Stopped"
            } else {
                "Running"
            };
            world.machine.spec.power_state = Some(object(json!(power)));
            world.vm = (!is_gone).then(|| object(observed));
        }
        "VirtualMachineInstance" => {
            let instance: ObservedInstance = object(observed);
            world.instance = (!is_gone).then_some(instance);
        }
        _ => {
            observed["metadata"]["name"] = json!("web-root");
            world.claims = if is_gone {
                vec![]
            } else {
                vec![object(observed)]
            };
        }
    }
}

#[rstest]
#[case::fixtures(Source::Fixtures)]
#[ignore = "needs KUBEVIRT_OPERATOR_DATA"]
#[case::real_data(Source::RealData)]
fn the_recorded_lifecycle_needs_few_status_writes(#[case] source: Source) {
    let mut world = World::new(json!({}));
    let mut written: Vec<(f64, Phase, String)> = Vec::new();
    let mut until_running = 0;
    for event in &source.lifecycle() {
        let time = event["t"].as_f64().unwrap();
        if event["object"]["metadata"]["deletionTimestamp"].is_string() && time > 80.0 {
            break;
        }
        replay(&mut world, event);
        world.reconcile();
        let now = (world.phase(), world.ready());
        if written
            .last()
            .is_none_or(|(_, phase, ready)| (phase, ready) != (&now.0, &now.1))
        {
            written.push((time, now.0, now.1));
        }
        if until_running == 0 && world.phase() == Phase::Running {
            until_running = world.written.len();
        }
    }
    let reported: Vec<String> = written
        .iter()
        .map(|(time, phase, ready)| format!("{time:.0} {phase:?} {ready}"))
        .collect();
    assert_eq!(
        reported,
        [
            "5 Creating False Creating",
            "22 Running True Running",
            "40 Running False Stopping",
            "40 Stopped False Stopped",
            "53 Stopped False Starting",
            "61 Running True Running",
            "66 Failed False Crashed",
        ]
    );
    assert_eq!(until_running, 3, "writes until it runs");
    let reasons: Vec<&str> = world
        .events
        .iter()
        .map(|event| event.split(':').next().unwrap())
        .collect();
    assert_eq!(reasons, ["Started", "Stopped", "Started", "Crashed"]);
}
