//! What a CustomResourceDefinition says of one version of a resource.

use schema::Schema;
use serde_json::Value;

use crate::{jsonpath::JsonPath, object};

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
    /// Whether fields that the schema does not know are kept.
    pub preserve_unknown_fields: bool,
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

impl Custom {
    pub(super) fn new(
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
            .map(CustomColumn::new)
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
            preserve_unknown_fields: definition.pointer("/spec/preserveUnknownFields")
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
    fn new(column: &Value) -> Self {
        let text = |key: &str| {
            column
                .get(key)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        Self {
            name: text("name"),
            kind: text("type"),
            format: text("format"),
            description: text("description"),
            priority: column
                .get("priority")
                .and_then(Value::as_i64)
                .unwrap_or_default(),
            // A path that cannot be followed leaves its column empty, as on a real server.
            path: JsonPath::parse(&text("jsonPath"))
                .unwrap_or_else(|_| JsonPath::unmatched(&text("jsonPath"))),
        }
    }

    /// The column of resources that ask for none.
    fn age() -> Self {
        Self {
            name: "Age".to_owned(),
            kind: "date".to_owned(),
            format: String::new(),
            description: String::new(),
            priority: 0,
            path: JsonPath::creation_timestamp(),
        }
    }
}
