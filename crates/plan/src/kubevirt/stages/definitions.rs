//! Stages that write CustomResourceDefinitions and wait until they are served.
//!
//! Components of an old version write the status of an object together with its spec. A definition
//! with a status subresource would ignore that status, so a definition without one gets it only after
//! all components have rolled out.

use serde_json::Value;

use super::{
    Stage, StageContext, StageOutcome, describe_remaining, has_definition_finalizer,
    remove_definition_finalizer,
};
use crate::kubevirt::{
    compare::ComparisonCache,
    object::{Live, Object},
};

pub(super) fn evaluate(
    context: &StageContext<'_>,
    comparisons: &mut ComparisonCache,
    outcome: &mut StageOutcome,
) {
    for definition in context.of(Stage::Definitions) {
        match context.live(&definition.id) {
            Some(live) if !live.deleting && !context.is_applied(live, definition) => {
                if let Some(version) = stored_in(live, definition) {
                    outcome.notes.push(format!(
                        "{} keeps the schema of a later release: objects may be stored in version \
                         {version}, which this release does not have",
                        definition.id
                    ));
                    continue;
                }
                let reduced = without_new_status(live, definition)
                    .filter(|_| !context.is_repairing() && !context.has_rolled_out());
                context.ensure(reduced.as_ref().unwrap_or(definition), comparisons, outcome);
            }
            // The finalizer is left from an interrupted removal.
            Some(live)
                if live.deleting
                    && has_definition_finalizer(live)
                    && describe_remaining(live).is_none() =>
            {
                outcome.step(
                    remove_definition_finalizer(live),
                    "it has no objects, and the operator recreates it",
                );
            }
            _ => context.ensure(definition, comparisons, outcome),
        }
    }
}

/// A version that objects may be stored in and that the wanted definition does not have. The API
/// server does not allow its removal, and the later definition serves the earlier versions too.
fn stored_in(live: &Live, wanted: &Object) -> Option<String> {
    let live = live.value();
    let stored = live.pointer("/status/storedVersions")?.as_array()?;
    let wanted = wanted.value();
    let versions = wanted.pointer("/spec/versions")?.as_array()?;
    let has = |name: &Value| {
        versions
            .iter()
            .any(|version| version.get("name") == Some(name))
    };
    let lacking = stored.iter().find(|stored| !has(stored))?;
    Some(lacking.as_str()?.to_owned())
}

/// The definition without the status subresources that the live one does not have; None if there
/// are none.
fn without_new_status(live: &Live, wanted: &Object) -> Option<Object> {
    let live = live.value();
    let mut value = wanted.value();
    let mut changed = false;
    for version in value.pointer_mut("/spec/versions")?.as_array_mut()? {
        let name = version.get("name").cloned();
        let live = live.pointer("/spec/versions").and_then(Value::as_array);
        let mut live = live.into_iter().flatten();
        let live = live.find(|live| live.get("name") == name.as_ref());
        let has_status = live.is_some_and(|live| live.pointer("/subresources/status").is_some());
        let subresources = version.get_mut("subresources");
        let subresources = subresources.and_then(Value::as_object_mut);
        if !has_status && let Some(subresources) = subresources {
            changed |= subresources.remove("status").is_some();
            if subresources.is_empty()
                && let Some(version) = version.as_object_mut()
            {
                version.remove("subresources");
            }
        }
    }
    changed.then(|| Object::new(&value).ok()).flatten()
}

/// Waits until the API server serves every definition.
pub(super) fn evaluate_established(context: &StageContext<'_>, outcome: &mut StageOutcome) {
    for definition in context.of(Stage::Definitions) {
        let Some(live) = context.live(&definition.id) else {
            continue;
        };
        if let Some(message) = describe_not_established(live) {
            outcome.wait(&definition.id, message);
        }
    }
}

fn describe_not_established(live: &Live) -> Option<String> {
    // Most are established, and their text is long: avoid parsing it.
    let text = live.text();
    let status = text.rfind("\"conditions\":").and_then(|at| text.get(at..));
    if status.is_some_and(|status| {
        status.contains("\"type\":\"Established\"") && !status.contains("\"status\":\"False\"")
    }) {
        return None;
    }
    let value = live.value();
    let conditions = value
        .pointer("/status/conditions")
        .and_then(Value::as_array);
    let conditions = conditions.map(Vec::as_slice).unwrap_or_default();
    let of = |type_: &str| {
        conditions
            .iter()
            .find(|condition| condition["type"] == type_)
    };
    if of("Established").is_some_and(|condition| condition["status"] == "True") {
        return None;
    }
    let refused = of("NamesAccepted").filter(|condition| condition["status"] == "False");
    let message = refused.and_then(|condition| condition["message"].as_str());
    Some(match message {
        Some(message) => format!("is not served: {message}"),
        None => "is not served yet".to_owned(),
    })
}
