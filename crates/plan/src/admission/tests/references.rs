//! Errors of a Machine, and of the objects that it refers to.

use api::MachineClass;

use super::*;

#[test]
fn a_valid_machine_is_allowed_without_warnings() {
    silent(&create(json!({}), &cluster()));
    let spec = json!({
        "template": "medium",
        "networks": [{"name": "lan", "networkName": "prod", "macAddress": "52:54:00:00:00:01"}],
        "disks": [{"name": "data", "size": "10Gi", "storageClass": "fixed"}],
    });
    silent(&create(spec, &cluster()));
}

#[test]
fn a_missing_reference_is_a_warning() {
    let spec = json!({
        "template": "gold",
        "networks": [{"name": "lan", "networkName": "lost"}],
        "disks": [{"name": "data", "size": "10Gi", "storageClass": "lost"}],
        "cloudInit": {"secretRef": {"name": "lost"}},
    });
    warns(
        &create(spec, &cluster()),
        &[
            "spec.template: no MachineClass is named \"gold\": use small, medium or large, or create it",
            "spec.networks[0].networkName: no NetworkConfiguration is named \"lost\" in this namespace: create it, or name another",
            "spec.disks[0].storageClass: no StorageClass is named \"lost\": create it, or name another",
            "spec.cloudInit.secretRef.name: no Secret is named \"lost\" in this namespace: create it, or name another",
        ],
    );
}

#[test]
fn an_invalid_class_is_a_warning() {
    let class = object(json!({
        "apiVersion": "", "kind": "", "metadata": {"name": "gold"},
        "spec": {"cpu": {"cores": 1}, "memory": {"quantity": "x"}},
    }));
    let mut context = cluster();
    context.surroundings.machine_classes = Known::all([("gold".to_owned(), Arc::new(class))]);
    let verdict = create(json!({"machineClass": "gold"}), &context);
    assert_eq!(verdict.errors, []);
    assert!(verdict.warnings[0].starts_with(
        "spec.machineClass: MachineClass \"gold\": spec.memory.quantity: \"x\" does not begin"
    ));
}

#[test]
fn all_errors_of_the_machine_are_refused_at_once() {
    let spec = json!({
        "template": "small", "machineClass": "gold",
        "resources": {"cpu": {"cores": 2}}, "memory": "lots",
        "disks": [{"name": "root", "size": "1m"}],
        "networks": [
            {"name": "a", "networkName": "prod", "macAddress": "52:54:00:00:00:0A"},
            {"name": "b", "networkName": "prod", "macAddress": "52:54:00:00:00:0a"},
        ],
    });
    let verdict = create(spec, &cluster());
    let fields: Vec<_> = verdict.errors.iter().map(|error| &*error.field).collect();
    assert_eq!(
        fields,
        [
            "spec.machineClass",
            "spec.resources",
            "spec.memory",
            "spec.networks[1].macAddress",
            "spec.disks[0].size",
        ]
    );
    let message = verdict.message();
    for text in [
        "spec.machineClass: give at most one of template, instanceType and machineClass; ",
        "spec.disks[0].size: \"1m\" is less than 1Mi",
    ] {
        assert!(message.contains(text), "{text:?} is not in {message}");
    }
}

#[test]
fn the_bounds_of_a_class_are_enforced() {
    let class = object(json!({
        "apiVersion": "", "kind": "", "metadata": {"name": "gold"},
        "spec": {
            "cpu": {"cores": 1}, "memory": {"quantity": "2Gi", "maxQuantity": "4Gi"},
            "disks": [{"name": "root", "size": "10Gi"}],
        },
    }));
    let mut context = cluster();
    context.surroundings.machine_classes = Known::all([("gold".to_owned(), Arc::new(class))]);
    let spec = json!({"machineClass": "gold", "memory": "8Gi"});
    refuses(
        &create(spec, &context),
        &[(
            "spec.memory",
            "spec.memory: 8Gi is more than MachineClass gold allows: give at most 4Gi",
        )],
    );
}

#[test]
fn what_is_not_known_is_no_reason_for_anything() {
    let spec = json!({
        "template": "gold",
        "networks": [{"name": "lan", "networkName": "lost"}],
        "cloudInit": {"secretRef": {"name": "lost"}},
    });
    silent(&create(spec, &ReviewContext::default()));
}

