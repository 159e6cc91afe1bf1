//! Changes of the VirtualMachine: hot-plugged devices, restarts, repairs, and their Events.

use api::labels;
use plan::machine::{Action, Step};
use rstest::rstest;
use serde_json::{Value, json};

use crate::world::{BEFORE, World, has};

/// The step that writes the VirtualMachine, and the written object.
fn vm_step(world: &World) -> Option<(Step, Value)> {
    let mut steps = world.plan().steps.into_iter();
    steps.find_map(|step| {
        let object = match &step.action {
            Action::Apply { object, .. }
            | Action::RestoreOwner { object, .. }
            | Action::Create(object) => json!(object),
            _ => return None,
        };
        (object["kind"] == "VirtualMachine").then_some((step, object))
    })
}

/// A running Machine whose VirtualMachine is as desired.
fn converged(spec: &Value) -> World {
    let mut world = World::running();
    for (field, value) in spec.as_object().unwrap() {
        world.machine["spec"][field] = value.clone();
    }
    world.adopt_written_vm();
    assert_eq!(vm_step(&world), None);
    world
}

fn volume<'a>(vm: &'a Value, name: &str) -> &'a Value {
    let volumes = vm["spec"]["template"]["spec"]["volumes"].as_array();
    let mut volumes = volumes.unwrap().iter();
    volumes.find(|volume| volume["name"] == name).unwrap()
}

fn event(world: &World) -> Option<(&'static str, String)> {
    let (step, _) = vm_step(world)?;
    step.event.map(|event| (event.reason, event.message))
}

fn reason(world: &World) -> String {
    vm_step(world).unwrap().0.reason
}

#[rstest]
#[case::virtio("virtio", "Running", json!(true))]
#[case::scsi("scsi", "Running", json!(true))]
#[case::bus_without_hotplug("sata", "Running", Value::Null)]
#[case::guest_ended("virtio", "Succeeded", Value::Null)]
fn a_disk_that_is_added_to_a_running_guest_is_hot_plugged(
    #[case] bus: &str,
    #[case] phase: &str,
    #[case] hotpluggable: Value,
) {
    let mut world = converged(&json!({}));
    world.instance["status"]["phase"] = phase.into();
    world.machine["spec"]["disks"] = json!([
        { "name": "data", "size": "1Gi" },
        { "name": "more", "size": "1Gi", "bus": bus },
    ]);
    let (_, vm) = vm_step(&world).unwrap();
    let claim = |name: &str| volume(&vm, name)["persistentVolumeClaim"]["hotpluggable"].clone();
    assert_eq!(claim("more"), hotpluggable);
    assert_eq!(
        claim("data"),
        Value::Null,
        "it was there when the guest started"
    );
}

#[test]
fn a_hot_plugged_disk_stays_so_after_a_restart() {
    let mut world = converged(&json!({}));
    let volumes = world.vm["spec"]["template"]["spec"]["volumes"].as_array_mut();
    for volume in volumes.unwrap() {
        if volume["name"] == "data" {
            volume["persistentVolumeClaim"]["hotpluggable"] = true.into();
        }
    }
    world.adopt_written_vm();
    world.instance = Value::Null;
    world.machine["spec"]["cpu"] = json!({ "cores": 3 });
    let (_, vm) = vm_step(&world).unwrap();
    let claim = |name: &str| volume(&vm, name)["persistentVolumeClaim"]["hotpluggable"].clone();
    assert_eq!((claim("data"), claim("root")), (json!(true), Value::Null));
}

