//! ObjectMeta: decoding, pruning and validation.
//!
//! [`type_error`] and [`prune`] apply when an object is decoded; [`validate_create`] and
//! [`validate_update`] before it is stored. They read `metadata` only and do not change it: the
//! caller sets UID, timestamps, generation and generated names first.

mod decode;
pub(crate) mod document;

pub use decode::{prune, type_error};
use serde_json::Value;

use crate::{Problem, Violation, names};

const FIELDS: [&str; 15] = [
    "annotations",
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "finalizers",
    "generateName",
    "generation",
    "labels",
    "managedFields",
    "name",
    "namespace",
    "ownerReferences",
    "resourceVersion",
    "selfLink",
    "uid",
];

/// Total size of annotations.
const MAX_ANNOTATION_BYTES: usize = 256 * 1024;

/// Lists may have a million items: stop after this many violations.
const MAX_VIOLATIONS: usize = 1000;

/// Each violation prints all owners.
const MAX_REPORTED_CONTROLLERS: usize = 10;

/// Returns the errors of a name.
pub type NameRule = fn(&str) -> Vec<String>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    Namespaced,
    Cluster,
}

/// Validates metadata on create.
pub fn validate_create(object: &Value, scope: Scope, name_rule: NameRule) -> Vec<Violation> {
    validate_create_at(object, scope, name_rule, "metadata")
}

/// The same for metadata at `path`, for embedded resources.
pub(crate) fn validate_create_at(
    object: &Value,
    scope: Scope,
    name_rule: NameRule,
    path: &str,
) -> Vec<Violation> {
    let metadata = Metadata::of(object, path);
    let mut found = Vec::new();
    let prefix = metadata.text("generateName");
    if !prefix.is_empty() {
        let wrong = name_rule(&with_masked_dash(prefix));
        found.extend(metadata.each("generateName", prefix, wrong));
    }
    let name = metadata.text("name");
    if name.is_empty() {
        found.push(Violation::required(
            metadata.at("name"),
            "name or generateName is required",
        ));
    } else {
        found.extend(metadata.each("name", name, name_rule(name)));
    }
    let namespace = metadata.text("namespace");
    match scope {
        Scope::Namespaced if namespace.is_empty() => {
            found.push(Violation::required(metadata.at("namespace"), ""));
        }
        Scope::Namespaced => {
            found.extend(metadata.each("namespace", namespace, names::dns_label(namespace)));
        }
        Scope::Cluster if !namespace.is_empty() => found.push(Violation::forbidden(
            metadata.at("namespace"),
            "not allowed on this type",
        )),
        Scope::Cluster => {}
    }
    metadata.check_generation(&mut found);
    metadata.check_labels(&mut found);
    metadata.check_annotations(&mut found);
    metadata.check_owners(&mut found);
    metadata.check_finalizers(&mut found);
    metadata.check_managed_fields(&mut found);
    found
}

/// Validates metadata on update.
pub fn validate_update(object: &Value, old: &Value) -> Vec<Violation> {
    const IMMUTABLE: &str = "field is immutable";
    let metadata = Metadata::of(object, "metadata");
    let old = Metadata::of(old, "metadata");
    let mut found = Vec::new();
    if old.field("deletionTimestamp").is_some() {
        let known: Vec<&str> = old.texts("finalizers").collect();
        let mut added: Vec<&str> = metadata
            .texts("finalizers")
            .filter(|finalizer| !known.contains(finalizer))
            .collect();
        added.sort_unstable();
        added.dedup();
        if !added.is_empty() {
            let added: Vec<String> = added.into_iter().map(apimachinery::go::quote).collect();
            found.push(Violation::forbidden(
                metadata.at("finalizers"),
                format!(
                    "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                    added.join(", ")
                ),
            ));
        }
    }
    if metadata.text("resourceVersion").is_empty() {
        found.push(Violation::invalid(
            metadata.at("resourceVersion"),
            "",
            "must be specified for an update",
        ));
    }
    metadata.check_generation(&mut found);
    if metadata.generation() < old.generation() {
        found.push(Violation::invalid(
            metadata.at("generation"),
            metadata.generation(),
            "must not be decremented",
        ));
    }
    for field in ["name", "namespace", "uid"] {
        if metadata.text(field) != old.text(field) {
            let value = metadata.text(field);
            found.push(Violation::invalid(metadata.at(field), value, IMMUTABLE));
        }
    }
    for field in [
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    ] {
        if metadata.field(field) != old.field(field) {
            let value = metadata.field(field).cloned().unwrap_or_default();
            found.push(Violation::invalid(metadata.at(field), value, IMMUTABLE));
        }
    }
    metadata.check_labels(&mut found);
    metadata.check_annotations(&mut found);
    metadata.check_owners(&mut found);
    metadata.check_managed_fields(&mut found);
    found
}

