//! Comparison of a live object with the desired one, to find drift.
//!
//! Defaults of the API server and fields of other clients are no differences. A difference is a wanted
//! field that is missing or has another value.
//!
//! - Maps are compared by the wanted fields. Maps that server-side apply replaces as a whole
//!   (selectors) are compared exactly.
//! - Lists with a key are compared by key, in any order, and may have further items; all other lists
//!   must have the same items in the same order. Only the subjects of role bindings have no order.
//! - Quantities are compared by value. Null, false, zero and empty values are the same as absent.

mod cache;

use std::collections::{BTreeMap, BTreeSet};

pub use cache::ComparisonCache;
use serde_json::{Map, Value};

use super::object::{Live, Object};
use crate::{Quantity, preview::Change};

/// Whether a live object has all wanted fields.
pub fn covers(live: &Live, wanted: &Object) -> bool {
    differences(live, wanted).is_empty()
}

/// The wanted fields that are missing or have another value. The data of Secrets is hidden.
pub fn differences(live: &Live, wanted: &Object) -> Vec<Change> {
    if live.text() == wanted.text() {
        return Vec::new();
    }
    let mut found = differences_of(&wanted.id.kind, &live.value(), &wanted.value());
    if wanted.id.is("", "Secret") {
        for change in &mut found {
            change.from = change.from.as_ref().map(|_| Value::from("(not shown)"));
            change.to = change.to.as_ref().map(|_| Value::from("(not shown)"));
        }
    }
    found
}

/// [`differences`] of two values.
pub(super) fn differences_of(kind: &str, live: &Value, wanted: &Value) -> Vec<Change> {
    let mut comparison = Comparison {
        kind,
        found: Vec::new(),
    };
    comparison.value(&Place::default(), Some(live), wanted);
    comparison.found
}

/// Path of a value in an object.
#[derive(Clone, Copy, Default)]
struct Place<'a> {
    outer: Option<&'a Place<'a>>,
    field: &'a str,
    /// The item of a list.
    item: Option<&'a str>,
}

impl<'a> Place<'a> {
    fn field(&'a self, field: &'a str) -> Self {
        Self {
            outer: Some(self),
            field,
            item: None,
        }
    }

    fn item(&'a self, item: &'a str) -> Self {
        Self {
            outer: Some(self),
            field: self.field,
            item: Some(item),
        }
    }

    fn parent(&self) -> &'a str {
        self.outer.map_or("", |outer| outer.field)
    }

    fn text(&self) -> String {
        let text = self.outer.map(Place::text).unwrap_or_default();
        match self.item {
            Some(item) => format!("{text}[{item}]"),
            None if self.field.contains(['.', '/']) => format!("{text}[{}]", self.field),
            None if text.is_empty() => self.field.to_owned(),
            None => format!("{text}.{}", self.field),
        }
    }
}

struct Comparison<'a> {
    kind: &'a str,
    found: Vec<Change>,
}

