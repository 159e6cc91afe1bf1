//! Server-side dry run of a document.
//!
//! The document is applied as the resource was applied before, so that fields that it no longer has
//! are removed: after `kubectl apply` by the difference to the last applied configuration, after a
//! server-side apply by the same field manager.

use kube::{
    Client, Error,
    api::{Patch, PatchParams, ValidationDirective},
    core::Request,
};
use plan::machine::preview::LAST_APPLIED;
use serde_json::{Map, Value};

use super::GivenDocument;
use crate::requests::status_message;

const MANAGER: &str = "kubevirt-operator-plan";

/// Resource that applying the document would result in, or an error message.
pub(super) async fn dry_run(
    client: &Client,
    given: &GivenDocument,
    live: Option<&Value>,
) -> Result<Value, String> {
    let document = without_server_fields(&given.value);
    let last_applied = live.and_then(last_applied);
    let (patch, manager) = match &last_applied {
        Some(last) => (Patch::Merge(three_way(last, &document)), MANAGER),
        None => (Patch::Apply(document), live.map_or(MANAGER, applied_by)),
    };
    let params = PatchParams {
        dry_run: true,
        force: matches!(patch, Patch::Apply(_)),
        field_manager: Some(manager.to_owned()),
        field_validation: Some(ValidationDirective::Strict),
    };
    let resource = given.kind.collection(&given.key.namespace);
    let request = Request::new(resource)
        .patch(&given.key.name, &params, &patch)
        .map_err(|error| error.to_string())?;
    match client.request::<Value>(request).await {
        Ok(value) => Ok(value),
        Err(Error::Api(status)) => {
            let namespace = &given.key.namespace;
            let missing = status.details.as_ref().map(|details| details.kind.as_str());
            let is_gone = status.code == 404 && missing == Some("namespaces");
            Err(match status.code {
                _ if is_gone => format!("namespace {namespace:?} does not exist: create it first"),
                403 => format!(
                    "{}: a dry run needs permission to create and patch",
                    status_message(&status)
                ),
                _ => format!(
                    "the API server refuses the document: {}",
                    status_message(&status)
                ),
            })
        }
        Err(error) => Err(format!("the API server did not answer: {error}")),
    }
}

/// Removes the fields that the API server sets, which the output of `kubectl get -o yaml` contains.
fn without_server_fields(document: &Value) -> Value {
    let mut document = document.clone();
    if let Some(fields) = document.as_object_mut() {
        fields.remove("status");
    }
    if let Some(metadata) = document["metadata"].as_object_mut() {
        for name in [
            "uid",
            "resourceVersion",
            "generation",
            "creationTimestamp",
            "managedFields",
            "selfLink",
        ] {
            metadata.remove(name);
        }
        let annotations = metadata.get_mut("annotations");
        if let Some(annotations) = annotations.and_then(Value::as_object_mut) {
            annotations.remove(LAST_APPLIED);
        }
    }
    document
}

fn last_applied(live: &Value) -> Option<Value> {
    let text = live["metadata"]["annotations"][LAST_APPLIED].as_str()?;
    serde_json::from_str(text).ok()
}

/// The document, with null for fields that were applied before and are not in it.
fn three_way(last: &Value, document: &Value) -> Value {
    let (Value::Object(last), Value::Object(document)) = (last, document) else {
        return document.clone();
    };
    let removed = last
        .keys()
        .filter(|name| !document.contains_key(*name))
        .map(|name| (name.clone(), Value::Null));
    let kept = document.iter().map(|(name, value)| {
        let value = match last.get(name) {
            Some(last) => three_way(last, value),
            None => value.clone(),
        };
        (name.clone(), value)
    });
    Value::Object(removed.chain(kept).collect::<Map<_, _>>())
}

/// Field manager of the latest apply by another client.
fn applied_by(live: &Value) -> &str {
    let entries = live["metadata"]["managedFields"].as_array();
    let mut applied = entries.into_iter().flatten().filter(|entry| {
        entry["operation"] == "Apply"
            && entry["subresource"].as_str().unwrap_or_default().is_empty()
            && entry["manager"] != api::labels::MANAGER
    });
    applied
        .find_map(|entry| entry["manager"].as_str())
        .unwrap_or(MANAGER)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::kept(json!({"a": 1}), json!({"a": 1}), json!({"a": 1}))]
    #[case::removed(json!({"a": {"b": 1, "c": 1}}), json!({"a": {"b": 2}}), json!({"a": {"b": 2, "c": null}}))]
    #[case::never_applied(json!({}), json!({"a": 1}), json!({"a": 1}))]
    #[case::lists_are_atomic(json!({"a": [1, 2]}), json!({"a": [1]}), json!({"a": [1]}))]
    fn fields_that_a_document_no_longer_has_are_removed(
        #[case] last: Value,
        #[case] document: Value,
        #[case] expected: Value,
    ) {
        assert_eq!(three_way(&last, &document), expected);
    }

    #[test]
    fn a_resource_is_applied_with_its_previous_field_manager() {
        let entry =
            |manager: &str, operation: &str| json!({"manager": manager, "operation": operation});
        let live = json!({"metadata": {"managedFields": [
            entry("kubectl-edit", "Update"), entry("kubevirt-operator", "Apply"),
            entry("argocd", "Apply"),
        ]}});
        assert_eq!(applied_by(&live), "argocd");
        assert_eq!(applied_by(&json!({"metadata": {}})), MANAGER);
    }
}
