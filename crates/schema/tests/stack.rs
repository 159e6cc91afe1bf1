//! Agreement with the definitions of vitistack/common: what they accept, ours accept without pruning.
//!
//! The tables have every field of the specs of Machine and MachineClass there, with values at the bounds.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use schema::Schema;
use serde_json::{Map, Value, json};

fn schema(kind: &str) -> Schema {
    let crd = api::crds()
        .into_iter()
        .find(|crd| crd.spec.names.kind == kind)
        .unwrap();
    let crd = serde_json::to_value(crd).unwrap();
    Schema::compile(&crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]).unwrap()
}

/// Fields of a Machine's spec, each with valid values.
fn machine_fields() -> Vec<(&'static str, Vec<Value>)> {
    let reference = json!({"name": "a", "key": "k"});
    vec![
        (
            "backup",
            vec![
                json!({}),
                json!({"enabled": true, "retentionDays": -1, "schedule": ""}),
            ],
        ),
        (
            "cloudInit",
            vec![
                json!({}),
                json!({"type": "noCloud"}),
                json!({"type": "configDrive", "userData": "", "networkData": ""}),
                json!({"userDataBase64": "eA==", "networkDataBase64": "eA=="}),
                json!({"userDataSecretRef": reference, "networkDataSecretRef": {"name": "a"}}),
                json!({"userDataConfigMapRef": {"name": "a", "key": ""},
                       "networkDataConfigMapRef": reference}),
            ],
        ),
        (
            "cpu",
            vec![
                json!({}),
                json!({"cores": 1, "sockets": 1, "threadsPerCore": 1}),
                json!({"cores": 256, "sockets": 16, "threadsPerCore": 8}),
            ],
        ),
        (
            "disks",
            vec![
                json!([]),
                json!([{"name": "disk-0", "boot": true, "sizeGB": 1, "type": ""},
                       {"name": "b", "boot": false, "sizeGB": 65536, "type": "Premium_LRS"}]),
                json!([{"name": "a", "device": "/dev/sda", "encrypted": true, "iops": 100,
                        "throughput": 125, "type": "nvme"},
                       {"name": "b", "iops": 64000, "throughput": 4000, "type": "cdrom"}]),
            ],
        ),
        ("machineClass", vec![json!("large")]),
        ("machineType", vec![json!(""), json!("n1-standard-2")]),
        (
            "memory",
            vec![json!(0), json!(1_048_576), json!(1_i64 << 60)],
        ),
        ("monitoring", vec![json!(true)]),
        ("name", vec![json!("c1-ctp0")]),
        (
            "network",
            vec![
                json!({}),
                json!({"assignPublicIP": true, "networkNamespaceName": "lab", "privateIP": "x",
                       "publicIP": "", "subnet": "s", "vpc": "v",
                       "interfaces": [{}, {"name": "n", "primary": true, "securityGroups": ["g"],
                                           "subnet": "s"}]}),
                json!({"networkNamespaceName": ""}),
            ],
        ),
        (
            "os",
            vec![
                json!({}),
                json!({"architecture": "amd64", "distribution": "d", "family": "f",
                       "imageFamily": "i", "imageID": "ami-1", "isoUri": "u", "version": "1"}),
                json!({"architecture": "arm64"}),
                json!({"architecture": "x86_64"}),
            ],
        ),
        ("provider", vec![json!("kubevirt"), json!("")]),
        (
            "providerConfig",
            vec![
                json!({}),
                json!({"config": {"a": "b"}, "credentialsRef": {}, "name": "n"}),
                json!({"credentialsRef": {"namespace": "n", "secretName": "s"}, "region": "r",
                       "zone": "z"}),
            ],
        ),
        ("securityGroups", vec![json!([]), json!(["g"])]),
        ("sshKeys", vec![json!(["k"])]),
        ("tags", vec![json!({}), json!({"a": "b"})]),
        ("userData", vec![json!("#!/bin/sh")]),
    ]
}

/// Fields of a MachineClass's spec, each with valid values.
fn class_fields() -> Vec<(&'static str, Vec<Value>)> {
    vec![
        ("category", vec![json!("Standard")]),
        (
            "cpu",
            vec![
                json!({"cores": 2, "sockets": 0, "threads": 0}),
                json!({"cores": 1}),
            ],
        ),
        ("default", vec![json!(false), json!(true)]),
        ("description", vec![json!("d")]),
        ("displayName", vec![json!("d")]),
        ("enabled", vec![json!(true)]),
        ("gpu", vec![json!({"cores": 0, "manufacturer": "m"})]),
        ("machineProviders", vec![json!([]), json!(["kubevirt"])]),
        (
            "memory",
            vec![
                json!({"quantity": "4Gi"}),
                json!({"quantity": 4_294_967_296_i64, "minQuantity": "0", "maxQuantity": "8Gi"}),
            ],
        ),
    ]
}

/// Specs with each value of each field alone, and with all fields at once, beside the required ones.
fn specs(fields: &[(&str, Vec<Value>)], required: &[&str]) -> Vec<Value> {
    let pick = |wanted: &dyn Fn(&str) -> bool, turn: usize| -> Map<String, Value> {
        let fields = fields.iter().filter(|(name, _)| wanted(name));
        fields
            .map(|(name, values)| ((*name).to_owned(), values[turn % values.len()].clone()))
            .collect()
    };
    let mut specs = vec![Value::from(pick(&|name| required.contains(&name), 0))];
    for (name, values) in fields {
        for value in values {
            let mut spec = specs[0].clone();
            spec[*name] = value.clone();
            specs.push(spec);
        }
    }
    specs.extend((0..6).map(|turn| pick(&|_| true, turn).into()));
    specs
}

fn check(kind: &str, fields: &[(&str, Vec<Value>)], required: &[&str]) {
    let schema = schema(kind);
    for spec in specs(fields, required) {
        let object = json!({
            "apiVersion": api::API_VERSION, "kind": kind, "metadata": {"name": "a"}, "spec": spec,
        });
        let found: Vec<_> = schema
            .validate(&object, None)
            .iter()
            .map(ToString::to_string)
            .collect();
        assert!(found.is_empty(), "{spec}: {found:?}");
    }
}

#[test]
fn machines_of_the_stack_are_valid() {
    check("Machine", &machine_fields(), &["provider"]);
}

#[test]
fn classes_of_the_stack_are_valid() {
    let required = [
        "category",
        "cpu",
        "default",
        "enabled",
        "machineProviders",
        "memory",
    ];
    check("MachineClass", &class_fields(), &required);
}