impl Comparison<'_> {
    fn value(&mut self, place: &Place<'_>, live: Option<&Value>, wanted: &Value) {
        if is_nothing(place, wanted) {
            let same = live.is_none_or(|live| is_nothing(place, live) || wanted.is_null());
            // An empty map does not exclude fields of others.
            if same || wanted.is_object() {
                return;
            }
        }
        match (live, wanted) {
            (Some(live), wanted) if live == wanted => {}
            (Some(Value::Object(live)), Value::Object(wanted)) => self.object(place, live, wanted),
            (Some(Value::Array(live)), Value::Array(wanted)) => self.list(place, live, wanted),
            (Some(live), wanted) if is_quantity(place) && same_quantity(live, wanted) => {}
            (Some(Value::Number(live)), Value::Number(wanted))
                if live.as_f64() == wanted.as_f64() => {}
            _ => self.differs(place, live, wanted),
        }
    }

    fn differs(&mut self, place: &Place<'_>, live: Option<&Value>, wanted: &Value) {
        self.found.push(Change {
            path: place.text(),
            from: live.cloned(),
            to: Some(wanted.clone()),
        });
    }

    fn object(
        &mut self,
        place: &Place<'_>,
        live: &Map<String, Value>,
        wanted: &Map<String, Value>,
    ) {
        for (field, wanted) in wanted {
            self.value(&place.field(field), live.get(field), wanted);
        }
        if self.is_atomic_map(place) {
            for (field, live) in live {
                if !wanted.contains_key(field) {
                    self.found.push(Change {
                        path: place.field(field).text(),
                        from: Some(live.clone()),
                        to: None,
                    });
                }
            }
        }
    }

    /// Maps that server-side apply replaces as a whole.
    fn is_atomic_map(&self, place: &Place<'_>) -> bool {
        match place.field {
            "matchLabels" | "nodeSelector" => place.item.is_none(),
            "selector" => self.kind == "Service" && place.parent() == "spec",
            _ => false,
        }
    }

    fn list(&mut self, place: &Place<'_>, live: &[Value], wanted: &[Value]) {
        if let Some(keys) = self.keys(place) {
            // Of two items with the same key, the first counts.
            let live = live.iter().rev();
            let live: BTreeMap<String, &Value> = live.map(|live| (key(keys, live), live)).collect();
            for wanted in wanted {
                let key = key(keys, wanted);
                self.value(&place.item(&key), live.get(&key).copied(), wanted);
            }
            return;
        }
        if self.is_unordered(place) {
            let live: Vec<_> = live.iter().map(subject).collect();
            let expected: Vec<_> = wanted.iter().map(subject).collect();
            let distinct = |items: &[Value]| -> BTreeSet<String> {
                items.iter().map(Value::to_string).collect()
            };
            if live.len() != expected.len() || distinct(&live) != distinct(&expected) {
                self.differs(place, Some(&Value::Array(live)), &Value::Array(expected));
            }
            return;
        }
        // The rules of a role are compared exactly.
        let exact = place.field == "rules" && self.kind.ends_with("Role");
        let has_objects = wanted.iter().all(Value::is_object) && !wanted.is_empty();
        if live.len() != wanted.len() || exact || !has_objects {
            self.differs(
                place,
                Some(&Value::Array(live.to_vec())),
                &Value::Array(wanted.to_vec()),
            );
            return;
        }
        for (at, (live, wanted)) in live.iter().zip(wanted).enumerate() {
            self.value(&place.item(&at.to_string()), Some(live), wanted);
        }
    }

    /// The keys of the items of an associative list.
    fn keys(&self, place: &Place<'_>) -> Option<&'static [Key]> {
        const NAME: &[Key] = &[Key("name", "")];
        const CONTAINER_PORT: &[Key] = &[Key("containerPort", ""), Key("protocol", "TCP")];
        const PORT: &[Key] = &[Key("port", ""), Key("protocol", "TCP")];
        const MOUNT: &[Key] = &[Key("mountPath", "")];
        const DEVICE: &[Key] = &[Key("devicePath", "")];
        let is_pod = place.parent() == "spec";
        let is_container = matches!(place.parent(), "containers" | "initContainers");
        match (self.kind, place.field) {
            ("Deployment" | "DaemonSet" | "Job", field) => match field {
                "containers" | "initContainers" | "volumes" | "imagePullSecrets" if is_pod => {
                    Some(NAME)
                }
                "env" if is_container => Some(NAME),
                "ports" if is_container => Some(CONTAINER_PORT),
                "volumeMounts" if is_container => Some(MOUNT),
                "volumeDevices" if is_container => Some(DEVICE),
                _ => None,
            },
            ("Service", "ports") if is_pod => Some(PORT),
            (
                "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration",
                "webhooks" | "matchConditions",
            )
            | ("ServiceAccount", "secrets" | "imagePullSecrets")
            | ("ValidatingAdmissionPolicy", "variables" | "matchConditions") => Some(NAME),
            _ => None,
        }
    }

    fn is_unordered(&self, place: &Place<'_>) -> bool {
        place.field == "subjects" && self.kind.ends_with("RoleBinding")
    }
}

/// Key field of list items, with its default.
struct Key(&'static str, &'static str);

fn key(keys: &[Key], item: &Value) -> String {
    let parts = keys
        .iter()
        .map(|Key(field, default)| match item.get(field) {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Null) | None => (*default).to_owned(),
            Some(other) => other.to_string(),
        });
    parts.collect::<Vec<_>>().join("/")
}

/// Subject of a role binding, with the API server's default group.
fn subject(item: &Value) -> Value {
    let mut item = item.clone();
    if let Some(fields) = item.as_object_mut() {
        let group = match fields.get("kind").and_then(Value::as_str) {
            Some("User" | "Group") => "rbac.authorization.k8s.io",
            _ => "",
        };
        fields.retain(|_, value| value.as_str() != Some("") && !value.is_null());
        if !group.is_empty() {
            fields.entry("apiGroup").or_insert_with(|| group.into());
        }
    }
    item
}

/// Whether a value is the same as absent. Two fields have a meaning even if empty.
fn is_nothing(place: &Place<'_>, value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Bool(true) => false,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => {
            let has_meaning = place.field == "emptyDir"
                || (place.field == "status" && place.parent() == "subresources");
            fields.is_empty() && !has_meaning
        }
    }
}

fn is_quantity(place: &Place<'_>) -> bool {
    matches!(place.parent(), "requests" | "limits")
        || matches!(place.field, "sizeLimit" | "divisor")
}

fn same_quantity(live: &Value, wanted: &Value) -> bool {
    let quantity = |value: &Value| match value {
        Value::String(text) => text.parse::<Quantity>().ok(),
        Value::Number(number) => number.to_string().parse().ok(),
        _ => None,
    };
    match (quantity(live), quantity(wanted)) {
        (Some(live), Some(wanted)) => live.nanos() == wanted.nanos(),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
