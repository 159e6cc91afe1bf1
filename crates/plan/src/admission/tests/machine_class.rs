//! MachineClasses.

use api::MachineClass;

use super::{super::machine_class, *};

fn class(spec: Value) -> MachineClass {
    let mut whole = json!({"cpu": {"cores": 1}, "memory": {"quantity": "1Gi"}});
    whole
        .as_object_mut()
        .unwrap()
        .extend(spec.as_object().unwrap().clone());
    object(json!({"apiVersion": "", "kind": "", "metadata": {"name": "gold"}, "spec": whole}))
}

fn context() -> machine_class::ReviewContext {
    machine_class::ReviewContext {
        storage_classes: cluster().surroundings.storage_classes,
        ..machine_class::ReviewContext::default()
    }
}

fn judged(spec: Value) -> Verdict {
    machine_class::review(None, &class(spec), &context())
}

#[test]
fn a_valid_class_is_allowed() {
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
fn existing_errors_can_be_fixed_one_at_a_time() {
    let old = class(json!({
        "memory": {"quantity": "x"}, "disks": [{"name": "root", "size": "y"}],
    }));
    let new = class(json!({"memory": {"quantity": "x"}}));
    let verdict = machine_class::review(Some(&old), &new, &context());
    assert_eq!(verdict.errors, []);
    assert_eq!(verdict.warnings.len(), 1, "{verdict:?}");
    silent(&machine_class::review(Some(&old), &old, &context()));
}

#[test]
fn graphics_may_be_for_other_providers() {
    let gpu = json!({"gpu": {"cores": 1}});
    warns(
        &judged(gpu),
        &[
            "spec.gpu.cores: asks for GPU cores, which this operator does not support: leave them out, or name the providers that can in spec.machineProviders",
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
fn a_second_default_class_is_a_warning() {
    let context = machine_class::ReviewContext {
        default_class: Some("silver".to_owned()),
        ..context()
    };
    let verdict = machine_class::review(None, &class(json!({"default": true})), &context);
    warns(
        &verdict,
        &[
            "spec.default: MachineClass \"silver\" is marked default too: Machines that name no size use the newest of them",
        ],
    );
}

#[test]
fn warns_of_the_machines_of_a_disabled_class() {
    let users = |count: usize| -> Vec<Arc<Machine>> {
        let names = (1..=count).map(|number| format!("web-{number}"));
        let users = names.map(|name| machine_named("shop", &name, json!({})));
        users.map(Arc::new).collect()
    };
    let context = |count| machine_class::ReviewContext {
        users: users(count),
        ..context()
    };
    let (on, off) = (class(json!({})), class(json!({"enabled": false})));
    warns(
        &machine_class::review(Some(&on), &off, &context(2)),
        &[
            "spec.enabled: 2 Machines use this class (shop/web-1, shop/web-2): each keeps its size as long as its VirtualMachine exists, and no other Machine can use it",
        ],
    );
    silent(&machine_class::review(Some(&on), &off, &context(0)));
    warns(
        &machine_class::delete(&on, &users(1)),
        &[
            "1 Machine uses this class (shop/web-1): each keeps its size as long as its VirtualMachine exists",
        ],
    );
    let many = machine_class::delete(&on, &users(7));
    assert!(
        many.warnings[0].contains("shop/web-5 and 2 more)"),
        "{many:?}"
    );
    silent(&machine_class::delete(&on, &[]));
}
