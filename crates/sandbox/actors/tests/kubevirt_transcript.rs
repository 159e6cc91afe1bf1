//! Comparison of the KubeVirt actors with recordings of a VM's life.
//!
//! The fixture is what the actors wrote when they equalled the recording of KubeVirt v1.9.0. That one is not
//! part of the repository: `KUBEVIRT_OPERATOR_DATA` names the directory that contains
//! `kubevirt/transcripts`. It has a real virt-api and virt-controller, with kubelet and virt-handler
//! simulated by hand. The test does the same: it runs the controllers of this crate and simulates the node
//! with the recorded values. They must write exactly the recorded states of the VM and its VMIs, in that
//! order. After a change of the actors, `UPDATE_GENERATED=1` writes the fixture anew.
//!
//! Tolerated, because two real runs differ in it:
//! - the order of VM events relative to VMI events: watches of two kinds are not ordered;
//! - UIDs, times, resource versions and generations;
//! - the order of conditions, and events that change only that: virt-controller removes some conditions
//!   and adds them again;
//! - the order in which the two finalizers of a VMI are removed (the launcher image goes with one of
//!   them), and whether `activePods` is set before the pod has a node: the recording has both variants;
//! - `retryAfterTimestamp`, which has jitter: its range is checked instead.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

#[path = "lifecycle/recording.rs"]
mod recording;
#[path = "lifecycle/world.rs"]
mod world;

use std::collections::BTreeSet;

use actors::{
    Kind,
    kind::{CLAIM, CONTROLLER_REVISION, POD},
    kubevirt::{VM, VMI, default_vm},
    object::{annotation, list, name, number, text, time, uid},
};
use recording::{Recorded, Source, at};
use rstest::rstest;
use serde_json::{Value, json};
use world::World;

/// A state without the fields that may differ between runs.
fn normalised(object: &Value) -> Value {
    let mut object = object.clone();
    let metadata = object["metadata"].as_object_mut().unwrap();
    for field in [
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "ownerReferences",
    ] {
        metadata.remove(field);
    }
    let one_left = list(&object, "/metadata/finalizers").len() == 1;
    if object["kind"] == VMI.kind && one_left {
        object["metadata"]["finalizers"] = json!(["one of the two"]);
        let status = object["status"].as_object_mut().unwrap();
        status.remove("launcherContainerImageVersion");
    }
    if let Some(annotations) = object
        .pointer_mut("/metadata/annotations")
        .and_then(Value::as_object_mut)
    {
        annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
        if annotations.is_empty() {
            object["metadata"]
                .as_object_mut()
                .unwrap()
                .remove("annotations");
        }
    }
    if let Some(status) = object.get_mut("status").and_then(Value::as_object_mut) {
        if let Some(failure) = status
            .get_mut("startFailure")
            .and_then(Value::as_object_mut)
        {
            failure.remove("lastFailedVMIUID");
            failure.remove("retryAfterTimestamp");
        }
        if let Some(pods) = status.remove("activePods") {
            let nodes: BTreeSet<&str> = pods
                .as_object()
                .unwrap()
                .values()
                .filter_map(Value::as_str)
                .collect();
            if nodes.iter().any(|node| !node.is_empty()) {
                status.insert("activePods".to_owned(), json!(nodes));
            }
        }
        if let Some(transitions) = status
            .get_mut("phaseTransitionTimestamps")
            .and_then(Value::as_array_mut)
        {
            for transition in transitions {
                transition
                    .as_object_mut()
                    .unwrap()
                    .remove("phaseTransitionTimestamp");
            }
        }
        if let Some(conditions) = status.get_mut("conditions").and_then(Value::as_array_mut) {
            for condition in conditions.iter_mut() {
                let condition = condition.as_object_mut().unwrap();
                condition.remove("lastProbeTime");
                condition.remove("lastTransitionTime");
            }
            conditions.sort_by_key(|condition| condition["type"].as_str().unwrap().to_owned());
        }
    }
    object
}

fn states<'a>(kind: Kind, events: impl Iterator<Item = &'a Value>) -> Vec<Value> {
    let mut states: Vec<Value> = Vec::new();
    for object in events.filter(|object| object["kind"] == kind.kind) {
        let state = normalised(object);
        if states.last() != Some(&state) {
            states.push(state);
        }
    }
    states
}

