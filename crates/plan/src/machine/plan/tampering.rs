//! Events about tampering with the Machine's children.
//!
//! A change counts as tampering if another field manager owns the field, or if a field is missing that
//! the operator never removes: the API server does not record who removed a field.

use std::collections::BTreeMap;

use api::{Machine, ObjectMeta, labels};

use super::ownership::{annotation, name};
use crate::{Event, machine::Kind, managed};

/// The Event for labels and annotations of a disk that someone else changed and the operator restores.
pub(super) fn repair_event(
    kind: Kind,
    desired: &ObjectMeta,
    found: &ObjectMeta,
    machine: &Machine,
) -> Option<Event> {
    let labels = differing("labels", desired.labels.as_ref(), found.labels.as_ref());
    let (desired, present) = (desired.annotations.as_ref(), found.annotations.as_ref());
    let annotations = differing("annotations", desired, present);
    // Disks of earlier versions have an owner reference instead.
    let is_erased = annotation(found, labels::MACHINE_UID).is_none()
        && !managed::is_owned_by(found, machine.metadata.uid.as_deref());
    let erased = field("annotations", labels::MACHINE_UID);
    let fields: Vec<String> = labels
        .into_iter()
        .chain(annotations)
        .filter(|field| {
            is_erased && *field == erased || !managed::managers_of(found, &[field]).is_empty()
        })
        .collect();
    repaired(kind, found, &fields)
}

/// The Event for labels that someone else removed or changed on an object of this Machine, so that
/// caches did not show it.
pub fn label_repair_event(
    kind: Kind,
    found: &ObjectMeta,
    desired: &BTreeMap<String, String>,
) -> Option<Event> {
    let fields = differing("labels", Some(desired), found.labels.as_ref());
    repaired(kind, found, &fields)
}

/// The Event for fields that someone else set on a disk and the operator removes, with the reason.
pub(super) fn removed(
    kind: Kind,
    found: &ObjectMeta,
    fields: impl IntoIterator<Item = String>,
    why: &str,
) -> Option<Event> {
    let fields = fields.into_iter();
    let fields: Vec<String> = fields
        .filter(|field| !managed::managers_of(found, &[field]).is_empty())
        .collect();
    let event = changed(kind, found, &fields, "removed")?;
    Some(Event {
        message: format!("{}{why}", event.message),
        ..event
    })
}

/// The Event for fields that someone else changed and the operator restores.
pub(super) fn repaired(kind: Kind, found: &ObjectMeta, fields: &[String]) -> Option<Event> {
    changed(kind, found, fields, "restored")
}

fn changed(kind: Kind, found: &ObjectMeta, fields: &[String], what: &str) -> Option<Event> {
    if fields.is_empty() {
        return None;
    }
    let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
    let message = format!(
        "{} changed {} {}: the operator {what} {}",
        managed::changed_by(found, &fields),
        kind.as_str(),
        name(found),
        fields.join(", ")
    );
    Some(Event::normal("DriftCorrected", message))
}

fn differing(
    of: &str,
    desired: Option<&BTreeMap<String, String>>,
    found: Option<&BTreeMap<String, String>>,
) -> Vec<String> {
    let desired = desired.into_iter().flatten();
    desired
        .filter(|(name, value)| found.and_then(|all| all.get(*name)) != Some(value))
        .map(|(name, _)| field(of, name))
        .collect()
}

/// Path of a label or annotation.
pub(super) fn field(of: &str, name: &str) -> String {
    format!("metadata.{of}.{name}")
}

