//! The resources that are served: the built-in ones, and those that definitions add.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
};

use bytes::Bytes;
use merge::{FieldSet, Shape, fields::Path};
use schema::{Findings, Schema, Violation};
use serde_json::Value;

use crate::{jsonpath::JsonPath, object, store::TableId};

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
    pub opening: Bytes,
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

/// What a definition says of one version of a resource.
#[derive(Debug)]
pub struct Custom {
    /// The definition's name.
    pub definition: String,
    /// The compiled schema.
    pub schema: Schema,
    /// The schema as written.
    pub open_api: Value,
    /// Whether this version is what is stored.
    pub stored: bool,
    /// Whether the status is written through a subresource of its own.
    pub has_status: bool,
    /// Where the replicas are, for the scale subresource.
    pub scale: Option<ScalePaths>,
    /// The columns that kubectl shows.
    pub columns: Vec<CustomColumn>,
    /// The fields that field selectors may name, besides the name and the namespace.
    pub selectable: Vec<JsonPath>,
    /// What to say to those who use this version, if it is deprecated.
    pub deprecation: Option<String>,
    keeps_unknown: bool,
}

/// Where the numbers of a scale subresource are.
#[derive(Debug)]
pub struct ScalePaths {
    /// The replicas that are wanted.
    pub spec: JsonPath,
    /// The replicas that there are.
    pub status: JsonPath,
    /// The label selector, as text.
    pub selector: Option<JsonPath>,
}

/// A column that a definition adds.
#[derive(Debug)]
pub struct CustomColumn {
    /// The heading.
    pub name: String,
    /// The type, such as `date`.
    pub kind: String,
    /// A hint for the type.
    pub format: String,
    /// What it tells.
    pub description: String,
    /// 0: always shown; more: only with `-o wide`.
    pub priority: i64,
    /// Where its value is.
    pub path: JsonPath,
}

/// The resources of a cluster.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    resources: BTreeMap<(String, String, String), Arc<Resource>>,
}

impl Registry {
    /// What every cluster has.
    pub fn built_in() -> Self {
        let mut registry = Self::default();
        for kind in kinds::all() {
            registry.add(Resource::built_in(kind));
        }
        registry
    }

    fn add(&mut self, resource: Resource) {
        let key = (
            resource.group.clone(),
            resource.version.clone(),
            resource.plural.clone(),
        );
        self.resources.insert(key, Arc::new(resource));
    }

    /// Serves what a definition describes, and nothing that it described before. The definition was
    /// written at revision `since`.
    pub fn define(&mut self, definition: &Value, since: u64) -> Result<(), String> {
        let served = Resource::custom(definition, since)?;
        self.undefine(object::meta(definition, "name"));
        for resource in served {
            self.add(resource);
        }
        Ok(())
    }

    /// Stops to serve what a definition described.
    pub fn undefine(&mut self, definition: &str) {
        self.resources.retain(|_, resource| match &resource.source {
            Source::Custom(custom) => custom.definition != definition,
            Source::BuiltIn(_) => true,
        });
    }

    /// The resource at a path.
    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Resource>> {
        let key = (group.to_owned(), version.to_owned(), plural.to_owned());
        self.resources.get(&key)
    }

    /// The resource of a kind.
    pub fn find_kind(&self, group: &str, version: &str, kind: &str) -> Option<&Arc<Resource>> {
        self.group_version(group, version)
            .find(|resource| resource.kind == kind)
    }

    /// The resources of a table, one for each version.
    pub fn of_table<'a>(&'a self, table: &'a TableId) -> impl Iterator<Item = &'a Arc<Resource>> {
        self.all().filter(move |resource| resource.table == *table)
    }

    /// All resources of a group and version.
    pub fn group_version(
        &self,
        group: &str,
        version: &str,
    ) -> impl Iterator<Item = &Arc<Resource>> {
        let start = (group.to_owned(), version.to_owned(), String::new());
        let (group, version) = (group.to_owned(), version.to_owned());
        self.resources
            .range(start..)
            .take_while(move |((g, v, _), _)| *g == group && *v == version)
            .map(|(_, resource)| resource)
    }

    /// All resources, in the order of their group, version and name.
    pub fn all(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.resources.values()
    }
}