#[rstest]
#[case::plugged(json!([{ "name": "lan" }]), json!({}), Some("absent"))]
#[case::of_the_guest_itself(json!([{ "interfaceName": "lan" }]), json!({}), None)]
#[case::never_plugged(json!([]), json!({}), None)]
#[case::other_binding(json!([{ "name": "lan" }]), json!({ "masquerade": {} }), None)]
fn a_removed_interface_is_unplugged_from_a_running_guest(
    #[case] reported: Value,
    #[case] binding: Value,
    #[case] state: Option<&str>,
) {
    let lan = json!([{ "name": "lan", "networkName": "lan" }]);
    let mut world = World::running();
    world.add_network("lan");
    world.machine["spec"]["networks"] = lan;
    world.adopt_written_vm();
    if let Some(binding) = binding.as_object().filter(|binding| !binding.is_empty()) {
        let devices = &mut world.vm["spec"]["template"]["spec"]["domain"]["devices"];
        let interface = devices["interfaces"][0].as_object_mut().unwrap();
        interface.remove("bridge");
        interface.extend(binding.clone());
    }
    world.instance["status"]["interfaces"] = reported;
    world.machine["spec"]["networks"] = Value::Null;
    let (_, vm) = vm_step(&world).unwrap();
    let template = &vm["spec"]["template"]["spec"];
    let find = |list: &Value| {
        let mut list = list.as_array().unwrap().iter();
        list.find(|item| item["name"] == "lan").cloned()
    };
    let interface = find(&template["domain"]["devices"]["interfaces"]);
    let found = interface.map(|interface| interface["state"].clone());
    assert_eq!(found, state.map(Value::from));
    assert_eq!(find(&template["networks"]).is_some(), state.is_some());
}

#[test]
fn a_restart_is_recorded_with_its_instance_once() {
    let mut world = converged(&json!({}));
    let recorded = |world: &World| {
        let (_, vm) = vm_step(world)?;
        let annotations = &vm["metadata"]["annotations"];
        Some((
            annotations[labels::RESTARTED_AT].clone(),
            annotations[labels::RESTARTED_INSTANCE].clone(),
        ))
    };
    world.machine["spec"]["restartedAt"] = "monday".into();
    assert_eq!(
        recorded(&world),
        Some((json!("monday"), json!("uid-instance")))
    );
    assert_eq!(reason(&world), "the operator's annotations change");
    assert_eq!(event(&world), None);
    assert_eq!(world.deleted(), [""; 0], "the record comes first");
    let mut ending = World {
        vm: world.vm.clone(),
        machine: world.machine.clone(),
        ..World::running()
    };
    ending.instance["metadata"]["deletionTimestamp"] = BEFORE.into();
    assert_eq!(recorded(&ending), Some((json!("monday"), Value::Null)));
    world.adopt_written_vm();
    assert_eq!(vm_step(&world), None);
    assert_eq!(world.deleted(), ["VirtualMachineInstance web"]);
    world.instance["metadata"]["uid"] = "uid-next".into();
    assert_eq!(world.plan().steps, []);
}

#[test]
fn a_terminating_or_older_virtual_machine_is_not_written() {
    let mut world = World::running();
    world.vm["metadata"]["deletionTimestamp"] = BEFORE.into();
    let obstacle = |world: &World| {
        let plan = world.plan();
        assert_eq!(vm_step(world), None);
        plan.obstacles.first().map(|it| it.message.clone())
    };
    let message = obstacle(&world).unwrap();
    assert!(message.contains("is being deleted"), "{message}");
    let mut world = World::running();
    let metadata = &mut world.vm["metadata"];
    metadata["annotations"][labels::MACHINE_UID] = "uid-before".into();
    metadata["ownerReferences"][0]["uid"] = "uid-before".into();
    let message = obstacle(&world).unwrap();
    assert!(message.contains("earlier Machine"), "{message}");
}

