//! Address ledgers and VLANs of Machines on the network of a NetworkNamespace.

use api::labels;
use plan::machine::{Action, Step};
use rstest::rstest;
use serde_json::{Value, json};

use crate::world::{World, attachment, metadata};

/// What the operator generates from the UID of the Machine.
const GENERATED: &str = "02:14:71:39:ea:f8";

/// A running Machine, whose ledger, VLAN and VirtualMachine are as the plan writes them.
fn on_vlan() -> World {
    let mut world = World::running();
    world.machine["spec"]["network"] = json!({ "networkNamespaceName": "tenant" });
    world.network_namespaces = vec![json!({
        "apiVersion": "vitistack.io/v1alpha1", "kind": "NetworkNamespace",
        "metadata": { "name": "tenant", "namespace": "default", "uid": "uid-tenant" },
        "spec": {}, "status": { "vlanId": 42 },
    })];
    world.vm["metadata"]["labels"][labels::SOURCE_MACHINE] = "web".into();
    world.adopt_written_vm();
    for step in world.plan().steps {
        if let Action::Create(object) | Action::Recreate(object) = step.action {
            let mut object = json!(object);
            let name = object["metadata"]["name"].as_str().unwrap().to_owned();
            object["metadata"]["uid"] = format!("uid-{name}").into();
            match object["kind"].as_str().unwrap() {
                "NetworkConfiguration" => world.ledger = object,
                _ => world.attachments.push(object),
            }
        }
    }
    assert_eq!(step(&world), None, "as planned");
    world
}

/// The only step, if any.
fn step(world: &World) -> Option<Step> {
    let mut steps = world.plan().steps;
    assert!(steps.len() <= 1, "{steps:?}");
    steps.pop()
}

fn event(step: &Step) -> &str {
    step.event.as_ref().map_or("", |event| &event.message)
}

fn changed_by(manager: &str, field: &Value) -> Value {
    json!([{ "manager": manager, "operation": "Update", "fieldsV1": field }])
}

fn mac_address_on_vm(world: &mut World) -> &mut Value {
    let address = "/spec/template/spec/domain/devices/interfaces/0/macAddress";
    world.vm.pointer_mut(address).unwrap()
}

#[test]
fn a_ledger_records_the_interface_of_its_machine() {
    let world = on_vlan();
    assert_eq!(
        world.ledger["spec"]["networkInterfaces"],
        json!([{ "name": "vlan42", "macAddress": GENERATED }])
    );
    assert_eq!(
        world.ledger["metadata"]["annotations"],
        json!({ labels::MACHINE_UID: "uid-machine" })
    );
    let mut world = world;
    assert_eq!(*mac_address_on_vm(&mut world), GENERATED);
}

#[test]
fn a_deleted_ledger_is_created_again_after_a_live_read() {
    let mut world = on_vlan();
    world.ledger = Value::Null;
    let step = step(&world).unwrap();
    assert!(matches!(step.action, Action::Recreate(_)), "{step:?}");
    assert_eq!(event(&step), "Created NetworkConfiguration web");
}

#[test]
fn a_ledger_without_its_owner_gets_it_back() {
    let mut world = on_vlan();
    world.ledger["metadata"]["ownerReferences"] = json!([]);
    world.ledger["metadata"]["labels"] = json!({});
    let step = step(&world).unwrap();
    assert!(
        matches!(step.action, Action::RestoreOwner { .. }),
        "{step:?}"
    );
    assert_eq!(
        event(&step),
        "Another client changed NetworkConfiguration web: the operator restored metadata.ownerReferences"
    );
    assert_eq!(world.plan().obstacles, []);
}

#[test]
fn a_ledger_without_its_owner_is_deleted_with_its_machine() {
    let mut world = World::ending();
    let ledger = on_vlan().ledger;
    world.claims.clear();
    world.ledger = ledger;
    world.ledger["metadata"]["ownerReferences"] = json!([]);
    assert_eq!(world.deleted(), ["NetworkConfiguration web"]);
}

#[rstest]
#[case::removed_labels("/metadata/labels", json!({}), json!({}),
    "Another client changed NetworkConfiguration web: the operator restored metadata.labels.vitistack.io/machine, \
     metadata.labels.vitistack.io/managed-by, metadata.labels.vitistack.io/source-machine")]
#[case::removed_interfaces("/spec/networkInterfaces", json!([]), json!({}),
    "Another client changed NetworkConfiguration web: the operator restored spec.networkInterfaces")]
#[case::another_address("/spec/networkInterfaces/0/macAddress", json!("02:00:00:00:00:01"),
    json!({ "f:networkInterfaces": {} }), "kubectl-edit changed NetworkConfiguration web: the operator restored spec.networkInterfaces")]
#[case::another_namespace("/spec/networkNamespaceName", json!("other"),
    json!({ "f:networkNamespaceName": {} }), "kubectl-edit changed NetworkConfiguration web: the operator restored spec.networkNamespaceName")]
