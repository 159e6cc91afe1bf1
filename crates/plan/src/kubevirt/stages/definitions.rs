//! Definitions, and what keeps them from being as a release has them.
//!
//! Components of an old version write the status of an object together with the rest of it. A
//! definition with a status subresource would ignore that, so one that lacks it gets it only after
//! every component has rolled over.
//!
//! Objects may be stored in a version that the wanted release does not have: one that goes back does
//! not know what a later one has brought. The API server refuses to take such a version away, so it is
//! kept beside those of the release; nothing is stored in it any more.

use serde_json::Value;

use super::{Outcome, Scene, Stage};
use crate::kubevirt::object::{Live, Object};

pub(super) fn look(scene: &Scene<'_>, outcome: &mut Outcome) {
    let withholds = !scene.is_repairing() && !scene.is_rolled_over();
    for definition in scene.of(Stage::Definitions) {
        let live = scene.live(&definition.id);
        let fitted = live
            .filter(|live| !live.deleting && scene.differs(live, definition))
            .and_then(|live| fitted(live, definition, withholds));
        scene.put(fitted.as_ref().unwrap_or(definition), outcome);
    }
}

/// The definition as it may be written over the live one; None when it may be as it is.
fn fitted(live: &Live, wanted: &Object, withholds: bool) -> Option<Object> {
    let live = live.value();
    let mut value = wanted.value();
    let mut changed = keep_stored(&live, &mut value);
    if withholds {
        changed |= withhold_status(&live, &mut value);
    }
    changed.then(|| Object::new(&value).ok()).flatten()
}

fn versions(definition: &Value) -> impl Iterator<Item = &Value> {
    let versions = definition.pointer("/spec/versions");
    versions.and_then(Value::as_array).into_iter().flatten()
}

fn version<'a>(definition: &'a Value, name: &Value) -> Option<&'a Value> {
    versions(definition).find(|version| version.get("name") == Some(name))
}

/// Keeps the versions that objects may be stored in. Says whether the release lacks any.
fn keep_stored(live: &Value, wanted: &mut Value) -> bool {
    let stored = live.pointer("/status/storedVersions");
    let stored = stored.and_then(Value::as_array).into_iter().flatten();
    let lacking: Vec<Value> = stored
        .filter(|name| version(wanted, name).is_none())
        .filter_map(|name| version(live, name)?.as_object().cloned())
        .map(|mut version| {
            version.insert("storage".to_owned(), false.into());
            version.into()
        })
        .collect();
    let versions = wanted.pointer_mut("/spec/versions");
    let Some(versions) = versions.and_then(Value::as_array_mut) else {
        return false;
    };
    let changed = !lacking.is_empty();
    versions.extend(lacking);
    changed
}

/// Takes away the status subresources that the live definition does not have. Says whether there are
/// any.
fn withhold_status(live: &Value, wanted: &mut Value) -> bool {
    let versions = wanted.pointer_mut("/spec/versions");
    let versions = versions.and_then(Value::as_array_mut);
    let mut changed = false;
    for wanted in versions.into_iter().flatten() {
        let live = wanted.get("name").and_then(|name| version(live, name));
        let has_status = live.is_some_and(|live| live.pointer("/subresources/status").is_some());
        let subresources = wanted.get_mut("subresources");
        let subresources = subresources.and_then(Value::as_object_mut);
        if !has_status && let Some(subresources) = subresources {
            changed |= subresources.remove("status").is_some();
            if subresources.is_empty()
                && let Some(wanted) = wanted.as_object_mut()
            {
                wanted.remove("subresources");
            }
        }
    }
    changed
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

#[cfg(test)]
#[allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A definition with these versions, of which the last is the one that objects are stored in.
    fn definition(versions: &[&str]) -> Value {
        let last = versions.last();
        let versions: Vec<_> = versions
            .iter()
            .map(|name| json!({ "name": name, "served": true, "storage": Some(name) == last }))
            .collect();
        json!({ "spec": { "versions": versions } })
    }

    #[test]
    fn a_version_that_objects_are_stored_in_is_kept() {
        let mut live = definition(&["v1beta1", "v1"]);
        live["status"]["storedVersions"] = json!(["v1beta1", "v1"]);
        let mut wanted = definition(&["v1alpha1", "v1beta1"]);
        assert!(keep_stored(&live, &mut wanted));
        let kept = json!([
            { "name": "v1alpha1", "served": true, "storage": false },
            { "name": "v1beta1", "served": true, "storage": true },
            { "name": "v1", "served": true, "storage": false },
        ]);
        assert_eq!(wanted["spec"]["versions"], kept);
        assert!(!keep_stored(&live, &mut wanted));
    }

    #[test]
    fn a_version_that_nothing_is_stored_in_goes() {
        let mut live = definition(&["v1alpha1", "v1beta1"]);
        live["status"]["storedVersions"] = json!(["v1beta1"]);
        let mut wanted = definition(&["v1beta1", "v1"]);
        assert!(!keep_stored(&live, &mut wanted));
        assert_eq!(wanted, definition(&["v1beta1", "v1"]));
    }
}