#[test]
fn an_owner_reference_that_another_client_removes_is_restored_alone() {
    let mut world = converged(&json!({}));
    let other = json!([{ "apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "other" }]);
    for owners in [json!([]), other] {
        world.vm["metadata"]["ownerReferences"] = owners;
        let (step, _) = vm_step(&world).unwrap();
        assert!(matches!(step.action, Action::RestoreOwner { .. }));
        let message = step.event.unwrap().message;
        assert!(
            message.ends_with("restored metadata.ownerReferences"),
            "{message}"
        );
    }
}

#[rstest]
#[case(json!({ "uuid": "u" }))]
#[case(json!({ "serial": "s" }))]
#[case(json!({ "uuid": "u", "serial": "s" }))]
fn an_apply_keeps_the_identity_that_kubevirt_generated(#[case] firmware: Value) {
    let mut world = converged(&json!({}));
    let domain = &mut world.vm["spec"]["template"]["spec"]["domain"];
    domain["firmware"] = firmware.clone();
    world.machine["spec"]["cpu"] = json!({ "cores": 3 });
    let (_, vm) = vm_step(&world).unwrap();
    let written = &vm["spec"]["template"]["spec"]["domain"]["firmware"];
    assert_eq!(*written, firmware);
}

#[test]
fn an_apply_invents_no_firmware() {
    let mut world = converged(&json!({}));
    world.machine["spec"]["cpu"] = json!({ "cores": 3 });
    let (_, vm) = vm_step(&world).unwrap();
    let written = &vm["spec"]["template"]["spec"]["domain"]["firmware"];
    assert_eq!(*written, Value::Null);
}

#[rstest]
#[case(json!({ "powerState": "Stopped" }), "Stopping", "Stopping, as spec.powerState asks")]
#[case(
    json!({ "cpu": { "cores": 3 } }),
    "Resized",
    "Resized VirtualMachine web to 3 CPUs and 2Gi of memory"
)]
#[case(
    json!({ "cpu": { "cores": 1 }, "memory": "1Gi" }),
    "Resized",
    "Resized VirtualMachine web to 1 CPU and 1Gi of memory"
)]
#[case(
    json!({ "domain": { "machine": { "type": "q35" } } }),
    "Updated",
    "Changed spec.template.spec.domain.machine of VirtualMachine web"
)]
fn a_change_of_the_spec_is_an_event(
    #[case] change: Value,
    #[case] expected: &str,
    #[case] message: &str,
) {
    let mut world = converged(&json!({}));
    for (field, value) in change.as_object().unwrap() {
        world.machine["spec"][field] = value.clone();
    }
    assert_eq!(event(&world), Some((expected, message.to_owned())));
    let words = reason(&world);
    assert!(words.ends_with(" changes"), "{words}");
}

#[test]
fn a_start_is_an_event() {
    let mut world = converged(&json!({ "powerState": "Stopped" }));
    world.machine["spec"]["powerState"] = "Running".into();
    let message = "Starting, as spec.powerState asks".to_owned();
    assert_eq!(event(&world), Some(("Starting", message)));
}

#[test]
fn a_change_by_another_client_is_restored_with_an_event() {
    let mut world = converged(&json!({}));
    world.vm["spec"]["runStrategy"] = "Halted".into();
    let (reported, message) = event(&world).unwrap();
    assert_eq!(reported, "DriftCorrected");
    assert!(message.ends_with("restored spec.runStrategy"), "{message}");
    assert_eq!(reason(&world), "another client changed spec.runStrategy");
}

#[rstest]
#[case::by_us("PausedByUser", true)]
#[case::by_kubevirt("PausedIOError", false)]
fn a_pause_of_kubevirt_is_left_alone(#[case] cause: &str, #[case] is_unpaused: bool) {
    let mut world = converged(&json!({}));
    world.instance["status"]["conditions"] =
        json!([{ "type": "Paused", "status": "True", "reason": cause }]);
    let unpauses = |world: &World| {
        has(&world.plan(), |action| {
            matches!(action, Action::Unpause { .. })
        })
    };
    assert_eq!(unpauses(&world), is_unpaused);
    world.instance["status"]["conditions"][0]["status"] = "False".into();
    assert!(!unpauses(&world));
}
