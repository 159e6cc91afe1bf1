//! From creation to deletion.

use api::{GuestAddresses, Phase};
use rstest::rstest;
use serde_json::json;

use super::{World, at, object};
use crate::machine::{Obstacle, Part};

#[test]
fn a_machine_with_one_disk_runs_after_three_writes_and_one_event() {
    let mut world = World::new(json!({}));
    world.vm(json!({}));
    world.claim("Pending");
    world.reconcile();
    assert_eq!(world.phase(), Phase::Creating);
    assert_eq!(world.ready(), "False Creating");
    assert_eq!(
        world.condition_summary("VirtualMachineReady"),
        "True VMCreated"
    );
    assert_eq!(world.condition_summary("StorageReady"), "False PVCPending");
    let waits = "waiting for the disks to be bound: web-root";
    assert_eq!(world.message("StorageReady"), waits);
    assert_eq!(world.message("Ready"), waits);
    assert_eq!(
        world.condition_summary("NetworkReady"),
        "True NetworkConfigured"
    );
    assert_eq!(world.condition_summary("RestartRequired"), "False UpToDate");
    assert_eq!(world.condition_summary("SpecValid"), "True Valid");
    assert_eq!(world.status().vm_name.as_deref(), Some("web"));

    for (phase, status) in [
        ("Pending", "Starting"),
        ("Scheduling", "WaitingForVolumeBinding"),
    ] {
        world.later(20);
        world.vm(json!({"printableStatus": status}));
        world.instance(json!({"phase": phase}));
        world.reconcile();
    }
    world.claim("Bound");
    world.reconcile();
    assert_eq!(world.condition_summary("StorageReady"), "True PVCBound");
    world.instance(json!({"phase": "Scheduled", "nodeName": "n1"}));
    world.reconcile();
    world.later(9_000);
    world.up();
    world.reconcile();
    assert_eq!(world.phase(), Phase::Running);
    assert_eq!(world.ready(), "True Running");
    let status = world.status();
    assert_eq!(status.node_name.as_deref(), Some("n1"));
    assert_eq!(status.vmi_name.as_deref(), Some("web"));
    assert_eq!(
        status.ip_addresses,
        GuestAddresses::HasRun(vec!["10.0.0.9".to_owned()])
    );
    assert_eq!(
        (status.vcpus, status.memory_quantity.as_deref()),
        (Some(1), Some("2Gi"))
    );
    assert_eq!(status.resource_version.as_deref(), Some("77"));
    assert_eq!(status.last_updated.as_ref(), Some(&world.now));
    assert_eq!(world.written.len(), 3);
    assert_eq!(world.events, ["Started: Running on n1"]);
}

#[test]
fn a_machine_that_does_not_change_is_not_written() {
    let mut world = World::running(json!({}));
    world.later(3_600_000);
    world.vm.as_mut().unwrap().metadata.resource_version = Some("99".to_owned());
    assert_eq!(world.reconcile(), None);
    assert_eq!(world.written.len(), 0);
}

#[test]
fn a_running_machine_without_a_status_passes_through_creating() {
    let mut world = World::new(json!({}));
    world.vm(json!({}));
    world.claim("Bound");
    world.up();
    world.reconcile();
    let phases: Vec<_> = world
        .written
        .iter()
        .map(|status| status.phase.unwrap())
        .collect();
    assert_eq!(phases, [Phase::Creating, Phase::Running]);
}

#[test]
fn a_stopped_machine_goes_from_creating_to_stopped() {
    let mut world = World::new(json!({"powerState": "Stopped"}));
    world.reconcile();
    assert_eq!(world.phase(), Phase::Creating);
    world.vm(json!({"printableStatus": "Stopped"}));
    world.reconcile();
    assert_eq!(world.phase(), Phase::Stopped);
    assert_eq!(world.ready(), "False Stopped");
    world.power("Running");
    world.reconcile();
    assert_eq!(world.phase(), Phase::Stopped);
    assert_eq!(world.ready(), "False Starting");
    world.up();
    world.reconcile();
    assert_eq!(world.phase(), Phase::Running);
}

