//! One version of a resource: names, storage, strategy and validation.

use std::sync::OnceLock;

use bytes::Bytes;
use merge::{FieldSet, Shape, fields::Path};
use schema::{Findings, Violation};
use serde_json::Value;

use super::Custom;
use crate::{object, store::TableId};

const DEFINITION: &str = "CustomResourceDefinition";

#[derive(Debug)]
pub struct Resource {
    /// Empty for core.
    pub group: String,
    pub version: String,
    pub kind: String,
    pub list_kind: String,
    pub plural: String,
    pub singular: String,
    pub short_names: Vec<String>,
    pub categories: Vec<String>,
    pub namespaced: bool,
    pub table: TableId,
    pub source: Source,
    /// Objects older than this revision may not match the current schema.
    pub since: u64,
    /// First bytes of the JSON of its objects: `apiVersion` and `kind`.
    pub json_prefix: Bytes,
    shape: OnceLock<Shape>,
    reset: OnceLock<[FieldSet; 2]>,
}

#[derive(Debug)]
pub enum Source {
    BuiltIn(&'static kinds::Kind),
    Custom(Box<Custom>),
}

impl Resource {
    pub(super) fn built_in(kind: &'static kinds::Kind) -> Self {
        Self {
            group: kind.group.to_owned(),
            version: kind.version.to_owned(),
            kind: kind.kind.to_owned(),
            list_kind: format!("{}List", kind.kind),
            plural: kind.plural.to_owned(),
            singular: kind.singular.to_owned(),
            short_names: kind
                .short_names
                .iter()
                .map(|&name| name.to_owned())
                .collect(),
            categories: kind
                .categories
                .iter()
                .map(|&name| name.to_owned())
                .collect(),
            namespaced: kind.namespaced,
            table: match (kind.group, kind.plural) {
                // One kind of object under two groups.
                ("events.k8s.io", "events") => TableId::new("", "events"),
                (group, plural) => TableId::new(group, plural),
            },
            source: Source::BuiltIn(kind),
            since: 0,
            json_prefix: json_prefix(&kind.api_version(), kind.kind),
            shape: OnceLock::new(),
            reset: OnceLock::new(),
        }
    }

    /// All served versions of a definition.
    pub(super) fn custom(definition: &Value, since: u64) -> Result<Vec<Self>, String> {
        let text = |pointer: &str| {
            definition
                .pointer(pointer)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        let words = |pointer: &str| -> Vec<String> {
            definition
                .pointer(pointer)
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .filter_map(|word| word.as_str().map(str::to_owned))
                .collect()
        };
        let group = text("/spec/group");
        let plural = text("/spec/names/plural");
        let kind = text("/spec/names/kind");
        let versions = definition
            .pointer("/spec/versions")
            .and_then(Value::as_array)
            .map(Vec::as_slice)
            .unwrap_or_default();
        versions
            .iter()
            .filter(|version| version.get("served") == Some(&Value::Bool(true)))
            .map(|version| {
                let name = version
                    .get("name")
                    .and_then(Value::as_str)
                    .unwrap_or_default();
                let custom = Custom::new(definition, version, &kind, &group, name)?;
                Ok(Self {
                    version: name.to_owned(),
                    list_kind: match text("/spec/names/listKind").as_str() {
                        "" => format!("{kind}List"),
                        given => given.to_owned(),
                    },
                    singular: text("/spec/names/singular"),
                    short_names: words("/spec/names/shortNames"),
                    categories: words("/spec/names/categories"),
                    namespaced: text("/spec/scope") == "Namespaced",
                    table: TableId::new(&group, &plural),
                    source: Source::Custom(Box::new(custom)),
                    since,
                    json_prefix: json_prefix(&object::api_version(&group, name), &kind),
                    shape: OnceLock::new(),
                    reset: OnceLock::new(),
                    group: group.clone(),
                    kind: kind.clone(),
                    plural: plural.clone(),
                })
            })
            .collect()
    }

    pub fn api_version(&self) -> String {
        object::api_version(&self.group, &self.version)
    }

    pub fn shape(&self) -> &Shape {
        self.shape.get_or_init(|| match &self.source {
            Source::BuiltIn(kind) => Shape::built_in(kinds::schema(kind), |reference| {
                kinds::component(reference.rsplit('/').next()?).cloned()
            }),
            Source::Custom(custom) => Shape::from_openapi(&custom.open_api, |_| None),
        })
    }

    /// Fields that a request to this path cannot change, and so does not own.
    pub fn reset_fields(&self, subresource: &str) -> &FieldSet {
        let [main, status] = self.reset.get_or_init(|| {
            let one = |fields: &[&str]| Path::of_fields(fields.iter().copied());
            let mut status = vec![one(&["spec"])];
            match self.kind.as_str() {
                _ if self.as_custom().is_some() => status.push(one(&["metadata"])),
                "Pod" => {
                    status.push(one(&["metadata", "deletionTimestamp"]));
                    status.push(one(&["metadata", "ownerReferences"]));
                }
                "Service" => {}
                _ => status.push(one(&["metadata", "labels"])),
            }
            let main = if self.has_status() {
                vec![one(&["status"])]
            } else {
                Vec::new()
            };
            [FieldSet::from_paths(&main), FieldSet::from_paths(&status)]
        });
        if subresource == "status" {
            status
        } else {
            main
        }
    }

    pub fn built_in_kind(&self) -> Option<&'static kinds::Kind> {
        match self.source {
            Source::BuiltIn(kind) => Some(kind),
            Source::Custom(_) => None,
        }
    }

