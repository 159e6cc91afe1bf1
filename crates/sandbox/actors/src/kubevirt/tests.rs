//! Tests of each controller's behaviour.

use std::{collections::BTreeSet, time::Duration};

use rstest::rstest;
use serde_json::{Value, json};

use super::{
    Handler, MIGRATION, MigrationController, RESTORE, RestoreController, SNAPSHOT,
    SNAPSHOT_CONTENT, SnapshotController, VM, VMI, VmController, VmiController, default_vm,
};
use crate::{
    Key, Speed, Write,
    kind::{CONTROLLER_REVISION, POD},
    object::{condition, is_true, list, number, text},
    testing::{Fixture, created, deleted, reasons},
};

fn key() -> Key {
    Key::new("a", "x")
}

fn vm(strategy: &str) -> Value {
    let mut vm = json!({
        "metadata": {
            "name": "x",
            "namespace": "a",
            "uid": "vm",
            "generation": 1,
            "finalizers": ["kubevirt.io/virtualMachineControllerFinalize"],
            "annotations": { "kubevirt.io/latest-observed-api-version": "v1" },
        },
        "spec": {
            "runStrategy": strategy,
            "template": { "spec": {
                "domain": {
                    "cpu": { "cores": 2, "sockets": 1, "threads": 1 },
                    "memory": { "guest": "4Gi" },
                    "devices": { "interfaces": [{ "name": "default", "masquerade": {} }] },
                },
                "networks": [{ "name": "default", "pod": {} }],
            } },
        },
        "status": {},
    });
    default_vm(&mut vm, None, 1);
    vm
}

/// A started VM whose VMI is in this phase.
fn started(strategy: &str, phase: &str) -> Fixture {
    let mut fixture = Fixture::of([(VM, vm(strategy))]);
    let request = json!([{ "action": "Start" }]);
    let mut vm = Value::clone(&fixture.get(VM, "a", "x"));
    vm["status"]["stateChangeRequests"] = request;
    fixture.put(VM, vm);
    fixture.settle(&VmController, &key());
    edit(&mut fixture, |vmi| vmi["status"]["phase"] = phase.into());
    fixture.settle(&VmController, &key());
    fixture
}

fn edit(fixture: &mut Fixture, change: impl FnOnce(&mut Value)) {
    let mut vmi = Value::clone(&fixture.get(VMI, "a", "x"));
    change(&mut vmi);
    fixture.put(VMI, vmi);
}

fn edit_vm(fixture: &mut Fixture, change: impl FnOnce(&mut Value)) {
    let mut vm = Value::clone(&fixture.get(VM, "a", "x"));
    vm["metadata"]["generation"] = 2.into();
    change(&mut vm);
    fixture.put(VM, vm);
}

fn running() -> Fixture {
    let mut fixture = started("Always", "Scheduled");
    let pod = super::launcher::launcher_pod(&fixture.get(VMI, "a", "x"), "image", 1);
    fixture.put(POD, ready(pod, "node-1"));
    edit(&mut fixture, |vmi| {
        vmi["status"]["nodeName"] = "node-1".into();
        vmi["status"]["interfaces"] = json!([{ "name": "default", "podInterfaceName": "eth0" }]);
    });
    fixture.settle(&Handler, &key());
    fixture.settle(&VmiController, &key());
    fixture.settle(&VmController, &key());
    fixture
}

fn ready(mut pod: Value, node: &str) -> Value {
    pod["spec"]["nodeName"] = node.into();
    let conditions = json!([{ "type": "Ready", "status": "True" }]);
    pod["status"] = json!({ "phase": "Running", "podIP": "10.0.0.1", "conditions": conditions });
    pod
}

#[rstest]
#[case("Always", true)]
#[case("Once", true)]
#[case("RerunOnFailure", true)]
#[case("Manual", false)]
#[case("Halted", false)]
fn a_new_vm_starts_by_its_run_strategy(#[case] strategy: &str, #[case] starts: bool) {
    let mut fixture = Fixture::of([(VM, vm(strategy))]);
    let writes = fixture.settle(&VmController, &key());
    assert_eq!(reasons(&writes).contains(&"SuccessfulCreate"), starts);
    let status = text(&fixture.get(VM, "a", "x"), "/status/printableStatus").to_owned();
    assert_eq!(status, if starts { "Starting" } else { "Stopped" });
}