/// generateName with its trailing dash masked, because a suffix follows.
fn with_masked_dash(prefix: &str) -> String {
    match prefix.strip_suffix('-') {
        Some(rest) if !rest.is_empty() => {
            let mut masked = rest.to_owned();
            masked.pop();
            masked.push('a');
            masked
        }
        _ => prefix.to_owned(),
    }
}

/// An ownerReference as JSON in Go's field order.
fn shown_owner(owner: &Value) -> String {
    let fields = [
        "apiVersion",
        "kind",
        "name",
        "uid",
        "controller",
        "blockOwnerDeletion",
    ];
    let shown: Vec<String> = fields
        .iter()
        .filter_map(|field| Some(format!("\"{field}\":{}", owner.get(field)?)))
        .collect();
    format!("{{{}}}", shown.join(","))
}

struct Metadata<'a> {
    value: Option<&'a Value>,
    path: &'a str,
}

impl<'a> Metadata<'a> {
    fn of(object: &'a Value, path: &'a str) -> Self {
        let value = object.get("metadata");
        Self { value, path }
    }

    fn at(&self, field: &str) -> String {
        format!("{}.{field}", self.path)
    }

    fn field(&self, field: &str) -> Option<&'a Value> {
        self.value?.get(field).filter(|value| !value.is_null())
    }

    fn text(&self, field: &str) -> &'a str {
        self.field(field).and_then(Value::as_str).unwrap_or("")
    }

    fn texts(&self, field: &str) -> impl Iterator<Item = &'a str> {
        let texts = self.field(field).and_then(Value::as_array);
        texts.into_iter().flatten().filter_map(Value::as_str)
    }

    fn entries(&self, field: &str) -> impl Iterator<Item = (&'a str, &'a str)> {
        let entries = self.field(field).and_then(Value::as_object);
        let entry =
            |(key, value): (&'a String, &'a Value)| (key.as_str(), value.as_str().unwrap_or(""));
        entries.into_iter().flatten().map(entry)
    }

    fn generation(&self) -> i64 {
        self.field("generation")
            .and_then(Value::as_i64)
            .unwrap_or(0)
    }

    fn each(
        &self,
        field: &str,
        value: &str,
        wrong: Vec<String>,
    ) -> impl Iterator<Item = Violation> {
        let path = self.at(field);
        wrong
            .into_iter()
            .map(move |wrong| Violation::invalid(path.clone(), value, wrong))
    }

    fn check_generation(&self, found: &mut Vec<Violation>) {
        if self.generation() < 0 {
            found.push(Violation::invalid(
                self.at("generation"),
                self.generation(),
                "must be greater than or equal to 0",
            ));
        }
    }

    fn check_labels(&self, found: &mut Vec<Violation>) {
        for (key, value) in self.entries("labels") {
            found.extend(self.each("labels", key, names::qualified_name(key)));
            found.extend(self.each("labels", value, names::label_value(value)));
        }
    }

    fn check_annotations(&self, found: &mut Vec<Violation>) {
        let mut bytes = 0;
        for (key, value) in self.entries("annotations") {
            bytes += key.len() + value.len();
            let wrong = names::qualified_name(&key.to_lowercase());
            found.extend(self.each("annotations", key, wrong));
        }
        if bytes > MAX_ANNOTATION_BYTES {
            let max = MAX_ANNOTATION_BYTES as u64;
            found.push(Violation::at(
                self.at("annotations"),
                Problem::TooLong { max },
            ));
        }
    }

    fn check_owners(&self, found: &mut Vec<Violation>) {
        let Some(owners) = self.field("ownerReferences").and_then(Value::as_array) else {
            return;
        };
        let mut controller: Option<String> = None;
        let mut controllers = 0;
        for (index, owner) in owners.iter().enumerate() {
            if found.len() >= MAX_VIOLATIONS {
                return;
            }
            let path = format!("{}[{index}]", self.at("ownerReferences"));
            let text = |field: &str| owner.get(field).and_then(Value::as_str).unwrap_or("");
            let version = text("apiVersion");
            let parts = version.split('/').collect::<Vec<_>>();
            if version.is_empty() {
                found.push(Violation::required(
                    format!("{path}.apiVersion"),
                    "must not be empty",
                ));
            } else if parts.len() > 2 || parts.last().is_none_or(|version| version.is_empty()) {
                found.push(Violation::invalid(
                    format!("{path}.apiVersion"),
                    version,
                    "must be <group>/<version> or <version>",
                ));
            }
            for field in ["kind", "name", "uid"] {
                if text(field).is_empty() {
                    found.push(Violation::required(
                        format!("{path}.{field}"),
                        "must not be empty",
                    ));
                }
            }
            if version == "v1" && text("kind") == "Event" {
                found.push(Violation::invalid_shown(
                    path,
                    shown_owner(owner),
                    "/v1, Kind=Event is disallowed from being an owner",
                ));
            }
            if owner.get("controller") == Some(&Value::Bool(true)) {
                let name = format!("{}/{}", text("kind"), text("name"));
                controllers += 1;
                match &controller {
                    None => controller = Some(name),
                    Some(_) if controllers > MAX_REPORTED_CONTROLLERS => {}
                    Some(first) => found.push(Violation::invalid_shown(
                        self.at("ownerReferences"),
                        format!("[{}]", owners.iter().map(shown_owner).collect::<Vec<_>>().join(",")),
                        format!(
                            "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {name}"
                        ),
                    )),
                }
            }
        }
    }

    fn check_finalizers(&self, found: &mut Vec<Violation>) {
        for finalizer in self.texts("finalizers") {
            if found.len() >= MAX_VIOLATIONS {
                break;
            }
            let wrong = names::qualified_name(finalizer);
            found.extend(self.each("finalizers", finalizer, wrong));
        }
        let has = |name| self.texts("finalizers").any(|finalizer| finalizer == name);
        if has("orphan") && has("foregroundDeletion") {
            found.push(Violation::invalid(
                self.at("finalizers"),
                self.field("finalizers").cloned().unwrap_or_default(),
                "finalizer orphan and foregroundDeletion cannot be both set",
            ));
        }
    }

    fn check_managed_fields(&self, found: &mut Vec<Violation>) {
        let entries = self.field("managedFields").and_then(Value::as_array);
        for (index, entry) in entries.into_iter().flatten().enumerate() {
            if found.len() >= MAX_VIOLATIONS {
                return;
            }
            let path = format!("{}[{index}]", self.at("managedFields"));
            let text = |field: &str| entry.get(field).and_then(Value::as_str).unwrap_or("");
            match text("operation") {
                "Apply" | "Update" => {}
                "" => found.push(Violation::required(
                    format!("{path}.operation"),
                    "must not be empty",
                )),
                other => found.push(Violation::at(
                    format!("{path}.operation"),
                    Problem::Unsupported {
                        value: other.into(),
                        supported: vec!["Apply".into(), "Update".into()],
                    },
                )),
            }
            let fields_type = text("fieldsType");
            if !matches!(fields_type, "" | "FieldsV1") {
                found.push(Violation::invalid(
                    format!("{path}.fieldsType"),
                    fields_type,
                    "must be `FieldsV1`",
                ));
            }
            if text("manager").len() > 128 {
                let problem = Problem::TooLong { max: 128 };
                found.push(Violation::at(format!("{path}.manager"), problem));
            }
        }
    }
}