impl Resource {
    fn built_in(kind: &'static kinds::Kind) -> Self {
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
            opening: opening(&kind.api_version(), kind.kind),
            shape: OnceLock::new(),
            reset: OnceLock::new(),
        }
    }

    /// The served versions that a definition describes.
    fn custom(definition: &Value, since: u64) -> Result<Vec<Self>, String> {
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
                    opening: opening(&object::api_version(&group, name), &kind),
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
            Source::Custom(custom) if custom.keeps_unknown => Ok(Vec::new()),
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
            (Source::BuiltIn(kind), old) if kind.kind == DEFINITION => match old {
                None => schema::crd::validate_create(new),
                Some(old) => schema::crd::validate_update(new, old),
            },
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

fn opening(api_version: &str, kind: &str) -> Bytes {
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

impl Custom {
    fn new(
        definition: &Value,
        version: &Value,
        kind: &str,
        group: &str,
        name: &str,
    ) -> Result<Self, String> {
        let open_api = version
            .pointer("/schema/openAPIV3Schema")
            .cloned()
            .unwrap_or_default();
        let schema = Schema::compile(&open_api).map_err(|error| error.to_string())?;
        let path = |pointer: &str| -> Option<JsonPath> {
            JsonPath::parse(version.pointer(pointer)?.as_str()?).ok()
        };
        let scale = version.pointer("/subresources/scale").and_then(|_| {
            Some(ScalePaths {
                spec: path("/subresources/scale/specReplicasPath")?,
                status: path("/subresources/scale/statusReplicasPath")?,
                selector: path("/subresources/scale/labelSelectorPath"),
            })
        });
        let items = |pointer: &str| {
            version
                .pointer(pointer)
                .and_then(Value::as_array)
                .map(Vec::as_slice)
                .unwrap_or_default()
                .iter()
        };
        let columns: Vec<CustomColumn> = items("/additionalPrinterColumns")
            .filter_map(CustomColumn::new)
            .collect();
        let deprecated = version.get("deprecated") == Some(&Value::Bool(true));
        Ok(Self {
            definition: object::meta(definition, "name").to_owned(),
            schema,
            stored: version.get("storage") == Some(&Value::Bool(true)),
            has_status: version.pointer("/subresources/status").is_some(),
            scale,
            columns: if columns.is_empty() {
                vec![CustomColumn::age()]
            } else {
                columns
            },
            selectable: items("/selectableFields")
                .filter_map(|field| JsonPath::parse(field.get("jsonPath")?.as_str()?).ok())
                .collect(),
            deprecation: deprecated.then(|| {
                version
                    .get("deprecationWarning")
                    .and_then(Value::as_str)
                    .map_or_else(|| deprecation(definition, group, name, kind), str::to_owned)
            }),
            keeps_unknown: definition.pointer("/spec/preserveUnknownFields")
                == Some(&Value::Bool(true)),
            open_api,
        })
    }
}

/// What is said of a deprecated version: the best one that is not is named.
fn deprecation(definition: &Value, group: &str, name: &str, kind: &str) -> String {
    let better = definition
        .pointer("/spec/versions")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter(|version| {
            version.get("served") == Some(&Value::Bool(true))
                && version.get("deprecated") != Some(&Value::Bool(true))
        })
        .filter_map(|version| version.get("name")?.as_str())
        .max_by_key(|version| crate::discovery::priority(version))
        .filter(|better| crate::discovery::priority(better) > crate::discovery::priority(name));
    match better {
        Some(better) => {
            format!("{group}/{name} {kind} is deprecated; use {group}/{better} {kind}")
        }
        None => format!("{group}/{name} {kind} is deprecated"),
    }
}

impl CustomColumn {
    fn new(column: &Value) -> Option<Self> {
        let text = |key: &str| {
            column
                .get(key)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        Some(Self {
            name: text("name"),
            kind: text("type"),
            format: text("format"),
            description: text("description"),
            priority: column
                .get("priority")
                .and_then(Value::as_i64)
                .unwrap_or_default(),
            path: JsonPath::parse(&text("jsonPath")).ok()?,
        })
    }

    /// The column of resources that ask for none.
    fn age() -> Self {
        Self {
            name: "Age".to_owned(),
            kind: "date".to_owned(),
            format: String::new(),
            description: String::new(),
            priority: 0,
            path: JsonPath::creation(),
        }
    }
}
