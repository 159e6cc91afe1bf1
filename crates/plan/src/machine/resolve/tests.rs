//! Rules of the API's documentation, one test each.
#![allow(
    clippy::needless_pass_by_value,
    reason = "cases read best as plain json! values"
)]

mod access;
mod boot_order;
mod cloud_init;
mod disks;
mod hardware;
mod names;
mod networks;
mod offline;
mod overrides;
mod passed_on;
mod placement;
mod power;
mod size;
mod stack;
mod storage_classes;
mod unvalidated;

use std::sync::Arc;

use api::{
    AccessMode, DiskBus, Machine, MachineClass, NetworkConfiguration, NetworkModel, PowerState,
    VolumeMode,
    core::{ConfigMap, Secret, StorageClass},
    kubevirt::CpuTopology,
};
use rstest::rstest;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{Resolution, resolve};
use crate::{
    Quantity,
    machine::{
        Attachment, Bootloader, CloneSources, DataVolumeContent, DiskType, ErrorType, Known,
        NetworkData, ResolvedMachine, ResolvedSource, SizingSource, SpecError, Surroundings,
        UserData,
    },
};

fn object<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn machine(spec: Value) -> Machine {
    object(json!({
        "apiVersion": "vitistack.io/v1alpha1",
        "kind": "Machine",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": spec,
    }))
}

fn class(name: &str, spec: Value) -> (String, Arc<MachineClass>) {
    let class = json!({"apiVersion": "", "kind": "", "metadata": {"name": name}, "spec": spec});
    (name.to_owned(), Arc::new(object(class)))
}

fn storage_class(name: &str, annotations: Value) -> (String, Arc<StorageClass>) {
    let class = json!({"metadata": {"name": name, "annotations": annotations}});
    (name.to_owned(), Arc::new(object(class)))
}

fn default_storage_class(name: &str) -> (String, Arc<StorageClass>) {
    storage_class(
        name,
        json!({"storageclass.kubernetes.io/is-default-class": "true"}),
    )
}

fn network(name: &str) -> (String, Arc<NetworkConfiguration>) {
    let network = json!({
        "apiVersion": "", "kind": "", "metadata": {"name": name}, "spec": {"bridge": "br0"},
    });
    (name.to_owned(), Arc::new(object(network)))
}

fn secret(name: &str, value: Value) -> (String, Arc<Secret>) {
    let mut secret = json!({"metadata": {"name": name}});
    secret
        .as_object_mut()
        .unwrap()
        .extend(value.as_object().unwrap().clone());
    (name.to_owned(), Arc::new(object(secret)))
}

/// A cluster in which all objects are known.
fn cluster() -> Surroundings {
    Surroundings {
        machine_classes: Known::all([]),
        storage_classes: Known::all([
            default_storage_class("standard"),
            storage_class("fast-ssd", json!({})),
        ]),
        networks: Known::all([network("prod-network")]),
        config_maps: Known::all([]),
        secrets: Known::all([secret(
            "bootstrap",
            json!({"stringData": {"userdata": "from secret"}}),
        )]),
        ..Surroundings::default()
    }
}

fn resolved_in(surroundings: &Surroundings, spec: Value) -> ResolvedMachine {
    let Resolution { machine, notes } = resolve(&machine(spec), surroundings).unwrap();
    assert_eq!(notes, [], "everything is known");
    machine
}

fn resolved(spec: Value) -> ResolvedMachine {
    resolved_in(&cluster(), spec)
}

fn errors_in(surroundings: &Surroundings, spec: Value) -> Vec<SpecError> {
    resolve(&machine(spec), surroundings).unwrap_err()
}

fn error(spec: Value) -> (ErrorType, String) {
    match &errors_in(&cluster(), spec)[..] {
        [error] => (error.error_type, error.path.clone()),
        errors => panic!("one error was expected: {errors:?}"),
    }
}

fn quantity(text: &str) -> Quantity {
    text.parse().unwrap()
}

fn disk_sizes(machine: &ResolvedMachine) -> Vec<(&str, String)> {
    machine
        .disks
        .iter()
        .map(|disk| (disk.name.as_str(), disk.size.to_string()))
        .collect()
}

#[test]
fn all_errors_are_reported_at_once() {
    let errors = errors_in(
        &cluster(),
        json!({
            "name": "Nope",
            "template": "gigantic",
            "cpu": {"cores": 0},
            "memory": "none",
            "disks": [{"name": "a", "size": "b", "storageClass": "tape"}],
            "networks": [{"name": "a", "networkName": "lost", "macAddress": "x"}],
            "cloudInit": {"secretRef": {"name": "absent"}},
            "domain": {"firmware": {"bootloader": {"efi": false, "secureBoot": true}}},
        }),
    );
    let paths: Vec<_> = errors.iter().map(|error| error.path.as_str()).collect();
    assert_eq!(
        paths,
        [
            "spec.name",
            "spec.template",
            "spec.cpu.cores",
            "spec.memory",
            "spec.networks[0].macAddress",
            "spec.networks[0].networkName",
            "spec.disks[0].size",
            "spec.disks[0].storageClass",
            "spec.cloudInit.secretRef.name",
            "spec.domain.firmware.bootloader.secureBoot",
        ],
    );
}
