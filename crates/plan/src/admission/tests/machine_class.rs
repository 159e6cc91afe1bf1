//! MachineClasses.

use api::MachineClass;

use super::{
    super::machine_class::{self, is_user},
    *,
};

fn class(spec: Value) -> MachineClass {
    let mut whole = json!({"cpu": {"cores": 1}, "memory": {"quantity": "1Gi"}});
    whole
        .as_object_mut()
        .unwrap()
        .extend(spec.as_object().unwrap().clone());
    object(json!({"apiVersion": "", "kind": "", "metadata": {"name": "gold"}, "spec": whole}))
}

fn facts() -> machine_class::Facts {
    machine_class::Facts {
        storage_classes: cluster().surroundings.storage_classes,
        ..machine_class::Facts::default()
    }
}

fn judged(spec: Value) -> Verdict {
    machine_class::judge(None, &class(spec), &facts())
}

#[test]
fn a_class_that_machines_can_have_is_let_in() {
    silent(&judged(
        json!({"disks": [{"name": "root", "size": "1Gi", "storageClass": "default"}]}),
    ));
}

#[test]
fn a_class_that_no_machine_can_have_is_refused() {
    let spec = json!({
        "cpu": {"cores": 1}, "memory": {"quantity": "x"},
        "disks": [{"name": "root", "size": "y"}, {"name": "root", "size": "1Gi"}],
    });
    let verdict = judged(spec);
    let fields: Vec<_> = verdict.errors.iter().map(|error| &*error.field).collect();
    assert_eq!(
        fields,
        [
            "spec.memory.quantity",
            "spec.disks[0].size",
            "spec.disks[1].name"
        ]
    );
    refuses(
        &judged(json!({"cpu": {"cores": 512, "sockets": 64, "threads": 8}})),
        &[(
            "spec.cpu",
            "spec.cpu: asks for 262144 CPUs (cores times sockets times threads): give at most 4096",
        )],
    );
}

#[test]
fn what_was_wrong_before_can_be_mended_in_steps() {
    let old = class(json!({
        "memory": {"quantity": "x"}, "disks": [{"name": "root", "size": "y"}],
    }));
    let new = class(json!({"memory": {"quantity": "x"}}));
    let verdict = machine_class::judge(Some(&old), &new, &facts());
    assert_eq!(verdict.errors, []);
    assert_eq!(verdict.warnings.len(), 1, "{verdict:?}");
    silent(&machine_class::judge(Some(&old), &old, &facts()));
}

#[test]
fn graphics_may_be_for_other_providers() {
    let gpu = json!({"gpu": {"cores": 1}});
    warns(
        &judged(gpu),
        &[
            "spec.gpu.cores: asks for GPU cores, which this operator cannot give: choose another class",
        ],
    );
    let others = json!({"machineProviders": ["talos"], "memory": {"quantity": "x"}});
    silent(&judged(others));
}

#[test]
fn a_class_of_storage_may_still_come() {
    let disks = json!([{"name": "root", "size": "1Gi", "storageClass": "lost"}]);
    warns(
        &judged(json!({"disks": disks})),
        &[
            "spec.disks[0].storageClass: no StorageClass is named \"lost\": create it, or name another",
        ],
    );
}

#[test]
fn a_second_default_is_told() {
    let facts = machine_class::Facts {
        default_class: Some("silver".to_owned()),
        ..facts()
    };
    let verdict = machine_class::judge(None, &class(json!({"default": true})), &facts);
    warns(
        &verdict,
        &[
            "spec.default: MachineClass \"silver\" is marked default too: Machines that name no size take the newest of them",
        ],
    );
}

#[test]
fn what_becomes_of_the_machines_of_a_class_is_told() {
    let facts = |users| machine_class::Facts { users, ..facts() };
    let (on, off) = (class(json!({})), class(json!({"enabled": false})));
    warns(
        &machine_class::judge(Some(&on), &off, &facts(2)),
        &[
            "spec.enabled: there are 2 Machines of this class: each keeps the size it has, and no other can take it",
        ],
    );
    silent(&machine_class::judge(Some(&on), &off, &facts(0)));
    warns(
        &machine_class::delete(&on, 1),
        &[
            "there is 1 Machine of this class: each keeps the size it has, and cannot be made again without the class",
        ],
    );
    silent(&machine_class::delete(&on, 0));
}

#[test]
fn machines_have_the_class_that_they_name_or_the_default_one() {
    let (named, default) = (class(json!({})), class(json!({"default": true})));
    for field in ["template", "instanceType", "machineClass"] {
        assert!(is_user(&machine(json!({field: "gold"})), &named));
        assert!(!is_user(&machine(json!({field: "silver"})), &default));
    }
    assert!(is_user(&machine(json!({})), &default));
    assert!(!is_user(&machine(json!({})), &named));
    let mut small = class(json!({}));
    small.metadata.name = Some("small".to_owned());
    assert!(!is_user(&machine(json!({"template": "small"})), &small));
    assert!(is_user(&machine(json!({"machineClass": "small"})), &small));
}
