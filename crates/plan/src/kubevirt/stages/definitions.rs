//! Definitions, and when they may tell status and spec apart.
//!
//! Components of an old version write the status of an object together with the rest of it. A
//! definition with a status subresource would ignore that, so one that lacks it gets it only after
//! every component has rolled over.

use serde_json::Value;

use super::{Outcome, Scene, Stage, is_held, let_go, not_empty};
use crate::kubevirt::object::{Live, Object};

pub(super) fn look(scene: &Scene<'_>, outcome: &mut Outcome) {
    for definition in scene.of(Stage::Definitions) {
        match scene.live(&definition.id) {
            Some(live) if !live.deleting && !scene.is_settled(live, definition) => {
                if let Some(version) = stored_in(live, definition) {
                    outcome.notes.push(format!(
                        "{} stays as a later release made it: objects may be stored in version \
                         {version}, which this release does not know",
                        definition.id
                    ));
                    continue;
                }
                let withheld = withheld(live, definition)
                    .filter(|_| !scene.is_repairing() && !scene.is_rolled_over());
                scene.put(withheld.as_ref().unwrap_or(definition), outcome);
            }
            // A removal that was cut short holds it, and nobody else would let it go.
            Some(live) if live.deleting && is_held(live) && not_empty(live).is_none() => {
                outcome.step(let_go(live), "it has no objects, and is made anew");
            }
            _ => scene.put(definition, outcome),
        }
    }
}

/// A version that objects may be stored in and that the wanted definition does not have. No API
/// server lets it go, and the later definition serves what the earlier one did.
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

/// The definition without the status subresources that the live one does not have; None when there
/// are no such.
fn withheld(live: &Live, wanted: &Object) -> Option<Object> {
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

/// Whether the API server serves every definition.
pub(super) fn established(scene: &Scene<'_>, outcome: &mut Outcome) {
    for definition in scene.of(Stage::Definitions) {
        let Some(live) = scene.live(&definition.id) else {
            continue;
        };
        if let Some(message) = why_not_established(live) {
            outcome.wait(&definition.id, message);
        }
    }
}

fn why_not_established(live: &Live) -> Option<String> {
    // Most are, and their text is long.
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
    let words = refused.and_then(|condition| condition["message"].as_str());
    Some(match words {
        Some(words) => format!("is not served: {words}"),
        None => "is not served yet".to_owned(),
    })
}
