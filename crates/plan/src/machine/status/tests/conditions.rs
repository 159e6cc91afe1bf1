//! Conditions of a Machine's parts.

use rstest::rstest;
use serde_json::json;

use super::{super::ClassMismatch, World, object};

#[test]
fn every_condition_has_the_observed_generation() {
    let mut world = World::running(json!({}));
    world.machine.metadata.generation = Some(8);
    world.reconcile();
    assert_eq!(world.written.len(), 1);
    assert_eq!(world.status().observed_generation, Some(8));
    let conditions = world.status().conditions.as_deref().unwrap();
    assert!(
        conditions
            .iter()
            .all(|it| it.observed_generation == Some(8))
    );
    assert_eq!(conditions.len(), 7);
}

#[rstest]
#[case("Pending", "Succeeded", "False PVCPending")]
#[case("Bound", "ImportInProgress", "False PVCPending")]
#[case("Bound", "Succeeded", "True PVCBound")]
fn a_disk_that_is_filled_is_ready_when_it_is_full(
    #[case] claim: &str,
    #[case] volume: &str,
    #[case] expected: &str,
) {
    let source = json!({"http": {"url": "https://example.com/disk.img"}});
    let mut world = World::new(json!({"disks": [{"name": "root", "source": source}]}));
    world.claim(claim);
    let volume = json!({"metadata": {"name": "web-root"}, "status": {"phase": volume}});
    world.data_volumes = vec![object(volume)];
    world.reconcile();
    assert_eq!(world.condition_summary("StorageReady"), expected);
}

#[test]
fn a_guest_that_may_have_been_installed_is_not_reported_as_having_nothing_to_boot() {
    let empty = json!([{"name": "root", "size": "10Gi"}]);
    let installer = json!([
        {"name": "root", "size": "10Gi"},
        {"name": "iso", "size": "1Gi", "type": "cdrom"},
    ]);
    let mut world = World::running(json!({"disks": empty}));
    assert_eq!(world.condition_summary("Bootable"), "False NothingToBoot");
    assert!(world.condition_summary("Ready").starts_with("True"));
    assert!(
        world
            .message("Bootable")
            .contains("disk \"root\" starts empty")
    );
    let is_reported = |world: &World| {
        let conditions = world.status().conditions.as_deref();
        crate::conditions::find(conditions, "Bootable").is_some()
    };
    world.machine.spec = object(json!({"disks": installer}));
    world.reconcile();
    assert!(!is_reported(&world));
    world.machine.spec = object(json!({"disks": empty}));
    world.reconcile();
    assert!(!is_reported(&world));
}

#[test]
fn a_network_without_its_definition_is_waited_for() {
    let networks = json!([{"name": "a", "networkName": "prod"}]);
    let mut world = World::new(json!({"networks": networks}));
    world.reconcile();
    assert_eq!(
        world.condition_summary("NetworkReady"),
        "True NetworkConfigured"
    );
    world.attachments.clear();
    world.reconcile();
    assert_eq!(
        world.condition_summary("NetworkReady"),
        "False NetworkFailed"
    );
    assert!(world.message("NetworkReady").ends_with("prod"));
    let mut world = World::new(json!({"networks": networks}));
    world.attachments.clear();
    world.installed.multus = false;
    world.reconcile();
    assert!(
        world
            .message("NetworkReady")
            .starts_with("Multus is not installed")
    );
}

#[test]
fn a_required_restart_is_reported_and_cleared() {
    let mut world = World::running(json!({}));
    let required = json!({"conditions": [
        {"type": "RestartRequired", "status": "True", "message": "memory updated"},
    ]});
    world.vm(required);
    world.reconcile();
    assert_eq!(
        world.condition_summary("RestartRequired"),
        "True ChangesPending"
    );
    assert_eq!(
        world.message("RestartRequired"),
        "change spec.restartedAt to restart the guest: memory updated"
    );
    assert_eq!(world.ready(), "True Running");
    world.restart_required = Some("cloud-init changed");
    world.reconcile();
    assert_eq!(
        world.message("RestartRequired"),
        "change spec.restartedAt to restart the guest: cloud-init changed; memory updated"
    );
    world.restart_required = None;
    world.vm(json!({}));
    world.reconcile();
    assert_eq!(world.condition_summary("RestartRequired"), "False UpToDate");
    assert_eq!(world.written.len(), 3);
}

#[test]
fn only_a_machine_with_a_class_reports_a_class_mismatch() {
    let mut world = World::running(json!({"machineClass": "big"}));
    assert_eq!(
        world.condition_summary("MachineClassCurrent"),
        "True ClassCurrent"
    );
    world.class_mismatch = Some(ClassMismatch::Changed(
        "MachineClass big changed".to_owned(),
    ));
    world.reconcile();
    assert_eq!(
        world.condition_summary("MachineClassCurrent"),
        "False NewerClassAvailable"
    );
    world.class_mismatch = Some(ClassMismatch::Unavailable(
        "MachineClass big is gone".to_owned(),
    ));
    world.reconcile();
    assert_eq!(
        world.condition_summary("MachineClassCurrent"),
        "False ClassUnavailable"
    );
    assert_eq!(
        world.message("MachineClassCurrent"),
        "MachineClass big is gone"
    );
    assert_eq!(world.ready(), "True Running");
    world.class_mismatch = None;
    world.machine.spec.machine_class = None;
    world.reconcile();
    let conditions = world.status().conditions.as_deref().unwrap();
    assert!(
        conditions
            .iter()
            .all(|it| it.type_ != "MachineClassCurrent")
    );
}

#[test]
fn conditions_of_others_are_left_alone() {
    let mut world = World::running(json!({}));
    let from_kubevirt = object(json!({
        "type": "BackedUp", "status": "True", "reason": "Done", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }));
    let status = world.machine.status.as_mut().unwrap();
    status.conditions.as_mut().unwrap().push(from_kubevirt);
    world.reconcile();
    assert_eq!(world.written.len(), 0);
    world.power("Stopped");
    world.reconcile();
    assert_eq!(world.condition_summary("BackedUp"), "True Done");
}
