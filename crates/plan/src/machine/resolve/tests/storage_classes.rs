//! StorageClasses.

use super::*;

fn of(surroundings: &Surroundings, disk: Value) -> Option<String> {
    resolved_in(surroundings, json!({"disks": [disk]}))
        .disks
        .remove(0)
        .storage_class
}

#[rstest]
#[case(json!({"name": "root"}))]
#[case(json!({"name": "root", "storageClass": "default"}))]
fn absent_or_default_is_the_clusters_default(#[case] disk: Value) {
    assert_eq!(of(&cluster(), disk).as_deref(), Some("standard"));
}

#[rstest]
#[case(json!({"name": "root"}))]
#[case(json!({"name": "root", "storageClass": "default"}))]
fn absent_or_default_is_the_class_named_default_if_it_exists(#[case] disk: Value) {
    let classes = [
        default_storage_class("standard"),
        storage_class("default", json!({})),
    ];
    let cluster = Surroundings {
        storage_classes: Known::all(classes),
        ..cluster()
    };
    assert_eq!(of(&cluster, disk).as_deref(), Some("default"));
}

#[test]
fn named_is_that_one() {
    assert_eq!(
        of(
            &cluster(),
            json!({"name": "root", "storageClass": "fast-ssd"})
        )
        .as_deref(),
        Some("fast-ssd")
    );
}

#[test]
fn named_and_missing_is_not_found() {
    let spec = json!({"disks": [{"name": "root", "storageClass": "tape"}]});
    assert_eq!(
        error(spec),
        (
            ErrorType::StorageClassNotFound,
            "spec.disks[0].storageClass".to_owned()
        )
    );
}

#[test]
fn none_named_and_no_default_is_not_found() {
    let cluster = Surroundings {
        storage_classes: Known::all([]),
        ..cluster()
    };
    assert_eq!(
        errors_in(&cluster, json!({}))[0].error_type,
        ErrorType::StorageClassNotFound
    );
}

#[rstest]
#[case(json!({"machineClass": "c4"}), "spec.machineClass")]
#[case(json!({"template": "c4"}), "spec.template")]
#[case(json!({}), "spec")]
fn errors_of_a_class_disk_name_that_disk(#[case] spec: Value, #[case] path: &str) {
    let with = |disk: Value, storage_classes| {
        let spec = json!({
            "default": true, "cpu": {"cores": 1}, "memory": {"quantity": "1Gi"}, "disks": [disk],
        });
        Surroundings {
            machine_classes: Known::all([class("c4", spec)]),
            storage_classes,
            ..cluster()
        }
    };
    let named = json!({"name": "root", "size": "1Gi", "storageClass": "nope"});
    let read_only = json!({"name": "root", "size": "1Gi", "accessMode": "ReadOnlyMany"});
    let plain = json!({"name": "root", "size": "1Gi"});
    let known = cluster().storage_classes;
    for (cluster, message) in [
        (
            with(named, known.clone()),
            "disk \"root\" of MachineClass \"c4\": no StorageClass is named \"nope\": create it, or name another for it in spec.disks",
        ),
        (
            with(plain, Known::all([])),
            "disk \"root\" of MachineClass \"c4\" names no StorageClass and the cluster has no default one: mark one as default, or name one for it in spec.disks",
        ),
        (
            with(read_only, known),
            "disk \"root\" of MachineClass \"c4\" is read-only and empty: give it a source, or use ReadWriteMany for it in spec.disks",
        ),
    ] {
        let errors = errors_in(&cluster, spec.clone());
        let reported: Vec<_> = errors
            .iter()
            .map(|error| (&*error.path, &*error.message))
            .collect();
        assert_eq!(reported, [(path, message)]);
    }
}

#[test]
fn what_is_wrong_with_the_disk_of_a_template_names_the_template() {
    let cluster = Surroundings {
        storage_classes: Known::all([]),
        ..cluster()
    };
    let errors = errors_in(&cluster, json!({"template": "medium"}));
    assert_eq!(errors[0].path, "spec.template");
    let message = "disk \"root\" of template medium names no StorageClass";
    assert!(errors[0].message.starts_with(message), "{errors:?}");
}
