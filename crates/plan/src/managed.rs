//! Owner references and managed fields: who controls an object, and who changed its fields.

use api::{ObjectMeta, labels};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use serde_json::Value;

/// Whether an object is controlled by an earlier resource of the same name. The garbage collector is
/// about to delete it, and caches may show it for longer than it exists.
pub fn is_of_predecessor(metadata: &ObjectMeta, kind: &str, name: &str, uid: &str) -> bool {
    let owners = metadata.owner_references.as_deref().unwrap_or_default();
    let controller = owners.iter().find(|owner| owner.controller == Some(true));
    controller.is_some_and(|owner| owner.kind == kind && owner.name == name && owner.uid != uid)
}

/// Whether an object has an owner reference with this UID.
pub(crate) fn is_owned_by(metadata: &ObjectMeta, uid: Option<&str>) -> bool {
    let owners = metadata.owner_references.as_deref().unwrap_or_default();
    uid.is_some_and(|uid| owners.iter().any(|owner| owner.uid == uid))
}

/// Whether an object belongs to the resource with this UID: it is controlled by it, or has no controller
/// and records the UID. Someone may have removed the owner reference.
pub(crate) fn is_made_for(metadata: &ObjectMeta, uid: Option<&str>) -> bool {
    let mut owners = metadata.owner_references.iter().flatten();
    let controller = owners.find(|owner| owner.controller == Some(true));
    let annotations = metadata.annotations.as_ref();
    let recorded = annotations.and_then(|all| all.get(labels::MACHINE_UID));
    uid.is_some_and(|uid| match controller {
        Some(controller) => controller.uid == uid,
        None => recorded.is_some_and(|recorded| recorded == uid),
    })
}

/// Index of the managed-fields entry of our create, unless an apply has replaced it.
pub fn created_at(metadata: &ObjectMeta) -> Option<usize> {
    let entries = metadata.managed_fields.as_deref().unwrap_or_default();
    entries.iter().position(|entry| {
        entry.manager.as_deref() == Some(labels::MANAGER)
            && entry.operation.as_deref() == Some("Update")
            && entry.subresource.as_deref().unwrap_or_default().is_empty()
    })
}

/// Larger entries are not kept. Field managers that tamper own few fields.
const LARGEST_ENTRY: usize = 2048;
/// Number of field managers that are kept.
const MOST_MANAGERS: usize = 8;

/// The managed fields to keep in a cache: the entry of our create, and the fields that other managers own
/// outside of the status.
pub fn trimmed(metadata: &ObjectMeta) -> Option<Vec<ManagedFieldsEntry>> {
    let created_at = created_at(metadata);
    let entries = metadata.managed_fields.as_deref().unwrap_or_default();
    let mut others = 0;
    let mut kept: Vec<ManagedFieldsEntry> = entries
        .iter()
        .enumerate()
        .map(|(place, entry)| {
            if created_at == Some(place) {
                return ManagedFieldsEntry {
                    manager: Some(labels::MANAGER.to_owned()),
                    operation: Some("Update".to_owned()),
                    ..ManagedFieldsEntry::default()
                };
            }
            let fields = entry.fields_v1.as_ref();
            let is_small = fields.is_some_and(|it| it.0.to_string().len() <= LARGEST_ENTRY);
            if !is_others(entry) || !is_small || others == MOST_MANAGERS {
                return ManagedFieldsEntry::default();
            }
            others += 1;
            ManagedFieldsEntry {
                manager: entry.manager.clone(),
                operation: entry.operation.clone(),
                fields_v1: entry.fields_v1.clone(),
                ..ManagedFieldsEntry::default()
            }
        })
        .collect();
    let is_kept = |entry: &ManagedFieldsEntry| entry.manager.is_some();
    let length = kept.iter().rposition(is_kept).map(|last| last + 1)?;
    kept.truncate(length);
    Some(kept)
}

/// The field managers other than this operator that own one of `fields`, such as `spec.runStrategy`. The
/// API server does not record who removed a field.
pub(crate) fn managers_of(metadata: &ObjectMeta, fields: &[&str]) -> Vec<String> {
    let entries = metadata.managed_fields.as_deref().unwrap_or_default();
    let mut managers: Vec<String> = entries
        .iter()
        .filter(|entry| is_others(entry))
        .filter(|entry| {
            let owned = entry.fields_v1.as_ref();
            owned.is_some_and(|owned| fields.iter().any(|field| owns(&owned.0, field)))
        })
        .filter_map(|entry| entry.manager.clone())
        .collect();
    managers.sort_unstable();
    managers.dedup();
    managers
}

/// How Events name a client that left no field manager.
pub(crate) const ANOTHER_CLIENT: &str = "Another client";

/// Message about what another client changed and the operator restores.
pub(crate) fn repaired(by: &str, object: &str, what: &str) -> String {
    format!("{by} changed {object}: the operator restored {what}")
}

/// Who changed these fields, for messages.
pub(crate) fn changed_by(metadata: &ObjectMeta, fields: &[&str]) -> String {
    let managers = managers_of(metadata, fields);
    if managers.is_empty() {
        return ANOTHER_CLIENT.to_owned();
    }
    managers.join(", ")
}