#[test]
fn a_manual_vm_starts_on_request_and_removes_the_request() {
    let fixture = started("Manual", "Running");
    let vm = fixture.get(VM, "a", "x");
    assert_eq!(text(&vm, "/status/printableStatus"), "Running");
    assert_eq!(list(&vm, "/status/stateChangeRequests"), [] as [Value; 0]);
}

#[rstest]
#[case("Always", "Failed", true)]
#[case("Always", "Succeeded", true)]
#[case("RerunOnFailure", "Failed", true)]
#[case("RerunOnFailure", "Succeeded", false)]
#[case("Manual", "Succeeded", false)]
#[case("Once", "Failed", false)]
fn a_finished_guest_is_restarted_by_its_run_strategy(
    #[case] strategy: &str,
    #[case] phase: &str,
    #[case] again: bool,
) {
    let mut fixture = started(strategy, "Running");
    edit(&mut fixture, |vmi| {
        let times =
            json!([{ "phase": "Running", "phaseTransitionTimestamp": "2026-01-01T00:00:00Z" }]);
        vmi["status"]["phaseTransitionTimestamps"] = times;
        vmi["status"]["phase"] = phase.into();
    });
    let writes = fixture.settle(&VmController, &key());
    let started = created(&writes)
        .iter()
        .any(|object| object["spec"].get("domain").is_some());
    assert_eq!(started, again, "{writes:?}");
    assert!(
        fixture
            .get(VM, "a", "x")
            .pointer("/status/startFailure")
            .is_none()
    );
}

#[test]
fn failed_starts_are_retried_with_backoff() {
    let mut fixture = started("Always", "Scheduled");
    fixture.speed = Speed::Real;
    let mut waits = Vec::new();
    for failures in 1..=3 {
        edit(&mut fixture, |vmi| {
            vmi["metadata"]["uid"] = format!("vmi-{failures}").into();
            vmi["status"]["phase"] = "Failed".into();
        });
        fixture.settle(&VmController, &key());
        let vm = fixture.get(VM, "a", "x");
        assert_eq!(text(&vm, "/status/printableStatus"), "CrashLoopBackOff");
        assert_eq!(
            number(&vm, "/status/startFailure/consecutiveFailCount"),
            Some(failures)
        );
        let wait = fixture
            .reconcile(&VmController, &key())
            .requeue_after
            .unwrap();
        waits.push(wait.as_secs());
        fixture.advance(wait);
        fixture.settle(&VmController, &key());
    }
    let ranges = [10..=15, 40..=60, 90..=135];
    assert!(
        waits
            .iter()
            .zip(&ranges)
            .all(|(wait, range)| range.contains(wait)),
        "{waits:?}"
    );
}

#[test]
fn a_change_without_live_update_requires_a_restart() {
    let mut fixture = running();
    edit_vm(&mut fixture, |vm| {
        vm["spec"]["template"]["spec"]["domain"]["cpu"]["cores"] = 4.into();
    });
    fixture.settle(&VmController, &key());
    let vm = fixture.get(VM, "a", "x");
    let why = condition(&vm, "RestartRequired").map(|required| text(required, "/message"));
    assert_eq!(
        why,
        Some("a non-live-updatable field was changed in the template spec")
    );
    edit_vm(&mut fixture, |vm| {
        vm["spec"]["template"]["spec"]["domain"]["cpu"]["cores"] = 2.into();
    });
    fixture.settle(&VmController, &key());
    assert!(condition(&fixture.get(VM, "a", "x"), "RestartRequired").is_none());
}