#[test]
fn a_machine_is_stopped_and_started_as_requested() {
    let mut world = World::running(json!({}));
    world.power("Stopped");
    world.reconcile();
    assert_eq!(
        (world.phase(), world.ready()),
        (Phase::Running, "False Stopping".to_owned())
    );
    world.end_instance();
    world.reconcile();
    world.instance.as_mut().unwrap().status.phase = object(json!("Failed"));
    world.reconcile();
    assert_eq!(
        (world.phase(), world.ready()),
        (Phase::Stopped, "False Stopped".to_owned())
    );
    assert_eq!(
        world.status().ip_addresses,
        GuestAddresses::HasRun(Vec::new())
    );
    assert_eq!(
        (&world.status().node_name, &world.status().vmi_name),
        (&None, &None)
    );
    world.instance = None;
    world.reconcile();
    assert_eq!(world.written.len(), 2);
    assert_eq!(
        world.events,
        ["Stopped: the machine is stopped, as requested"]
    );

    world.power("Running");
    world.instance(json!({"phase": "Scheduling"}));
    world.reconcile();
    assert_eq!(
        (world.phase(), world.ready()),
        (Phase::Stopped, "False Starting".to_owned())
    );
    world.up();
    world.reconcile();
    assert_eq!(world.phase(), Phase::Running);
    assert_eq!(world.events.len(), 2);
}

#[test]
fn a_paused_machine_is_running_and_not_ready() {
    let mut world = World::running(json!({"powerState": "Paused"}));
    assert_eq!(world.ready(), "True Running");
    let paused = json!([{"type": "Paused", "status": "True", "message": "VMI was paused by user"}]);
    world.instance.as_mut().unwrap().status.conditions = object(paused);
    world.reconcile();
    assert_eq!(
        (world.phase(), world.ready()),
        (Phase::Running, "False Paused".to_owned())
    );
    assert_eq!(world.message("Ready"), "the guest is paused, as requested");
    world.power("Running");
    world.reconcile();
    assert!(world.message("Ready").ends_with("VMI was paused by user"));
}

#[test]
fn a_machine_whose_virtual_machine_was_deleted_is_not_creating_again() {
    let mut world = World::running(json!({}));
    world.vm = None;
    world.instance = None;
    world.reconcile();
    assert_eq!(
        (world.phase(), world.ready()),
        (Phase::Stopped, "False Starting".to_owned())
    );
    assert_eq!(
        world.condition_summary("VirtualMachineReady"),
        "False VMPending"
    );
    assert_eq!(world.status().vm_name, None);
}

#[test]
fn a_machine_that_ran_and_failed_is_not_creating_again() {
    let mut world = World::running(json!({}));
    world.instance = None;
    world.machine.spec.template = Some("gone".to_owned());
    world.reconcile();
    assert_eq!(world.phase(), Phase::Failed);
    world.machine.spec.template = None;
    world.reconcile();
    assert_eq!(
        (world.phase(), world.ready()),
        (Phase::Stopped, "False Starting".to_owned())
    );
}

#[test]
fn a_migrated_guest_is_reported() {
    let mut world = World::running(json!({}));
    world.instance.as_mut().unwrap().status.node_name = Some("n2".to_owned());
    world.reconcile();
    assert_eq!(world.status().node_name.as_deref(), Some("n2"));
    assert_eq!((world.written.len(), world.events.len()), (1, 0));
}

#[test]
fn an_unreachable_node_is_reported() {
    let mut world = World::running(json!({}));
    world.instance.as_mut().unwrap().status.phase = object(json!("Unknown"));
    world.reconcile();
    assert_eq!(
        (world.phase(), world.ready()),
        (Phase::Running, "False NodeLost".to_owned())
    );
}

#[rstest]
#[case(None)]
#[case(Some(Phase::Failed))]
#[case(Some(Phase::Running))]
fn a_terminating_machine_keeps_its_phase_and_reports_what_it_waits_for(
    #[case] phase: Option<Phase>,
) {
    let mut world = World::running(json!({}));
    world.machine.status.as_mut().unwrap().phase = phase;
    world.machine.metadata.deletion_timestamp = Some(at("2026-01-01T00:00:01Z"));
    world.obstacles = vec![Obstacle {
        part: Part::VirtualMachine,
        error_type: None,
        message: "waiting for VirtualMachine web to be gone".to_owned(),
    }];
    world.reconcile();
    assert_eq!(world.status().phase, phase);
    assert_eq!(world.ready(), "False Deleting");
    assert_eq!(
        world.message("Ready"),
        "waiting for VirtualMachine web to be gone"
    );
    assert_eq!(world.condition_summary("StorageReady"), "True PVCBound");
    world.vm = None;
    world.instance = None;
    world.reconcile();
    assert_eq!(world.written.len(), 1);
    assert_eq!(world.events.len(), 0);
}

#[test]
fn foreign_objects_are_not_reported() {
    let mut world = World::new(json!({}));
    world.vm(json!({}));
    world.up();
    let vm = world.vm.as_mut().unwrap();
    vm.metadata.owner_references = None;
    world.reconcile();
    assert_eq!(world.phase(), Phase::Creating);
    assert_eq!(
        (&world.status().vm_name, &world.status().vmi_name),
        (&None, &None)
    );
}
