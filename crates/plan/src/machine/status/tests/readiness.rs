//! `Ready` of a Machine with a running instance.

use std::time::Duration;

use api::Phase;
use rstest::rstest;
use serde_json::{Value, json};

use super::{World, object};

/// Sets the instance's `Ready` condition, as of now.
fn instance_ready(world: &mut World, status: &str, reason: &str, message: &str) {
    let condition = json!({
        "type": "Ready", "status": status, "reason": reason, "message": message,
        "lastTransitionTime": Value::from(world.now.0.to_string()),
    });
    world.instance.as_mut().unwrap().status.conditions = vec![object(condition)];
}

fn phase_and_ready(world: &World) -> (Phase, String) {
    (world.phase(), world.ready())
}

fn running(ready: &str) -> (Phase, String) {
    (Phase::Running, ready.to_owned())
}

#[test]
fn a_machine_runs_once_its_instance_is_ready_and_not_before() {
    let mut world = World::new(json!({}));
    world.vm(json!({}));
    world.claim("Pending");
    world.reconcile();
    world.instance(json!({"phase": "Scheduled", "nodeName": "n1"}));
    world.claim("Bound");
    world.reconcile();
    world.up();
    instance_ready(
        &mut world,
        "False",
        "GuestNotRunning",
        "Guest VM is not reported as running",
    );
    world.later(60_000);
    assert_eq!(world.reconcile(), None);
    assert_eq!(world.phase(), Phase::Creating);
    instance_ready(&mut world, "True", "", "");
    world.reconcile();
    assert_eq!(phase_and_ready(&world), running("True Running"));
    assert_eq!(world.written.len(), 3);
}

#[rstest]
#[case::readiness_probe("ContainersNotReady", "False GuestNotReady")]
#[case::pod_gone("PodNotExists", "False GuestNotReady")]
#[case::node_not_ready("", "False NodeLost")]
fn an_instance_that_is_not_ready_for_five_seconds_is_reported(
    #[case] reason: &str,
    #[case] expected: &str,
) {
    let mut world = World::running(json!({}));
    instance_ready(&mut world, "False", reason, "");
    assert_eq!(world.reconcile(), Some(Duration::from_secs(5)));
    world.later(4_000);
    assert_eq!(world.reconcile(), Some(Duration::from_secs(1)));
    assert_eq!(world.written.len(), 0);

    world.later(1_000);
    assert_eq!(world.reconcile(), None);
    assert_eq!(phase_and_ready(&world), running(expected));
    assert_eq!(world.written.len(), 1);

    world.later(60_000);
    instance_ready(&mut world, "True", "", "");
    world.reconcile();
    assert_eq!(phase_and_ready(&world), running("True Running"));
    let reasons: Vec<_> = world
        .events
        .iter()
        .map(|event| event.split(':').next())
        .collect();
    let reported = expected.strip_prefix("False ");
    assert_eq!(reasons, [reported, Some("Recovered")]);
}

#[test]
fn an_instance_that_is_not_ready_for_a_moment_is_not_reported() {
    let mut world = World::running(json!({}));
    instance_ready(&mut world, "False", "ContainersNotReady", "");
    world.reconcile();
    world.later(4_000);
    instance_ready(&mut world, "True", "", "");
    assert_eq!(world.reconcile(), None);
    assert_eq!((world.written.len(), world.events.len()), (0, 0));
}

#[test]
fn the_message_quotes_the_instance_and_names_the_node() {
    let mut world = World::running(json!({}));
    let message = "containers with unready status: [compute]";
    instance_ready(&mut world, "False", "ContainersNotReady", message);
    world.later(5_000);
    world.reconcile();
    assert_eq!(
        world.message("Ready"),
        format!("the guest runs on n1, but KubeVirt reports it as not ready: {message}")
    );
    instance_ready(&mut world, "False", "", "");
    world.reconcile();
    assert_eq!(phase_and_ready(&world), running("False NodeLost"));
    assert!(
        world
            .message("Ready")
            .starts_with("Node \"n1\" does not answer")
    );
}

#[test]
fn a_pod_that_cannot_end_on_a_lost_node_is_not_called_an_eviction() {
    let mut world = World::running(json!({}));
    instance_ready(&mut world, "False", "", "");
    world.later(5_000);
    world.reconcile();
    world.later(300_000);
    instance_ready(
        &mut world,
        "False",
        "PodTerminating",
        "virt-launcher pod is terminating",
    );
    world.reconcile();
    assert_eq!(phase_and_ready(&world), running("False NodeLost"));
    // The pod is gone: KubeVirt fails the instance and starts another.
    world.instance.as_mut().unwrap().status.phase = object(json!("Failed"));
    world.reconcile();
    assert_eq!(
        phase_and_ready(&world),
        (Phase::Stopped, "False Evicted".to_owned())
    );
    world.end_instance();
    world.reconcile();
    assert_eq!(world.ready(), "False Evicted");
}