fn is_others(entry: &ManagedFieldsEntry) -> bool {
    entry
        .manager
        .as_deref()
        .is_some_and(|manager| manager != labels::MANAGER)
        && entry.subresource.as_deref().unwrap_or_default().is_empty()
}

/// Whether an entry owns a field. Field names may contain dots, so each name of the entry is tried. Below
/// a list nothing is compared.
fn owns(owned: &Value, field: &str) -> bool {
    let Some(owned) = owned.as_object() else {
        return false;
    };
    owned.iter().any(|(name, inner)| {
        let rest = name
            .strip_prefix("f:")
            .and_then(|name| field.strip_prefix(name));
        match rest {
            None => false,
            Some("") => true,
            Some(rest) if rest.starts_with('[') => true,
            Some(rest) => rest.strip_prefix('.').is_some_and(|rest| owns(inner, rest)),
        }
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    #[rstest]
    #[case(json!([]), None)]
    #[case(json!([{"manager": "kubevirt-operator", "operation": "Update"}]), Some(0))]
    #[case(json!([{"manager": "kubevirt-operator", "operation": "Apply"}]), None)]
    #[case(
        json!([
            {"manager": "kubectl-edit", "operation": "Update"},
            {"manager": "kubevirt-operator", "operation": "Update", "subresource": "status"},
            {"manager": "kubevirt-operator", "operation": "Update"},
        ]),
        Some(2)
    )]
    fn our_creation_is_found_among_the_managed_fields(
        #[case] entries: Value,
        #[case] expected: Option<usize>,
    ) {
        let metadata = serde_json::from_value(json!({"managedFields": entries})).unwrap();
        assert_eq!(created_at(&metadata), expected);
    }

    #[test]
    fn a_later_resource_of_the_same_name_is_not_the_owner() {
        let owner = json!({"apiVersion": "v1", "kind": "Machine", "name": "web", "uid": "1"});
        let metadata = serde_json::from_value(json!({"ownerReferences": [owner]})).unwrap();
        assert!(is_owned_by(&metadata, Some("1")));
        assert!(!is_owned_by(&metadata, Some("2")));
        assert!(!is_owned_by(&metadata, None));
    }

    #[test]
    fn an_object_of_a_predecessor_is_not_foreign() {
        let owned = |kind: &str, name: &str, uid: &str| -> ObjectMeta {
            serde_json::from_value(serde_json::json!({ "ownerReferences": [{
                "apiVersion": "x", "kind": kind, "name": name, "uid": uid, "controller": true,
            }] }))
            .unwrap()
        };
        let is = |metadata: &ObjectMeta| is_of_predecessor(metadata, "Machine", "web", "new");
        assert!(is(&owned("Machine", "web", "old")));
        assert!(!is(&owned("Machine", "web", "new")), "its own");
        assert!(!is(&owned("Machine", "other", "old")));
        assert!(!is(&owned("VirtualMachinePool", "web", "old")));
        assert!(!is(&ObjectMeta::default()));
    }

    #[rstest]
    #[case::value("spec.runStrategy", "kubectl-edit")]
    #[case::name_with_dots("metadata.labels.vitistack.io/machine", "kubectl-label")]
    #[case::item_of_a_list("spec.template.spec.volumes[3].name", "terraform")]
    #[case::below("spec.template.spec.domain.cpu.cores", "Another client")]
    #[case::status("status.ready", "Another client")]
    fn managed_fields_show_who_changed_a_field(#[case] field: &str, #[case] expected: &str) {
        let metadata: ObjectMeta = serde_json::from_value(json!({ "managedFields": [
            { "manager": "kubevirt-operator", "operation": "Apply",
              "fieldsV1": { "f:spec": { "f:runStrategy": {} } } },
            { "manager": "kubectl-edit", "operation": "Update",
              "fieldsV1": { "f:spec": { "f:runStrategy": {} } } },
            { "manager": "kubectl-label", "operation": "Update",
              "fieldsV1": { "f:metadata": { "f:labels": { "f:vitistack.io/machine": {} } } } },
            { "manager": "terraform", "operation": "Apply",
              "fieldsV1": { "f:spec": { "f:template": { "f:spec": { "f:volumes": {} } } } } },
            { "manager": "virt-controller", "operation": "Update", "subresource": "status",
              "fieldsV1": { "f:status": { "f:ready": {} } } },
        ] }))
        .unwrap();
        assert_eq!(changed_by(&metadata, &[field]), expected);
        let trimmed = ObjectMeta {
            managed_fields: trimmed(&metadata),
            ..ObjectMeta::default()
        };
        assert_eq!(
            changed_by(&trimmed, &[field]),
            expected,
            "when it is cached"
        );
    }

    #[test]
    fn what_a_manager_owns_takes_little_memory() {
        let many: serde_json::Map<_, _> = (0..10_000)
            .map(|at| (format!("f:example.com/{at}"), json!({})))
            .collect();
        let entry = json!({ "manager": "x", "operation": "Update",
                            "fieldsV1": { "f:metadata": { "f:annotations": many } } });
        let metadata = serde_json::from_value(json!({ "managedFields": [entry] })).unwrap();
        assert_eq!(trimmed(&metadata), None);
    }
}
