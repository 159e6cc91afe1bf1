//! Networks that a Machine waits for.

use rstest::rstest;
use serde_json::{Value, json};

use crate::world::{NOW, World, attachment};

/// A Machine without a VirtualMachine, on a network `lan`.
fn new() -> World {
    let mut world = World::running();
    (world.vm, world.instance) = (Value::Null, Value::Null);
    world.add_network("lan");
    world.machine["spec"]["networks"] = json!([
        { "name": "a", "networkName": "lan" },
        { "name": "b", "networkName": "lan" },
    ]);
    world
}

/// The messages of all obstacles.
fn obstacles(world: &World) -> Vec<String> {
    let obstacles = world.plan().obstacles.into_iter();
    obstacles.map(|obstacle| obstacle.message).collect()
}

#[test]
fn an_attached_network_is_no_obstacle() {
    assert_eq!(obstacles(&new()), [""; 0]);
}

#[test]
fn networks_need_multus_and_the_pod_network_does_not() {
    let mut world = new();
    world.installed.multus = false;
    let messages = obstacles(&world);
    assert!(messages[0].starts_with("Multus"), "{messages:?}");
    world.machine["spec"]["networks"] = Value::Null;
    assert_eq!(obstacles(&world), [""; 0]);
}

#[rstest]
#[case::without_definition(None)]
#[case::with_another(Some("other"))]
#[case::foreign(Some("lan"))]
fn a_network_without_its_own_attachment_is_waited_for(#[case] found: Option<&str>) {
    let mut world = new();
    if found == Some("other") {
        world.attachments[0]["metadata"]["name"] = "other".into();
    } else {
        world.attachments = found.map(attachment).into_iter().collect();
    }
    let prepared = "NetworkConfiguration \"lan\" is being prepared";
    assert_eq!(obstacles(&world), [prepared]);
    let conditions = |type_: &str, status: &str| {
        json!({ "conditions": [{ "type": type_, "status": status, "reason": "Foreign",
            "message": "somebody has it", "lastTransitionTime": NOW }] })
    };
    world.networks[0]["status"] = conditions("Ready", "False");
    let refused = "NetworkConfiguration \"lan\": somebody has it";
    assert_eq!(obstacles(&world), [refused]);
    for other in [conditions("Ready", "True"), conditions("Other", "False")] {
        world.networks[0]["status"] = other;
        assert_eq!(obstacles(&world), [prepared]);
    }
}

#[test]
fn a_new_machine_does_not_use_a_network_that_is_being_deleted() {
    let mut world = new();
    world.networks[0]["metadata"]["deletionTimestamp"] = NOW.into();
    let messages = obstacles(&world);
    assert!(messages[0].contains("is being deleted"), "{messages:?}");
    world.vm = World::running().vm;
    assert_eq!(obstacles(&world), [""; 0], "it is attached already");
}