#[rstest]
#[case::more_than_there_is_room_for(
    5,
    "8Gi",
    Some("CPU sockets updated in template spec to a value higher than what's available")
)]
#[case::less_memory_than_at_boot(
    1,
    "2Gi",
    Some("memory updated in template spec to a value lower than what the VM started with")
)]
#[case::unaligned_memory(
    1,
    "4097Mi",
    Some("memory hotplug not supported, Guest memory must be 2Mi aligned")
)]
#[case::within_the_room(2, "8Gi", None)]
fn sockets_and_memory_grow_within_their_limits(
    #[case] sockets: i64,
    #[case] memory: &str,
    #[case] restart: Option<&str>,
) {
    let mut fixture = running();
    edit_vm(&mut fixture, |vm| {
        let domain = &mut vm["spec"]["template"]["spec"]["domain"];
        domain["cpu"]["sockets"] = sockets.into();
        domain["memory"]["guest"] = memory.into();
    });
    fixture.reconcile(&VmController, &key());
    fixture.settle(&VmController, &key());
    let vm = fixture.get(VM, "a", "x");
    let why = condition(&vm, "RestartRequired").map(|required| text(required, "/message"));
    assert_eq!(why, restart);
    if restart.is_none() {
        fixture.settle(&VmiController, &key());
        let vmi = fixture.get(VMI, "a", "x");
        assert!(is_true(&vmi, "HotVCPUChange") && is_true(&vmi, "HotMemoryChange"));
    }
}

#[test]
fn a_guest_boots_and_its_agent_connects() {
    let fixture = running();
    let vmi = fixture.get(VMI, "a", "x");
    assert_eq!(text(&vmi, "/status/phase"), "Running");
    assert_eq!(text(&vmi, "/status/interfaces/0/ipAddress"), "10.0.0.1");
    assert!(is_true(&vmi, "LiveMigratable") && is_true(&vmi, "AgentConnected"));
    assert!(is_true(&vmi, "Ready"));
}

#[test]
fn a_guest_with_fault_crash_crashes() {
    let mut fixture = running();
    edit(&mut fixture, |vmi| {
        vmi["metadata"]["annotations"]["sandbox.vitistack.io/fail"] = "Crash".into();
    });
    let writes = fixture.settle(&Handler, &key());
    assert_eq!(text(&fixture.get(VMI, "a", "x"), "/status/phase"), "Failed");
    assert_eq!(reasons(&writes), ["Stopped"]);
}

fn phases(writes: &[Write]) -> Vec<String> {
    let phases = writes.iter().filter_map(|write| match write {
        Write::Patch { kind, patch, .. } if *kind == MIGRATION => {
            patch.pointer("/status/phase").and_then(Value::as_str)
        }
        _ => None,
    });
    phases.map(str::to_owned).collect()
}

fn migrating(annotations: &Value) -> (Fixture, Vec<String>) {
    let mut fixture = running();
    edit(&mut fixture, |vmi| {
        crate::object::merge(&mut vmi["metadata"]["annotations"], annotations);
    });
    let migration = Key::new("a", "m");
    fixture.put(
        MIGRATION,
        json!({ "metadata": { "name": "m", "namespace": "a" }, "spec": { "vmiName": "x" } }),
    );
    let mut reached = phases(&fixture.settle(&MigrationController, &migration));
    let target = fixture
        .caches
        .within(POD, "a")
        .find(|pod| crate::object::label(pod, "kubevirt.io/migrationJobUID").is_some())
        .map(|pod| Value::clone(pod))
        .unwrap();
    fixture.put(POD, ready(target, "node-2"));
    reached.extend(phases(&fixture.settle(&MigrationController, &migration)));
    (fixture, reached)
}

#[test]
fn a_migration_passes_through_all_phases() {
    let (fixture, reached) = migrating(&json!({}));
    let all = [
        "Pending",
        "Scheduling",
        "Scheduled",
        "PreparingTarget",
        "TargetReady",
        "Running",
        "Succeeded",
    ];
    assert_eq!(reached, all);
    let vmi = fixture.get(VMI, "a", "x");
    assert_eq!(text(&vmi, "/status/nodeName"), "node-2");
    assert_eq!(text(&vmi, "/status/migrationState/sourceNode"), "node-1");
    assert_eq!(fixture.caches.within(POD, "a").count(), 1);
}

