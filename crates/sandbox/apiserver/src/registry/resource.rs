//! One version of a resource: what is known of its objects, whoever says it.

use std::sync::OnceLock;

use bytes::Bytes;
use merge::{FieldSet, Shape, fields::Path};
use schema::{Findings, Violation};
use serde_json::Value;

use super::Custom;
use crate::{object, store::TableId};

/// The kind that defines others.
const DEFINITION: &str = "CustomResourceDefinition";

/// One version of a resource.
#[derive(Debug)]
pub struct Resource {
    /// The API group, empty for core.
    pub group: String,
    /// The version.
    pub version: String,
    /// The kind.
    pub kind: String,
    /// The kind of a list of it.
    pub list_kind: String,
    /// The name in paths.
    pub plural: String,
    /// The name of one.
    pub singular: String,
    /// The names that kubectl takes as well.
    pub short_names: Vec<String>,
    /// The groups of resources that it belongs to.
    pub categories: Vec<String>,
    /// Whether its objects are in namespaces.
    pub namespaced: bool,
    /// Where its objects are.
    pub table: TableId,
    /// What is known of its objects.
    pub source: Source,
    /// Objects that were written before this revision may not fit the schema of today.
    pub since: u64,
    /// How the JSON of its objects begins.
    pub json_prefix: Bytes,
    shape: OnceLock<Shape>,
    reset: OnceLock<[FieldSet; 2]>,
}

/// Where the knowledge of a resource comes from.
#[derive(Debug)]
pub enum Source {
    /// It is part of Kubernetes.
    BuiltIn(&'static kinds::Kind),
    /// A CustomResourceDefinition describes it.
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

    /// The served versions that a definition describes.
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

    /// `apiVersion` of its objects.
    pub fn api_version(&self) -> String {
        object::api_version(&self.group, &self.version)
    }

    /// How its objects are merged.
    pub fn shape(&self) -> &Shape {
        self.shape.get_or_init(|| match &self.source {
            Source::BuiltIn(kind) => Shape::built_in(kinds::schema(kind), |reference| {
                kinds::component(reference.rsplit('/').next()?).cloned()
            }),
            Source::Custom(custom) => Shape::from_openapi(&custom.open_api, |_| None),
        })
    }

    /// What a request cannot change through this path, and so does not own.
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

    /// The built-in kind, if it is one.
    pub fn built_in_kind(&self) -> Option<&'static kinds::Kind> {
        match self.source {
            Source::BuiltIn(kind) => Some(kind),
            Source::Custom(_) => None,
        }
    }

    /// What the definition says, if there is one.
    pub fn as_custom(&self) -> Option<&Custom> {
        match &self.source {
            Source::BuiltIn(_) => None,
            Source::Custom(custom) => Some(custom),
        }
    }

    /// Whether a verb is served for it.
    pub fn allows(&self, verb: &str) -> bool {
        match &self.source {
            Source::BuiltIn(kind) => kind.verbs.contains(&verb),
            Source::Custom(_) => true,
        }
    }

    /// Whether it has a status subresource.
    pub fn has_status(&self) -> bool {
        match &self.source {
            Source::BuiltIn(kind) => kind.has_status,
            Source::Custom(custom) => custom.has_status,
        }
    }

    /// Whether there is a subresource of that name.
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

    /// Whether an update may leave out the resourceVersion.
    pub fn allows_unconditional_update(&self) -> bool {
        matches!(self.source, Source::BuiltIn(kind) if !matches!(kind.kind, "APIService" | "CustomResourceDefinition" | "Lease" | "PodDisruptionBudget"))
    }

    /// Whether an update of what is not there creates it.
    pub fn creates_on_update(&self) -> bool {
        matches!(self.source, Source::BuiltIn(kind) if kind.kind == "Lease")
    }

    /// Where etcd would have an object: some error texts show it.
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

    /// Whether the table holds other kinds of objects, too, or in another form.
    pub fn needs_conversion(&self) -> bool {
        self.group == "events.k8s.io"
    }

    /// Brings what a client sent into the form that is kept, and tells what strict decoding finds:
    /// fields that nobody knows.
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

    /// Sets what the client left to the server.
    pub fn default(&self, value: &mut Value) {
        match &self.source {
            Source::BuiltIn(kind) if kind.kind == DEFINITION => schema::crd::default(value),
            Source::BuiltIn(kind) => kinds::default(kind, value),
            Source::Custom(custom) => custom.schema.default(value),
        }
    }

    /// What of a new object is not for its author to say.
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

    /// What of a changed object its author may not change by this path.
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
                        // Only managedFields of the metadata may change with a status.
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

    /// Whether what changed makes a new generation.
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

    /// Whether new objects begin with generation 1.
    pub fn has_generation(&self) -> bool {
        match &self.source {
            Source::BuiltIn(kind) => !kind.generation.is_empty(),
            Source::Custom(_) => true,
        }
    }

    /// What is wrong with an object, after what is wrong with its metadata.
    pub fn validate(
        &self,
        new: &Value,
        old: Option<&Value>,
        subresource: &str,
        mut metadata: Vec<Violation>,
    ) -> Findings {
        let violations = match (&self.source, old) {
            // A binding changes what an update may not.
            (Source::BuiltIn(_), Some(_)) if matches!(subresource, "status" | "binding") => {
                metadata
            }
            // Definitions look at their metadata themselves.
            (Source::BuiltIn(kind), old) if kind.kind == DEFINITION => {
                let mut found = match old {
                    None => schema::crd::validate_create(new),
                    Some(old) => schema::crd::validate_update(new, old),
                };
                // What cannot be served is refused, not stored and passed over.
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

    /// What its objects may be called.
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
