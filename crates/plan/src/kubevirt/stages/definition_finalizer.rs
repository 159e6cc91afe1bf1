//! Finalizer that keeps all definitions until none of them has objects.

use api::kubevirt::install;
use serde_json::{Value, json};

use crate::kubevirt::{action::Action, object::Live};

pub(in crate::kubevirt) fn has_definition_finalizer(live: &Live) -> bool {
    let mut finalizers = live.finalizers.iter();
    finalizers.any(|finalizer| finalizer == install::DEFINITION_FINALIZER)
}

pub(in crate::kubevirt) fn add_definition_finalizer(live: &Live) -> Action {
    let mut finalizers = live.finalizers.clone();
    finalizers.push(install::DEFINITION_FINALIZER.to_owned());
    finalizers_of(live, &finalizers)
}

pub(in crate::kubevirt) fn remove_definition_finalizer(live: &Live) -> Action {
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

/// Why a definition that is being deleted does not count as empty; None if it does.
pub(in crate::kubevirt) fn describe_remaining(live: &Live) -> Option<String> {
    let value = live.value();
    let conditions = value
        .pointer("/status/conditions")
        .and_then(Value::as_array);
    let mut conditions = conditions.into_iter().flatten();
    let terminating = conditions.find(|condition| condition["type"] == "Terminating");
    let Some(terminating) = terminating else {
        return Some("is being deleted; the API server has not deleted its objects yet".to_owned());
    };
    if terminating["reason"] == "InstanceDeletionCompleted" {
        return None;
    }
    let message = terminating["message"].as_str().unwrap_or_default();
    Some(format!("is being deleted: {message}"))
}