fn a_changed_ledger_is_repaired_with_an_event(
    #[case] pointer: &str,
    #[case] value: Value,
    #[case] owned: Value,
    #[case] expected: &str,
) {
    let mut world = on_vlan();
    *world.ledger.pointer_mut(pointer).unwrap() = value;
    world.ledger["metadata"]["managedFields"] =
        changed_by("kubectl-edit", &json!({ "f:spec": owned }));
    let step = step(&world).unwrap();
    assert_eq!(event(&step), expected);
    let Action::Apply { object, .. } = &step.action else {
        panic!("{step:?}");
    };
    assert_eq!(json!(object)["spec"], on_vlan().ledger["spec"]);
}

#[test]
fn a_ledger_of_an_earlier_version_gets_its_annotation_without_an_event() {
    let mut world = on_vlan();
    world.ledger["metadata"]["annotations"] = json!({});
    let step = step(&world).unwrap();
    assert!(matches!(step.action, Action::Apply { .. }), "{step:?}");
    assert_eq!(event(&step), "");
}

#[test]
fn what_others_record_in_a_ledger_stays() {
    let mut world = on_vlan();
    let other = json!({ "name": "other", "ipv4Addresses": ["10.0.0.9"] });
    let interfaces = &mut world.ledger["spec"]["networkInterfaces"];
    interfaces.as_array_mut().unwrap().insert(0, other);
    world.ledger["spec"]["networkInterfaces"][1]["ipAllocated"] = true.into();
    assert_eq!(step(&world), None);
}

#[test]
fn a_changed_mac_address_of_the_virtual_machine_is_restored() {
    let mut world = on_vlan();
    *mac_address_on_vm(&mut world) = "02:00:00:00:00:01".into();
    let step = step(&world).unwrap();
    assert!(
        event(&step).starts_with("Another client changed VirtualMachine web:"),
        "{step:?}"
    );
    let Action::Apply { object, .. } = &step.action else {
        panic!("{step:?}");
    };
    world.vm["spec"] = json!(object)["spec"].clone();
    assert_eq!(*mac_address_on_vm(&mut world), GENERATED);
}

#[test]
fn an_address_that_the_operator_did_not_generate_is_that_of_the_virtual_machine() {
    let mut world = on_vlan();
    let other: Value = "02:00:00:00:00:01".into();
    *mac_address_on_vm(&mut world) = other.clone();
    world.ledger["spec"]["networkInterfaces"][0]["macAddress"] = "02:00:00:00:00:02".into();
    let steps = world.plan().steps;
    let Some(Action::Apply { object, .. }) = steps.first().map(|step| &step.action) else {
        panic!("{steps:?}");
    };
    let recorded = &json!(object)["spec"]["networkInterfaces"][0]["macAddress"];
    assert_eq!(*recorded, other);
}

#[test]
fn a_ledger_that_got_a_bridge_is_reported_with_the_remedy() {
    let mut world = on_vlan();
    world.ledger["spec"]["bridge"] = "br0".into();
    let plan = world.plan();
    assert_eq!(plan.steps, []);
    let message = &plan.obstacles[0].message;
    assert!(
        message.contains("records the addresses of this Machine"),
        "{message}"
    );
    world.ledger["metadata"]["ownerReferences"][0]["uid"] = "other".into();
    world.ledger["metadata"]["ownerReferences"][0]["name"] = "other".into();
    let message = &world.plan().obstacles[0].message;
    assert!(
        message.contains("does not belong to this Machine"),
        "{message}"
    );
}

#[test]
fn a_changed_definition_of_a_vlan_is_repaired_and_keeps_its_owners() {
    let mut world = on_vlan();
    let owner = json!({ "apiVersion": "vitistack.io/v1alpha1", "kind": "NetworkNamespace",
                        "name": "second", "uid": "uid-second" });
    let definition = &mut world.attachments[0];
    let owners = definition["metadata"]["ownerReferences"]
        .as_array_mut()
        .unwrap();
    owners.push(owner);
    let owners = definition["metadata"]["ownerReferences"].clone();
    let config = definition["spec"]["config"].clone();
    definition["spec"]["config"] = "{}".into();
    definition["metadata"]["managedFields"] =
        changed_by("kubectl-edit", &json!({ "f:spec": { "f:config": {} } }));
    let step = step(&world).unwrap();
    assert_eq!(
        event(&step),
        "kubectl-edit changed NetworkAttachmentDefinition vlan42: the operator restored spec.config"
    );
    let Action::Apply { object, .. } = &step.action else {
        panic!("{step:?}");
    };
    let applied = json!(object);
    assert_eq!(applied["spec"]["config"], config);
    assert_eq!(applied["metadata"]["ownerReferences"], owners);
}

#[test]
fn a_definition_of_another_client_is_used_as_it_is() {
    let mut world = on_vlan();
    world.attachments = vec![attachment("vlan42")];
    assert_eq!(step(&world), None);
    world.attachments[0]["metadata"] = metadata("vlan42");
    world.attachments[0]["metadata"]["deletionTimestamp"] = crate::world::NOW.into();
    assert_eq!(step(&world), None, "it is being deleted");
}