#[test]
fn a_guest_stays_on_its_node_if_its_migration_fails() {
    let (fixture, reached) = migrating(&json!({ "sandbox.vitistack.io/fail": "MigrationFailed" }));
    assert_eq!(reached.last().map(String::as_str), Some("Failed"));
    let vmi = fixture.get(VMI, "a", "x");
    assert_eq!(text(&vmi, "/status/nodeName"), "node-1");
    assert_eq!(
        vmi.pointer("/status/migrationState/failed"),
        Some(&json!(true))
    );
}

fn snapshot(fixture: &mut Fixture, annotations: &Value) {
    fixture.put(
        SNAPSHOT,
        json!({
            "metadata": { "name": "s", "namespace": "a", "annotations": annotations },
            "spec": { "source": { "kind": "VirtualMachine", "name": "x" } },
        }),
    );
    fixture.settle(&SnapshotController, &Key::new("a", "s"));
}

#[test]
fn a_snapshot_succeeds_and_is_restored() {
    let mut fixture = Fixture::of([(VM, vm("Halted"))]);
    snapshot(&mut fixture, &json!({}));
    let snapshot = fixture.get(SNAPSHOT, "a", "s");
    assert_eq!(text(&snapshot, "/status/phase"), "Succeeded");
    assert!(is_true(&snapshot, "Ready"));
    assert_eq!(fixture.caches.within(SNAPSHOT_CONTENT, "a").count(), 1);
    assert_eq!(
        text(&fixture.get(VM, "a", "x"), "/status/snapshotInProgress"),
        ""
    );

    let before = fixture.get(VM, "a", "x");
    edit_vm(&mut fixture, |vm| {
        vm["spec"]["template"]["spec"]["domain"]["memory"]["guest"] = "8Gi".into();
    });
    fixture.put(
        RESTORE,
        json!({
            "metadata": { "name": "r", "namespace": "a" },
            "spec": { "target": { "kind": "VirtualMachine", "name": "x" }, "virtualMachineSnapshotName": "s" },
        }),
    );
    fixture.settle(&RestoreController, &Key::new("a", "r"));
    assert_eq!(fixture.get(RESTORE, "a", "r")["status"]["complete"], true);
    assert_eq!(fixture.get(VM, "a", "x")["spec"], before["spec"]);
}

#[test]
fn a_snapshot_that_is_never_ready_fails_at_its_deadline() {
    let mut fixture = Fixture::of([(VM, vm("Halted"))]);
    snapshot(
        &mut fixture,
        &json!({ "sandbox.vitistack.io/fail": "NeverReady" }),
    );
    assert_eq!(
        text(&fixture.get(SNAPSHOT, "a", "s"), "/status/phase"),
        "InProgress"
    );
    fixture.advance(Duration::from_secs(300));
    fixture.settle(&SnapshotController, &Key::new("a", "s"));
    let failed = fixture.get(SNAPSHOT, "a", "s");
    assert_eq!(text(&failed, "/status/phase"), "Failed");
    assert!(is_true(&failed, "Failure"));
}

#[test]
fn only_the_last_start_is_kept() {
    let mut fixture = running();
    edit_vm(&mut fixture, |vm| {
        vm["spec"]["template"]["spec"]["hostname"] = "y".into();
    });
    edit(&mut fixture, |vmi| {
        vmi["status"]["phase"] = "Succeeded".into();
    });
    let writes = fixture.settle(&VmController, &key());
    assert!(
        deleted(&writes).contains(&"revision-start-vm-vm-1"),
        "{writes:?}"
    );
    assert_eq!(fixture.caches.within(CONTROLLER_REVISION, "a").count(), 1);
}

#[test]
fn every_controller_has_a_name_of_its_own() {
    let actors = super::actors(super::Mode::BuiltIn);
    let names: BTreeSet<&str> = actors.iter().map(|actor| actor.name()).collect();
    assert_eq!(names.len(), actors.len());
}