#[cfg(test)]
mod tests {
    #![allow(
        clippy::needless_pass_by_value,
        reason = "cases read best as plain json! values"
    )]

    use serde_json::{Value, json};

    use super::*;

    fn metadata(value: Value) -> ObjectMeta {
        serde_json::from_value(value).unwrap()
    }

    fn machine() -> Machine {
        serde_json::from_value(json!({
            "apiVersion": "", "kind": "", "metadata": {"name": "web", "uid": "m1"}, "spec": {},
        }))
        .unwrap()
    }

    fn desired() -> ObjectMeta {
        metadata(json!({
            "labels": {labels::MANAGED_BY: labels::MANAGER, labels::MACHINE: "web"},
            "annotations": {labels::MACHINE_UID: "m1", labels::LISTED_DISK: "true"},
        }))
    }

    fn found(labels: Value, annotations: Value, managed: Value) -> ObjectMeta {
        metadata(json!({
            "name": "web-root", "labels": labels, "annotations": annotations,
            "managedFields": [{"manager": "kubectl-edit", "operation": "Update", "fieldsV1": managed}],
        }))
    }

    fn message(found: &ObjectMeta) -> Option<String> {
        let event = repair_event(Kind::PersistentVolumeClaim, &desired(), found, &machine());
        event.map(|event| event.message)
    }

    #[test]
    fn a_field_of_another_manager_is_named_with_it() {
        let labels = json!({labels::MANAGED_BY: labels::MANAGER, labels::MACHINE: "shop"});
        let annotations = json!({labels::MACHINE_UID: "m1", labels::LISTED_DISK: "no"});
        let foreign = json!({"f:metadata": {
            "f:labels": {"f:vitistack.io/machine": {}},
            "f:annotations": {"f:vitistack.io/listed-disk": {}},
        }});
        assert_eq!(
            message(&found(labels, annotations, foreign)).unwrap(),
            "kubectl-edit changed PersistentVolumeClaim web-root: the operator restored \
             metadata.labels.vitistack.io/machine, metadata.annotations.vitistack.io/listed-disk"
        );
    }

    #[test]
    fn fields_of_no_other_manager_are_not_tampering() {
        let labels = json!({labels::MANAGED_BY: labels::MANAGER, labels::MACHINE: "web"});
        let annotations = json!({labels::MACHINE_UID: "m1"});
        assert_eq!(message(&found(labels, annotations, json!({}))), None);
    }

    #[test]
    fn a_missing_machine_uid_is_tampering_unless_there_is_an_owner_reference() {
        let labels = json!({labels::MANAGED_BY: labels::MANAGER, labels::MACHINE: "web"});
        let mut disk = found(labels, json!({}), json!({}));
        assert_eq!(
            message(&disk).unwrap(),
            "Another client changed PersistentVolumeClaim web-root: the operator restored \
             metadata.annotations.vitistack.io/machine-uid"
        );
        let owner = json!([{"apiVersion": "x", "kind": "Machine", "name": "web", "uid": "m1"}]);
        disk.owner_references = serde_json::from_value(owner).unwrap();
        assert_eq!(message(&disk), None);
    }

    #[test]
    fn names_removed_labels() {
        let disk = found(json!({labels::MACHINE: "web"}), json!({}), json!({}));
        let desired = desired().labels.unwrap();
        let event = label_repair_event(Kind::DataVolume, &disk, &desired).unwrap();
        assert_eq!(
            event.message,
            "Another client changed DataVolume web-root: the operator restored \
             metadata.labels.vitistack.io/managed-by"
        );
    }

    #[test]
    fn names_fields_of_others_that_are_removed_with_the_reason() {
        let foreign = json!({"f:metadata": {"f:labels": {"f:vitistack.io/retained": {}}}});
        let found = found(json!({labels::RETAINED: "true"}), json!({}), foreign);
        let label = |name: &str| [field("labels", name)];
        let event = removed(Kind::DataVolume, &found, label(labels::RETAINED), ", since");
        assert_eq!(
            event.unwrap().message,
            "kubectl-edit changed DataVolume web-root: the operator removed \
             metadata.labels.vitistack.io/retained, since"
        );
        let own = removed(Kind::DataVolume, &found, label(labels::MACHINE), "");
        assert_eq!(own, None);
    }
}
