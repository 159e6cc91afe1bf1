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
fn absent_or_default_is_a_class_of_that_name_if_there_is_one(#[case] disk: Value) {
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