    pub fn as_custom(&self) -> Option<&Custom> {
        match &self.source {
            Source::BuiltIn(_) => None,
            Source::Custom(custom) => Some(custom),
        }
    }

    pub fn allows(&self, verb: &str) -> bool {
        match &self.source {
            Source::BuiltIn(kind) => kind.verbs.contains(&verb),
            Source::Custom(_) => true,
        }
    }

    pub fn has_status(&self) -> bool {
        match &self.source {
            Source::BuiltIn(kind) => kind.has_status,
            Source::Custom(custom) => custom.has_status,
        }
    }

    pub fn has_subresource(&self, name: &str) -> bool {
        match &self.source {
            Source::BuiltIn(kind) => kind.subresources.iter().any(|sub| sub.name == name),
            Source::Custom(custom) => match name {
                "status" => custom.has_status,
                "scale" => custom.scale.is_some(),
                _ => false,
            },
        }
    }

    /// Whether an update may omit the resourceVersion.
    pub fn allows_unconditional_update(&self) -> bool {
        matches!(self.source, Source::BuiltIn(kind) if !matches!(kind.kind, "APIService" | "CustomResourceDefinition" | "Lease" | "PodDisruptionBudget"))
    }

    /// Whether PUT creates a missing object.
    pub fn creates_on_update(&self) -> bool {
        matches!(self.source, Source::BuiltIn(kind) if kind.kind == "Lease")
    }

    /// Key in etcd, which some error texts show.
    pub fn storage_key(&self, key: &str) -> String {
        let TableId { group, resource } = &self.table;
        match (group.as_ref(), resource.as_ref()) {
            ("", "services") => format!("/registry/services/specs/{key}"),
            ("apiextensions.k8s.io" | "apiregistration.k8s.io", resource) => {
                format!("/registry/{group}/{resource}/{key}")
            }
            (_, resource) if self.as_custom().is_none() => format!("/registry/{resource}/{key}"),
            (group, resource) => format!("/registry/{group}/{resource}/{key}"),
        }
    }

    /// Events of both groups share a table in the core form.
    pub fn needs_conversion(&self) -> bool {
        self.group == "events.k8s.io"
    }

    /// Decodes and prunes an object. Returns the strict decoding errors.
    pub fn decode(&self, value: &mut Value) -> Result<Vec<String>, String> {
        match &self.source {
            Source::BuiltIn(kind) => kinds::decode(kind, value),
            Source::Custom(custom) if custom.preserve_unknown_fields => Ok(Vec::new()),
            Source::Custom(custom) => {
                let unknown = custom.schema.decode(value)?;
                Ok(unknown
                    .iter()
                    .map(|path| format!("unknown field {path:?}"))
                    .collect())
            }
        }
    }

    pub fn default(&self, value: &mut Value) {
        match &self.source {
            Source::BuiltIn(kind) if kind.kind == DEFINITION => schema::crd::default(value),
            Source::BuiltIn(kind) => kinds::default(kind, value),
            Source::Custom(custom) => custom.schema.default(value),
        }
    }

