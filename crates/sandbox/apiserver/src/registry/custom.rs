//! One version of a custom resource, compiled from its CustomResourceDefinition.

use schema::Schema;
use serde_json::Value;

use crate::{jsonpath::JsonPath, object};

#[derive(Debug)]
pub struct Custom {
    /// Name of the CustomResourceDefinition.
    pub definition: String,
    pub schema: Schema,
    pub open_api: Value,
    /// Whether this is the storage version.
    pub stored: bool,
    /// Whether there is a status subresource.
    pub has_status: bool,
    /// Replica paths of the scale subresource.
    pub scale: Option<ScalePaths>,
    /// Printer columns.
    pub columns: Vec<CustomColumn>,
    /// selectableFields, besides name and namespace.
    pub selectable: Vec<JsonPath>,
    /// Deprecation warning, if deprecated.
    pub deprecation: Option<String>,
    /// `spec.preserveUnknownFields`.
    pub preserve_unknown_fields: bool,
}

#[derive(Debug)]
pub struct ScalePaths {
    pub spec: JsonPath,
    pub status: JsonPath,
    pub selector: Option<JsonPath>,
}

/// Printer column.
#[derive(Debug)]
pub struct CustomColumn {
    pub name: String,
    /// Such as `date`.
    pub kind: String,
    pub format: String,
    pub description: String,
    /// 0: always shown; higher: only with `-o wide`.
    pub priority: i64,
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

/// Default deprecation warning, which names the best newer version.
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
            // An invalid path leaves the column empty, as on a real server.
            path: JsonPath::parse(&text("jsonPath"))
                .unwrap_or_else(|_| JsonPath::unmatched(&text("jsonPath"))),
        }
    }

    /// Default column.
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