#[test]
fn an_existing_problem_is_a_warning() {
    let wrong = json!({"name": "iso", "size": "1Gi", "type": "cdrom", "bus": "virtio"});
    let old = json!({"disks": [{"name": "data"}, wrong]});
    let new = json!({"disks": [wrong]});
    warns(
        &update(old.clone(), new, &cluster()),
        &["spec.disks[0].bus: a cdrom cannot be on the virtio bus: use sata or scsi"],
    );
    let another = json!({"name": "more", "size": "1Gi", "type": "cdrom", "bus": "virtio"});
    let new = json!({"disks": [wrong, another]});
    let verdict = update(old, new, &cluster());
    assert_eq!(verdict.errors.len(), 1, "{verdict:?}");
    assert_eq!(verdict.errors[0].field, "spec.disks[1].bus");
}

#[test]
fn an_annotation_without_effect_is_reported() {
    let mut machine = machine(json!({}));
    let annotations = json!({"vitistack.io/follow-machine-class": "True"});
    machine.metadata.annotations = object(annotations);
    warns(
        &review(None, &machine, &cluster()),
        &[
            "metadata.annotations[vitistack.io/follow-machine-class]: \"True\" is ignored: it must be \"true\" to have an effect",
        ],
    );
}

#[test]
fn a_machine_that_names_no_size_is_judged_with_the_class_that_it_has() {
    let class: MachineClass = object(json!({
        "apiVersion": "", "kind": "", "metadata": {"name": "gold"},
        "spec": {
            "default": true, "cpu": {"cores": 1}, "memory": {"quantity": "4Gi", "maxQuantity": "8Gi"},
            "disks": [{"name": "root", "size": "10Gi"}],
        },
    }));
    let snapshot = json!({"name": "gold", "cpu": class.spec.cpu, "memory": class.spec.memory,
                       "disks": class.spec.disks});
    let mut context = cluster();
    context.virtual_machine = Some(object(json!({
        "name": "web", "annotations": {"vitistack.io/machine-class": snapshot.to_string()},
        "ownerReferences": [{"apiVersion": api::API_VERSION, "kind": "Machine", "name": "web", "uid": "m1",
                             "controller": true}],
    })));
    let of = |spec: Value| {
        let mut machine = machine(spec);
        machine.metadata.uid = Some("m1".to_owned());
        machine
    };
    // The class was deleted, and another one has become the default.
    let mut other = class;
    other.metadata.name = Some("other".to_owned());
    other.spec.memory.max_quantity = None;
    let others = [("other".to_owned(), Arc::new(other))];
    context.surroundings.machine_classes = Known::all(others);
    let (old, new) = (of(json!({})), of(json!({"memory": "9Gi"})));
    refuses(
        &review(Some(&old), &new, &context),
        &[(
            "spec.memory",
            "spec.memory: 9Gi is more than MachineClass gold allows: give at most 8Gi",
        )],
    );
    silent(&review(None, &new, &context));
}

#[test]
fn a_running_guest_is_reviewed_with_its_class_snapshot() {
    let class = |size: &str| -> MachineClass {
        object(json!({
            "apiVersion": "", "kind": "", "metadata": {"name": "gold"},
            "spec": {
                "cpu": {"cores": 1}, "memory": {"quantity": "4Gi"},
                "disks": [{"name": "root", "size": size}],
            },
        }))
    };
    let spec = class("10Gi").spec;
    let snapshot =
        json!({"name": "gold", "cpu": spec.cpu, "memory": spec.memory, "disks": spec.disks});
    let vm = json!({
        "name": "web", "annotations": {"vitistack.io/machine-class": snapshot.to_string()},
        "ownerReferences": [{
            "apiVersion": api::API_VERSION, "kind": "Machine", "name": "web", "uid": "1",
            "controller": true,
        }],
    });
    let claim = json!({
        "metadata": {"name": "web-root", "annotations": {"vitistack.io/machine-uid": "1"}},
        "spec": {"storageClassName": "fixed", "resources": {"requests": {"storage": "10Gi"}}},
    });
    let mut context = ReviewContext {
        virtual_machine: Some(object(vm)),
        is_running: true,
        claims: vec![object(claim)],
        ..cluster()
    };
    context.surroundings.machine_classes =
        Known::all([("gold".to_owned(), Arc::new(class("20Gi")))]);
    let old = json!({"machineClass": "gold"});
    let with = |field: &str, value: Value| {
        let mut new = old.clone();
        new[field] = value;
        update(old.clone(), new, &context)
    };
    silent(&with("cpu", json!({"cores": 2})));
    for (field, value) in [
        ("restartedAt", "2026-01-01T00:00:00Z"),
        ("powerState", "Stopped"),
    ] {
        let verdict = with(field, value.into());
        assert_eq!(verdict.errors, []);
        assert_eq!(verdict.warnings.len(), 1, "{verdict:?}");
        assert!(verdict.warnings[0].contains("cannot grow from 10Gi to 20Gi"));
    }
}