/// Replays the recorded sequence and returns the events of what was written.
fn play(recording: &[Recorded]) -> Vec<Recorded> {
    let mut vm = at(recording, VM, 5.36).clone();
    vm["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("resourceVersion");
    let mut world = World::new(time(&vm, "/metadata/creationTimestamp").unwrap(), 5.36);
    world.store(VM, vm);
    world.settle();

    // The claim is created and bound within 40 ms; virt-controller observed it as one change.
    world.wait_until(11.52);
    let claim = recording
        .iter()
        .find(|event| {
            event.object["kind"] == CLAIM.kind && event.object["status"]["phase"] == "Bound"
        })
        .unwrap();
    world.store(CLAIM, claim.object.clone());
    world.settle();

    world.wait_until(21.95);
    let by_hand = |at: &Value| json!({ "status": { "phase": at["status"]["phase"], "interfaces": at["status"]["interfaces"], "conditions": at["status"]["conditions"] } });
    world.edit(VMI, "x", &by_hand(at(recording, VMI, 21.95)));

    world.wait_until(28.09);
    let memory = json!({ "memory": { "guest": "6Gi" } });
    world.edit(
        VM,
        "x",
        &json!({ "spec": { "template": { "spec": { "domain": memory } } } }),
    );

    world.wait_until(34.21);
    let cpu = json!({ "cpu": { "sockets": 2 } });
    world.edit(
        VM,
        "x",
        &json!({ "spec": { "template": { "spec": { "domain": cpu } } } }),
    );

    world.wait_until(40.34);
    world.edit(VM, "x", &json!({ "spec": { "runStrategy": "Halted" } }));

    world.wait_until(52.89);
    world.edit(VM, "x", &json!({ "spec": { "runStrategy": "Always" } }));

    world.wait_until(61.37);
    world.edit(VMI, "x", &by_hand(at(recording, VMI, 61.37)));

    // The recorded pod was deleted before virt-controller observed it again.
    world.wait_until(65.76);
    world.pods_linger = false;
    world.edit(VMI, "x", &by_hand(at(recording, VMI, 65.76)));
    assert_retry(&world, 1, 10, 15);

    world.pods_linger = true;
    let retry = "/status/startFailure/retryAfterTimestamp";
    let delay = time(world.get(VM, "x"), retry).unwrap() - world.now;
    world.wait_until(65.76 + delay.total(jiff::Unit::Second).unwrap());
    world.settle();

    world.wait_until(80.26);
    let vm = world.get(VM, "x").clone();
    world.delete(VM, &vm);
    world.settle();
    assert!(
        !world
            .objects
            .keys()
            .any(|(kind, _)| [VM, VMI, POD].contains(kind))
    );
    world.events
}

fn assert_retry(world: &World, failures: i64, from: i64, to: i64) {
    let vm = world.get(VM, "x");
    assert_eq!(
        number(vm, "/status/startFailure/consecutiveFailCount"),
        Some(failures)
    );
    let retry = time(vm, "/status/startFailure/retryAfterTimestamp").unwrap();
    let delay = retry.as_second() - world.now.as_second();
    assert!((from..=to).contains(&delay), "{delay}");
}

/// Fails with the fields that differ first.
fn compare(kind: Kind, actual: &[Value], expected: &[Value]) {
    for (index, (actual, expected)) in actual.iter().zip(expected).enumerate() {
        let mut differences = Vec::new();
        differ(actual, expected, "", &mut differences);
        assert!(
            differences.is_empty(),
            "state {index} of the {}, actual and recorded:\n{}",
            kind.kind,
            differences.join("\n")
        );
    }
    let (actual, expected) = (actual.len(), expected.len());
    assert_eq!(actual, expected, "number of states of the {}", kind.kind);
}

fn differ(actual: &Value, expected: &Value, path: &str, found: &mut Vec<String>) {
    match (actual, expected) {
        (Value::Object(mine), Value::Object(other)) => {
            let keys: BTreeSet<&String> = mine.keys().chain(other.keys()).collect();
            for key in keys {
                differ(
                    &actual[key],
                    &expected[key],
                    &format!("{path}/{key}"),
                    found,
                );
            }
        }
        _ if actual != expected => found.push(format!("{path}: {actual} {expected}")),
        _ => {}
    }
}

#[rstest]
#[case::fixtures(Source::Fixtures)]
#[ignore = "needs KUBEVIRT_OPERATOR_DATA"]
#[case::real_data(Source::RealData)]
fn the_states_of_a_vm_and_its_vmis_are_those_of_the_recording(#[case] source: Source) {
    if source == Source::Fixtures && std::env::var_os("UPDATE_GENERATED").is_some() {
        recording::write(&play(&recording::inputs()));
    }
    let recording = source.recording();
    let written = play(&recording);
    let of = |kind, recording: &[Recorded]| {
        let events = recording.iter();
        let events = events.filter(|event| event.of_type != "DELETED");
        states(kind, events.map(|event| &event.object))
    };
    for kind in [VM, VMI] {
        let expected = of(kind, &recording);
        assert!(expected.len() >= 20, "{}", expected.len());
        compare(kind, &of(kind, &written), &expected);
    }
}

#[rstest]
#[case::fixtures(Source::Fixtures)]
#[ignore = "needs KUBEVIRT_OPERATOR_DATA"]
#[case::real_data(Source::RealData)]
fn a_vm_is_filled_in_as_virt_api_does(#[case] source: Source) {
    let recording = source.recording();
    let recorded = at(&recording, VM, 5.36);
    let applied = annotation(recorded, "kubectl.kubernetes.io/last-applied-configuration").unwrap();
    let mut vm: Value = serde_json::from_str(applied).unwrap();
    default_vm(&mut vm, None, 7);
    for field in ["uuid", "serial"] {
        let pointer = format!("/spec/template/spec/domain/firmware/{field}");
        assert_eq!(text(&vm, &pointer).len(), 36);
        *vm.pointer_mut(&pointer).unwrap() = recorded.pointer(&pointer).unwrap().clone();
    }
    assert_eq!(vm["spec"], recorded["spec"]);
}

#[rstest]
#[case::fixtures(Source::Fixtures)]
#[ignore = "needs KUBEVIRT_OPERATOR_DATA"]
#[case::real_data(Source::RealData)]
fn a_start_is_kept_in_one_revision(#[case] source: Source) {
    let recording = source.recording();
    let written = play(&recording);
    let revisions: Vec<&str> = written
        .iter()
        .filter(|event| event.object["kind"] == CONTROLLER_REVISION.kind)
        .map(|event| name(&event.object))
        .collect();
    let vm = uid(at(&recording, VM, 5.36));
    let expected = [1, 5].map(|generation| format!("revision-start-vm-{vm}-{generation}"));
    assert_eq!(revisions, expected);
}
