//! Offline resolution.

use super::*;

fn notes(spec: Value) -> Vec<String> {
    let resolution = resolve(&machine(spec), &Surroundings::default()).unwrap();
    resolution.notes.into_iter().map(|note| note.path).collect()
}

#[test]
fn what_cannot_be_known_is_left_to_the_cluster_with_a_note() {
    let spec = json!({
        "disks": [{"name": "data", "size": "1Gi", "storageClass": "fast-ssd"}],
        "networks": [{"name": "a", "networkName": "somewhere"}],
        "cloudInit": {"secretRef": {"name": "s"}},
    });
    assert_eq!(
        notes(spec),
        [
            "spec",
            "spec.networks[0].networkName",
            "spec.disks",
            "spec.disks[0].storageClass",
            "spec.cloudInit.secretRef"
        ],
    );
}

#[test]
fn the_namespace_of_a_copy_is_noted_when_it_is_not_known() {
    let mut machine =
        machine(json!({"disks": [{"name": "root", "source": {"pvc": {"name": "p"}}}]}));
    machine.metadata.namespace = None;
    let notes = resolve(&machine, &Surroundings::default()).unwrap().notes;
    assert!(
        notes
            .iter()
            .any(|note| note.path == "spec.disks[0].source.pvc.namespace"),
        "{notes:?}"
    );
}

#[test]
fn a_class_that_is_not_at_hand_is_an_uncertain_error() {
    let errors = errors_in(
        &Surroundings::default(),
        json!({"template": "huge", "disks": [{"name": "a"}]}),
    );
    let found: Vec<_> = errors
        .iter()
        .map(|error| (error.error_type, error.certain))
        .collect();
    assert_eq!(found, [(ErrorType::TemplateNotFound, false)]);
}

#[rstest::rstest]
#[case::size(json!({"disks": [{"name": "data"}]}))]
#[case::boot(json!({"disks": [{"name": "root", "type": "cdrom"}]}))]
fn what_a_default_class_may_bring_is_not_missed_for_certain(#[case] spec: Value) {
    let errors = errors_in(&Surroundings::default(), spec.clone());
    let certain: Vec<_> = errors.iter().map(|error| error.certain).collect();
    assert_eq!(certain, [false], "{errors:?}");
    let surroundings = Surroundings {
        machine_classes: Known::all([]),
        ..Surroundings::default()
    };
    assert!(errors_in(&surroundings, spec)[0].certain);
}
