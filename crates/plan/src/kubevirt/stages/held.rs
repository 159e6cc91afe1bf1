//! Definitions that are held by a finalizer of ours until none of them has objects.

use api::kubevirt::install;
use serde_json::{Value, json};

use crate::kubevirt::{action::Action, object::Live};

/// Whether a definition is held.
pub(in crate::kubevirt) fn is_held(live: &Live) -> bool {
    let mut finalizers = live.finalizers.iter();
    finalizers.any(|finalizer| finalizer == install::DEFINITION_FINALIZER)
}

/// Holds a definition.
pub(in crate::kubevirt) fn hold(live: &Live) -> Action {
    let mut finalizers = live.finalizers.clone();
    finalizers.push(install::DEFINITION_FINALIZER.to_owned());
    finalizers_of(live, &finalizers)
}

/// Lets a definition go.
pub(in crate::kubevirt) fn let_go(live: &Live) -> Action {
    let others = live.finalizers.iter();
    let others = others.filter(|name| *name != install::DEFINITION_FINALIZER);
    let others: Vec<String> = others.cloned().collect();
    finalizers_of(live, &others)
}

fn finalizers_of(live: &Live, finalizers: &[String]) -> Action {
    Action::Patch {
        id: live.id.clone(),
        version: live.version.to_string(),
        patch: json!({"metadata": {
            "resourceVersion": &*live.resource_version, "finalizers": finalizers,
        }}),
    }
}

/// Why a definition that is being deleted is not said to be empty.
pub(in crate::kubevirt) fn not_empty(live: &Live) -> Option<String> {
    let value = live.value();
    let conditions = value
        .pointer("/status/conditions")
        .and_then(Value::as_array);
    let mut conditions = conditions.into_iter().flatten();
    let terminating = conditions.find(|condition| condition["type"] == "Terminating");
    let Some(terminating) = terminating else {
        return Some("is being deleted, and nobody has looked at its objects yet".to_owned());
    };
    if terminating["reason"] == "InstanceDeletionCompleted" {
        return None;
    }
    let words = terminating["message"].as_str().unwrap_or_default();
    Some(format!("is being deleted: {words}"))
}
