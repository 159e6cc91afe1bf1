//! Sizes while classes are created, changed and deleted.
#![allow(
    clippy::needless_pass_by_value,
    reason = "cases read best as plain json! values"
)]

use std::sync::Arc;

use api::{Machine, kubevirt::ObservedVirtualMachine};
use rstest::rstest;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;
use crate::machine::{CloudInitSecret, Installed, Surroundings};

fn object<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn class(name: &str, memory: &str, more: Value) -> (String, Arc<MachineClass>) {
    let mut spec = json!({
        "cpu": {"cores": 2}, "memory": {"quantity": memory},
        "disks": [{"name": "root", "size": "10Gi"}],
    });
    let more = more.as_object().unwrap().clone();
    spec.as_object_mut().unwrap().extend(more);
    let class = json!({"apiVersion": "", "kind": "", "metadata": {"name": name}, "spec": spec});
    (name.to_owned(), Arc::new(object(class)))
}

fn default_class(name: &str, memory: &str) -> (String, Arc<MachineClass>) {
    class(name, memory, json!({"default": true}))
}

fn machine(spec: Value) -> Machine {
    object(json!({
        "apiVersion": "vitistack.io/v1alpha1", "kind": "Machine",
        "metadata": {"name": "web", "namespace": "shop", "uid": "m1"}, "spec": spec,
    }))
}

/// The VirtualMachine of the Machine with this UID, with its annotations.
fn vm(owner: &str, snapshot: Option<String>) -> ObservedVirtualMachine {
    object(json!({
        "metadata": {
            "name": "web", "namespace": "shop",
            "annotations": snapshot.map(|snapshot| json!({labels::CLASS_SNAPSHOT: snapshot})),
            "ownerReferences": [{"apiVersion": "x", "kind": "Machine", "name": "web",
                                 "uid": owner, "controller": true}],
        },
        "spec": {}, "status": {},
    }))
}

type Classes<'a> = &'a [(String, Arc<MachineClass>)];

fn sized(
    machine: &Machine,
    vm: Option<&ObservedVirtualMachine>,
    classes: Classes<'_>,
    may_change_size: bool,
) -> SizedMachine {
    let storage = json!({"metadata": {"name": "fast", "annotations":
        {"storageclass.kubernetes.io/is-default-class": "true"}}});
    let observed = Observed {
        machine,
        surroundings: Surroundings {
            machine_classes: Known::all(classes.iter().cloned()),
            storage_classes: Known::all([("fast".to_owned(), Arc::new(object(storage)))]),
            networks: Known::all([]),
            secrets: Known::all([]),
            ..Surroundings::default()
        },
        installed: Installed {
            kubevirt: true,
            kubevirt_is_removed: false,
            cdi: true,
            multus: true,
        },
        virtual_machine: vm,
        instance: None,
        claims: Vec::new(),
        data_volumes: Vec::new(),
        cloud_init_secret: CloudInitSecret::Unobserved { is_verified: true },
        digest_key: None,
        mac_address_rivals: Vec::new(),
        attachments: Vec::new(),
        ledger: None,
        references: None,
        lost_claims: Vec::new(),
        unconfirmed_disks: Vec::new(),
        orphaned: false,
        refusal: None,
    };
    resolve_sized(&observed, may_change_size).unwrap()
}

/// The VirtualMachine of a Machine with this spec, created when there were these classes.
fn made(spec: &Value, classes: Classes<'_>) -> ObservedVirtualMachine {
    let made = sized(&machine(spec.clone()), None, classes, true);
    vm("m1", made.class_snapshot)
}

fn size(sized: &SizedMachine) -> (String, String, String) {
    let machine = &sized.resolution.machine;
    let disk = machine.disks[0].size.to_string();
    (machine.sizing.to_string(), machine.memory.to_string(), disk)
}

fn of(source: &str, memory: &str, disk: &str) -> (String, String, String) {
    (source.to_owned(), memory.to_owned(), disk.to_owned())
}