    /// Strategy PrepareForCreate: clears fields that clients may not set.
    pub fn prepare_create(&self, value: &mut Value) {
        match &self.source {
            Source::BuiltIn(kind) => {
                kinds::prepare_create(kind, value);
                if kind.kind == DEFINITION {
                    object::map_mut(value).remove("status");
                    schema::crd::default(value);
                }
            }
            Source::Custom(custom) => {
                if custom.has_status {
                    object::map_mut(value).remove("status");
                }
            }
        }
    }

    /// Strategy PrepareForUpdate: restores fields that this path may not change.
    pub fn prepare_update(&self, new: &mut Value, old: &Value, subresource: &str) {
        match &self.source {
            Source::BuiltIn(kind) => {
                kinds::prepare_update(kind, new, old, subresource);
                if kind.kind == DEFINITION {
                    schema::crd::store_version(object::map_mut(new));
                }
            }
            Source::Custom(custom) if custom.has_status => {
                if subresource == "status" {
                    let status = object::map_mut(new).remove("status");
                    let metadata = object::map_mut(new).remove("metadata");
                    *new = old.clone();
                    let map = object::map_mut(new);
                    keep_or_remove(map, "status", status);
                    if let Some(mut metadata) = metadata {
                        // A status update may change only managedFields of the metadata.
                        let managed = metadata
                            .as_object_mut()
                            .and_then(|metadata| metadata.remove("managedFields"));
                        keep_or_remove(
                            object::child_mut(map, "metadata"),
                            "managedFields",
                            managed,
                        );
                    }
                } else {
                    keep_or_remove(object::map_mut(new), "status", old.get("status").cloned());
                }
            }
            Source::Custom(_) => {}
        }
    }

    /// Whether the change increments the generation.
    pub fn is_new_generation(&self, new: &Value, old: &Value) -> bool {
        match &self.source {
            Source::BuiltIn(kind) => kind
                .generation
                .iter()
                .any(|field| new.get(*field) != old.get(*field)),
            Source::Custom(custom) => {
                let (Some(new), Some(old)) = (new.as_object(), old.as_object()) else {
                    return true;
                };
                let counts = |key: &str| match key {
                    "metadata" | "apiVersion" | "kind" => false,
                    "status" => !custom.has_status,
                    _ => true,
                };
                new.keys()
                    .chain(old.keys())
                    .any(|key| counts(key) && new.get(key) != old.get(key))
            }
        }
    }

    pub fn has_generation(&self) -> bool {
        match &self.source {
            Source::BuiltIn(kind) => !kind.generation.is_empty(),
            Source::Custom(_) => true,
        }
    }

    /// Validation errors of the object, after those of its metadata.
    pub fn validate(
        &self,
        new: &Value,
        old: Option<&Value>,
        subresource: &str,
        mut metadata: Vec<Violation>,
    ) -> Findings {
        let violations = match (&self.source, old) {
            // A binding may change fields that an update may not.
            (Source::BuiltIn(_), Some(_)) if matches!(subresource, "status" | "binding") => {
                metadata
            }
            // CustomResourceDefinitions validate their metadata themselves.
            (Source::BuiltIn(kind), old) if kind.kind == DEFINITION => {
                let mut found = match old {
                    None => schema::crd::validate_create(new),
                    Some(old) => schema::crd::validate_update(new, old),
                };
                // Refuse a definition that this server cannot serve.
                if found.is_empty()
                    && let Err(why) = Self::custom(new, 0)
                {
                    found.push(Violation::invalid("spec.versions", Value::Null, why));
                }
                found
            }
            (Source::BuiltIn(kind), _) => {
                metadata.extend(kinds::validate(kind, new, old));
                metadata
            }
            (Source::Custom(custom), Some(old)) if subresource == "status" => {
                return custom.schema.admit_status(new, old, metadata);
            }
            (Source::Custom(custom), _) => return custom.schema.admit(new, old, metadata),
        };
        Findings {
            violations,
            tolerated: Vec::new(),
        }
    }

    pub fn name_rule(&self) -> kinds::NameRule {
        match self.source {
            Source::BuiltIn(kind) => kind.name_rule,
            Source::Custom(_) => kinds::NameRule::Subdomain,
        }
    }
}

fn json_prefix(api_version: &str, kind: &str) -> Bytes {
    format!(r#"{{"apiVersion":{api_version:?},"kind":{kind:?},"#).into()
}

fn keep_or_remove(map: &mut serde_json::Map<String, Value>, key: &str, value: Option<Value>) {
    match value {
        Some(value) => {
            map.insert(key.to_owned(), value);
        }
        None => {
            map.remove(key);
        }
    }
}
