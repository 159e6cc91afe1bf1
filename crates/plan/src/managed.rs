//! Whose an object is.

use api::{ObjectMeta, labels};

/// Whether an object belongs to the resource with that uid.
pub(crate) fn is_owned_by(metadata: &ObjectMeta, uid: Option<&str>) -> bool {
    let owners = metadata.owner_references.as_deref().unwrap_or_default();
    uid.is_some_and(|uid| owners.iter().any(|owner| owner.uid == uid))
}

/// Whether an object was made for the resource with that uid: it is controlled by it, or by nobody and
/// records it. Somebody may have removed the owner reference.
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

/// Where in an object's managed fields our creation of it stands, if it was not turned into an apply
/// yet.
pub fn created_at(metadata: &ObjectMeta) -> Option<usize> {
    let entries = metadata.managed_fields.as_deref().unwrap_or_default();
    entries.iter().position(|entry| {
        entry.manager.as_deref() == Some(labels::MANAGER)
            && entry.operation.as_deref() == Some("Update")
            && entry.subresource.as_deref().unwrap_or_default().is_empty()
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
}
