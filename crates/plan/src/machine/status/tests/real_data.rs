//! Status of a virtual machine whose lifecycle was recorded from KubeVirt v1.9.0.
//!
//! The recording is not part of the repository: `KUBEVIRT_OPERATOR_DATA` names the folder that
//! holds `kubevirt/transcripts`.
#![allow(clippy::disallowed_methods, reason = "a test reads its recording")]

use std::{env, fs, path::PathBuf};

use api::{Phase, kubevirt::ObservedInstance};
use k8s_openapi::jiff::SignedDuration;
use serde_json::{Value, json};

use super::{World, at, object, owner};

fn recording() -> Vec<Value> {
    let data = env::var_os("KUBEVIRT_OPERATOR_DATA").map(PathBuf::from);
    let data = data.expect("KUBEVIRT_OPERATOR_DATA names the folder with the recording");
    let file = data.join("kubevirt/transcripts/vm-lifecycle-v1.9.0.jsonl");
    let lines =
        fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

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

#[test]
#[ignore = "needs KUBEVIRT_OPERATOR_DATA"]
fn the_recorded_lifecycle_needs_few_status_writes() {
    let mut world = World::new(json!({}));
    let mut written: Vec<(f64, Phase, String)> = Vec::new();
    let mut until_running = 0;
    for event in &recording() {
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
    let stories: Vec<String> = written
        .iter()
        .map(|(time, phase, ready)| format!("{time} {phase:?} {ready}"))
        .collect();
    assert_eq!(
        stories,
        [
            "5.36 Creating False Creating",
            "21.95 Running True Running",
            "40.34 Running False Stopping",
            "40.44 Stopped False Stopped",
            "52.89 Stopped False Starting",
            "61.37 Running True Running",
            "65.76 Failed False Crashed",
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
