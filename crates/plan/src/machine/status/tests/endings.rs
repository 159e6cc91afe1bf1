//! Causes for which a guest stops although it should run.

use api::{Phase, labels};
use rstest::rstest;
use serde_json::json;

use super::{World, object};

fn phase_of_instance(world: &mut World, phase: &str) {
    world.instance.as_mut().unwrap().status.phase = object(json!(phase));
}

#[test]
fn shut_down_from_inside() {
    let mut world = World::running(json!({}));
    phase_of_instance(&mut world, "Succeeded");
    world.reconcile();
    assert_eq!(
        (world.phase(), world.ready()),
        (Phase::Stopped, "False GuestShutdown".to_owned())
    );
    world.end_instance();
    world.reconcile();
    world.instance = None;
    world.reconcile();
    assert_eq!(
        (world.phase(), world.ready()),
        (Phase::Stopped, "False Starting".to_owned())
    );
    assert_eq!(world.events.len(), 1);
    assert!(world.events[0].starts_with("GuestShutdown: the guest shut itself down"));
}

#[rstest]
#[case::virtctl_stop("Halted", "Succeeded")]
#[case::deleted_by_hand("Always", "Failed")]
fn stopped_by_another_client(#[case] strategy: &str, #[case] end: &str) {
    let mut world = World::running(json!({}));
    world.vm.as_mut().unwrap().spec = (&json!({"runStrategy": strategy})).into();
    world.end_instance();
    world.reconcile();
    assert_eq!(
        (world.phase(), world.ready()),
        (Phase::Running, "False StoppedByOther".to_owned())
    );
    phase_of_instance(&mut world, end);
    world.reconcile();
    assert_eq!(
        (world.phase(), world.ready()),
        (Phase::Stopped, "False StoppedByOther".to_owned())
    );
    world.instance = None;
    world.reconcile();
    assert_eq!(world.phase(), Phase::Stopped);
    assert_eq!(
        world.ready() == "False StoppedByOther",
        strategy == "Halted"
    );
    assert_eq!(world.events.len(), 1);
}

#[rstest]
#[case::restart(labels::RESTARTED_INSTANCE)]
#[case::stop_and_start(labels::STOPPED_INSTANCE)]
fn ended_as_requested(#[case] label: &str) {
    let mut world = World::running(json!({}));
    let annotations = [(label.to_owned(), "i1".to_owned())];
    world.vm.as_mut().unwrap().metadata.annotations = Some(annotations.into());
    world.end_instance();
    world.reconcile();
    assert_eq!(
        (world.phase(), world.ready()),
        (Phase::Running, "False Stopping".to_owned())
    );
    phase_of_instance(&mut world, "Failed");
    world.reconcile();
    assert_eq!(
        (world.phase(), world.ready()),
        (Phase::Stopped, "False Starting".to_owned())
    );
    world.up();
    world.instance.as_mut().unwrap().metadata.uid = Some("i2".to_owned());
    world.reconcile();
    assert_eq!(world.ready(), "True Running");
    assert_eq!(world.events, ["Started: Running on n1"]);
}

#[rstest]
#[case("Succeeded")]
#[case("Failed")]
fn stopped_by_another_client_and_ended_before_its_deletion_was_observed(#[case] phase: &str) {
    let mut world = World::running(json!({}));
    let annotations = [(labels::HALTED_INSTANCE.to_owned(), "i1".to_owned())];
    world.vm.as_mut().unwrap().metadata.annotations = Some(annotations.into());
    phase_of_instance(&mut world, phase);
    world.reconcile();
    assert_eq!(
        (world.phase(), world.ready()),
        (Phase::Stopped, "False StoppedByOther".to_owned())
    );
    world.end_instance();
    world.reconcile();
    assert_eq!(world.ready(), "False StoppedByOther");
}

#[test]
fn stopped_as_requested_and_started_again_before_it_was_down() {
    let mut world = World::running(json!({}));
    world.power("Stopped");
    world.end_instance();
    world.reconcile();
    world.power("Running");
    world.reconcile();
    assert_eq!(world.ready(), "False Stopping");
}

