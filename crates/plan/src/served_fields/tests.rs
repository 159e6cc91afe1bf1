use api::{Condition, InterfaceStatus, NetworkConfigurationInterface, QuantityValue, Time};
use serde_json::json;

use super::*;

fn definition(spec: &Value, status: &Value) -> Value {
    json!({ "spec": { "versions": [
        { "name": "v1", "schema": { "openAPIV3Schema": { "type": "object" } } },
        { "name": "v1alpha1", "schema": { "openAPIV3Schema": {
            "type": "object",
            "properties": {
                "spec": { "type": "object", "properties": spec },
                "status": { "type": "object", "properties": status },
            },
        } } },
    ] } })
}

fn own(name: &str) -> Value {
    let mut own = crds().into_iter();
    let own = own.find(|own| own.metadata.name.as_deref() == Some(name));
    serde_json::to_value(own.unwrap()).unwrap()
}

fn status() -> MachineStatus {
    MachineStatus {
        hostname: Some("web".to_owned()),
        node_name: Some("node-1".to_owned()),
        memory: Some(QuantityValue::Bytes(1 << 30)),
        conditions: Some(vec![Condition {
            type_: "Ready".to_owned(),
            status: "True".to_owned(),
            reason: "Running".to_owned(),
            message: String::new(),
            observed_generation: Some(3),
            last_transition_time: Time("2026-01-01T00:00:00Z".parse().unwrap()),
        }]),
        network_interfaces: Some(vec![InterfaceStatus {
            name: Some("default".to_owned()),
            ..InterfaceStatus::default()
        }]),
        ..MachineStatus::default()
    }
}

#[test]
fn the_own_definitions_prune_nothing() {
    let mut served = ServedFields::default();
    for name in [MACHINES, NETWORKS] {
        assert_eq!(served.adopt(name, &own(name)), [""; 0]);
    }
    assert_eq!(served, ServedFields::default());
    let status = status();
    let stored = served.machine_status(Cow::Borrowed(&status));
    assert!(matches!(stored, Cow::Borrowed(_)), "it is not copied");
}

#[test]
fn fields_that_a_definition_lacks_are_pruned_and_named() {
    let text = || json!({ "type": "string" });
    let condition = json!({
        "type": "object",
        "properties": {
            "type": text(), "status": text(), "reason": text(), "message": text(),
            "lastTransitionTime": text(),
        },
    });
    let fields = json!({
        "hostname": text(), "memory": { "type": "integer" },
        "conditions": { "type": "array", "items": condition },
        "networkInterfaces": { "type": "array", "items": {
            "type": "object", "properties": { "name": text() },
        } },
    });
    let mut served = ServedFields::default();
    let lacking = served.adopt(MACHINES, &definition(&json!({}), &fields));
    for path in [
        "status.nodeName",
        "status.conditions[].observedGeneration",
        "status.networkInterfaces[].type",
        "spec.template",
    ] {
        assert!(
            lacking.iter().any(|found| found == path),
            "{path}: {lacking:?}"
        );
    }
    assert!(!lacking.iter().any(|path| path == "status.hostname"));
    let stored = served.machine_status(Cow::Owned(status())).into_owned();
    let mut expected = status();
    expected.node_name = None;
    expected.conditions.as_mut().unwrap()[0].observed_generation = None;
    assert_eq!(stored, expected);
    let again = served.machine_status(Cow::Borrowed(&stored));
    assert_eq!(*again, stored, "pruning is idempotent");
}

#[test]
fn a_field_of_another_type_is_pruned() {
    let fields = json!({ "memory": { "type": "string" } });
    let mut served = ServedFields::default();
    let lacking = served.adopt(MACHINES, &definition(&json!({}), &fields));
    assert!(
        lacking
            .iter()
            .any(|path| path == "status.memory (of another type)")
    );
    let stored = served.machine_status(Cow::Owned(status()));
    assert_eq!(stored.memory, None);
}

#[test]
fn a_definition_that_preserves_unknown_fields_has_them_all() {
    let open = json!({ "spec": { "versions": [{
        "name": "v1alpha1",
        "schema": { "openAPIV3Schema": {
            "type": "object", "x-kubernetes-preserve-unknown-fields": true,
        } },
    }] } });
    let mut served = ServedFields::default();
    assert_eq!(served.adopt(MACHINES, &open), [""; 0]);
    assert_eq!(served, ServedFields::default());
}

#[test]
fn a_ledger_has_only_stored_fields() {
    let fields = json!({
        "name": { "type": "string" },
        "networkInterfaces": { "type": "array", "items": {
            "type": "object", "properties": { "name": { "type": "string" } },
        } },
    });
    let mut served = ServedFields::default();
    served.adopt(NETWORKS, &definition(&fields, &json!({})));
    assert!(!served.has_network_provider());
    let interface = |address: Option<&str>| NetworkConfigurationInterface {
        name: Some("vlan42".to_owned()),
        mac_address: address.map(str::to_owned),
        ..NetworkConfigurationInterface::default()
    };
    let ledger = |provider: Option<&str>, interface| NetworkConfigurationSpec {
        name: Some("web".to_owned()),
        provider: provider.map(str::to_owned),
        network_interfaces: Some(vec![interface]),
        ..NetworkConfigurationSpec::default()
    };
    let stored = served.network_spec(ledger(Some("kea"), interface(Some("02:00:00:00:00:01"))));
    assert_eq!(stored, ledger(None, interface(None)));
}

#[test]
fn a_definition_without_a_schema_has_no_fields() {
    let mut served = ServedFields::default();
    assert!(!served.adopt(MACHINES, &json!({})).is_empty());
    let stored = served.machine_status(Cow::Owned(status()));
    assert_eq!(*stored, MachineStatus::default());
}