#[rstest]
fn a_deleted_class_leaves_sizes_unchanged(
    #[values(json!({}), json!({"machineClass": "big"}), json!({"template": "big"}))] spec: Value,
    #[values(true, false)] may_change_size: bool,
    #[values(true, false)] follows: bool,
) {
    let vm = made(&spec, &[default_class("big", "4Gi")]);
    let off = json!({"default": true, "enabled": false});
    let others = json!({"default": true, "machineProviders": ["talos"]});
    for (classes, why) in [
        (vec![], "was deleted"),
        (vec![default_class("other", "8Gi")], "was deleted"),
        (vec![class("big", "6Gi", off)], "is disabled"),
        (
            vec![class("big", "6Gi", others)],
            "is no longer offered by the provider kubevirt",
        ),
    ] {
        let mut machine = machine(spec.clone());
        if follows {
            let follow = (labels::FOLLOW_CLASS.to_owned(), "true".to_owned());
            machine.metadata.annotations = Some([follow].into());
        }
        let sized = sized(&machine, Some(&vm), &classes, may_change_size);
        assert_eq!(size(&sized), of("MachineClass big", "4Gi", "10Gi"));
        let message = format!(
            "MachineClass \"big\", which the Machine is sized by, {why}: the Machine keeps its size; \
             to change it, name another MachineClass or a template in its spec"
        );
        assert_eq!(
            sized.class_mismatch,
            Some(ClassMismatch::Unavailable(message))
        );
        assert_eq!(
            sized.class_snapshot,
            made(&spec, &[default_class("big", "4Gi")])
                .metadata
                .annotations
                .unwrap()
                .get(labels::CLASS_SNAPSHOT)
                .cloned()
        );
    }
}

#[test]
fn another_default_class_is_for_new_machines() {
    let classes = [class("old", "6Gi", json!({})), default_class("new", "8Gi")];
    let vm = made(&json!({}), &[default_class("old", "4Gi")]);
    let machine = machine(json!({}));
    let running = sized(&machine, Some(&vm), &classes, false);
    assert_eq!(size(&running), of("MachineClass old", "4Gi", "10Gi"));
    assert!(
        matches!(running.class_mismatch, Some(ClassMismatch::Changed(message))
        if message.starts_with("MachineClass old has changed"))
    );
    let restarted = sized(&machine, Some(&vm), &classes, true);
    assert_eq!(size(&restarted), of("MachineClass old", "6Gi", "10Gi"));
    assert_eq!(restarted.class_mismatch, None);
    let new = sized(&machine, None, &classes, true);
    assert_eq!(size(&new), of("MachineClass new", "8Gi", "10Gi"));
}

#[test]
fn a_machine_that_follows_its_class_is_resized_while_it_runs() {
    let vm = made(&json!({}), &[default_class("big", "4Gi")]);
    let classes = [default_class("big", "6Gi")];
    let mut machine = machine(json!({}));
    let kept = sized(&machine, Some(&vm), &classes, false);
    assert_eq!(size(&kept), of("MachineClass big", "4Gi", "10Gi"));
    let follow = (labels::FOLLOW_CLASS.to_owned(), "true".to_owned());
    machine.metadata.annotations = Some([follow].into());
    let followed = sized(&machine, Some(&vm), &classes, false);
    assert_eq!(size(&followed), of("MachineClass big", "6Gi", "10Gi"));
    assert_eq!(followed.class_mismatch, None);
}

#[test]
fn a_class_that_changes_without_its_size_is_no_mismatch() {
    let vm = made(&json!({}), &[default_class("big", "4Gi")]);
    let described = json!({"default": true, "description": "for databases"});
    let classes = [class("big", "4Gi", described)];
    let sized = sized(&machine(json!({})), Some(&vm), &classes, false);
    assert_eq!(sized.class_mismatch, None);
}

#[rstest]
fn a_first_default_class_is_for_new_machines(#[values(true, false)] may_change_size: bool) {
    let vm = made(&json!({}), &[]);
    let classes = [default_class("new", "8Gi")];
    let sized = sized(&machine(json!({})), Some(&vm), &classes, may_change_size);
    assert_eq!(size(&sized), of("template small", "2Gi", "20Gi"));
}

#[test]
fn a_foreign_virtual_machine_does_not_affect_the_size() {
    let classes = [default_class("new", "8Gi")];
    for snapshot in [
        None,
        made(&json!({}), &[default_class("big", "4Gi")])
            .metadata
            .annotations
            .and_then(|mut notes| notes.remove(labels::CLASS_SNAPSHOT)),
    ] {
        let foreign = vm("m0", snapshot);
        let sized = sized(&machine(json!({})), Some(&foreign), &classes, true);
        assert_eq!(size(&sized), of("MachineClass new", "8Gi", "10Gi"));
    }
}

#[test]
fn a_size_that_the_spec_names_applies_at_once() {
    let vm = made(&json!({}), &[default_class("big", "4Gi")]);
    let machine = machine(json!({"template": "medium"}));
    let sized = sized(&machine, Some(&vm), &[], false);
    assert_eq!(size(&sized), of("template medium", "4Gi", "40Gi"));
    assert_eq!((sized.class_snapshot, sized.class_mismatch), (None, None));
}