#[test]
fn evicted() {
    let mut world = World::running(json!({}));
    let status = &mut world.instance.as_mut().unwrap().status;
    status.evacuation_node_name = Some("n1".to_owned());
    world.reconcile();
    assert_eq!(world.ready(), "True Running");
    world.end_instance();
    world.reconcile();
    assert_eq!(
        (world.phase(), world.ready()),
        (Phase::Running, "False Evicted".to_owned())
    );
    phase_of_instance(&mut world, "Failed");
    world.reconcile();
    assert_eq!(
        (world.phase(), world.ready()),
        (Phase::Stopped, "False Evicted".to_owned())
    );
    assert_eq!(world.events.len(), 1);
}

#[test]
fn crashed_again_and_again() {
    let mut world = World::running(json!({}));
    phase_of_instance(&mut world, "Failed");
    world.reconcile();
    assert_eq!(
        (world.phase(), world.ready()),
        (Phase::Failed, "False Crashed".to_owned())
    );
    assert_eq!(
        world.condition_summary("VirtualMachineReady"),
        "False VMFailed"
    );
    for times in 1..=3 {
        world.vm(json!({
            "printableStatus": "CrashLoopBackOff",
            "startFailure": {"consecutiveFailCount": times},
        }));
        world.instance = None;
        world.reconcile();
        world.vm.as_mut().unwrap().status.printable_status = "Starting".to_owned();
        world.instance(json!({"phase": "Scheduling"}));
        world.reconcile();
        assert_eq!(
            (world.phase(), world.ready()),
            (Phase::Failed, "False Crashed".to_owned())
        );
    }
    assert!(
        world
            .message("Ready")
            .contains("failed to start 3 times in a row")
    );
    assert_eq!(world.events.len(), 1);
    world.up();
    world.reconcile();
    assert_eq!(world.events[1..], ["Recovered: Running on n1"]);
}

#[test]
fn a_guest_that_ends_with_kubevirt_was_not_stopped_by_another_client() {
    let mut world = World::running(json!({}));
    world.installed.kubevirt_is_removed = true;
    world.reconcile();
    assert_eq!(
        world.ready(),
        "True Running",
        "as long as the guest is there"
    );
    world.end_instance();
    world.reconcile();
    assert_eq!(
        (world.phase(), world.ready()),
        (Phase::Running, "False KubeVirtBeingRemoved".to_owned())
    );
    (world.vm, world.instance) = (None, None);
    world.reconcile();
    assert_eq!(
        (world.phase(), world.ready()),
        (Phase::Stopped, "False KubeVirtBeingRemoved".to_owned())
    );
    world.installed.kubevirt_is_removed = false;
    world.reconcile();
    assert_eq!(world.ready(), "False Starting");
    assert_eq!(world.events.len(), 1, "{:?}", world.events);
}

#[test]
fn a_machine_that_comes_while_kubevirt_is_removed_is_pending() {
    let mut world = World::new(json!({}));
    world.installed.kubevirt_is_removed = true;
    world.reconcile();
    assert_eq!(
        (world.phase(), world.ready()),
        (Phase::Pending, "False KubeVirtBeingRemoved".to_owned())
    );
}

#[test]
fn a_start_that_is_still_to_be_written_is_not_a_stop_by_another_client() {
    let mut world = World::new(json!({"powerState": "Stopped"}));
    world.vm(json!({"printableStatus": "Stopped"}));
    world.vm.as_mut().unwrap().spec = (&json!({"runStrategy": "Halted"})).into();
    world.reconcile();
    assert_eq!(world.ready(), "False Stopped");
    world.power("Running");
    world.vm_is_outdated = true;
    world.reconcile();
    assert_eq!(world.ready(), "False Starting");
    world.vm_is_outdated = false;
    world.reconcile();
    assert_eq!(world.ready(), "False StoppedByOther");
}

#[test]
fn an_instance_that_is_replaced_before_it_started_was_not_stopped_by_another_client() {
    let mut world = World::new(json!({}));
    world.vm(json!({"printableStatus": "Starting"}));
    world.instance(json!({"phase": "Scheduling"}));
    world.end_instance();
    world.reconcile();
    assert_eq!(world.ready(), "False Creating");
}
