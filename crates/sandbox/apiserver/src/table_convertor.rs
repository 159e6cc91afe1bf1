//! Table convertor: objects as rows for kubectl.

use http::StatusCode;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::{
    ApiError, object, output,
    registry::{CustomColumn, Resource, Source},
};

/// `includeObject` option.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum IncludeObject {
    None,
    Metadata,
    Object,
}

impl IncludeObject {
    pub fn parse(text: &str) -> Result<Self, ApiError> {
        match text {
            "" | "Metadata" => Ok(Self::Metadata),
            "None" => Ok(Self::None),
            "Object" => Ok(Self::Object),
            other => Err(ApiError::new(
                StatusCode::BAD_REQUEST,
                "BadRequest",
                format!(
                    "Unable to convert to Table as requested: includeObject: Invalid value: {other:?}: must be 'Metadata', 'Object', 'None', or empty"
                ),
            )),
        }
    }
}

/// Converts objects to a Table. A watch sends the columns only once.
pub fn convert(
    resource: &Resource,
    objects: &[Value],
    include: IncludeObject,
    now: Timestamp,
    list_metadata: &Value,
    with_columns: bool,
) -> Value {
    let rows: Vec<Value> = objects
        .iter()
        .map(|object| row(resource, object, include, now))
        .collect();
    json!({
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": list_metadata,
        "columnDefinitions": if with_columns { columns(resource) } else { Value::Null },
        "rows": rows,
    })
}

pub fn columns(resource: &Resource) -> Value {
    let definition = |name: &str, kind: &str, format: &str, description: &str, priority: i64| {
        json!({
            "name": name, "type": kind, "format": format,
            "description": description, "priority": priority,
        })
    };
    let columns: Vec<Value> = match &resource.source {
        Source::BuiltIn(kind) => kinds::columns(kind)
            .iter()
            .map(|column| {
                definition(
                    column.name,
                    column.type_,
                    column.format,
                    column.description,
                    column.priority.into(),
                )
            })
            .collect(),
        Source::Custom(custom) => std::iter::once(definition(
            "Name",
            "string",
            "name",
            "The name of the object",
            0,
        ))
        .chain(custom.columns.iter().map(|column| {
            let description = match column.description.as_str() {
                "" => format!(
                    "Custom resource definition column (in JSONPath format): {}",
                    column.path.text()
                ),
                description => description.to_owned(),
            };
            definition(
                &column.name,
                &column.kind,
                &column.format,
                &description,
                column.priority,
            )
        }))
        .collect(),
    };
    columns.into()
}

fn row(resource: &Resource, object: &Value, include: IncludeObject, now: Timestamp) -> Value {
    let cells: Vec<Value> = match &resource.source {
        Source::BuiltIn(kind) => kinds::cells(kind, object, now),
        Source::Custom(custom) => std::iter::once(object::meta(object, "name").into())
            .chain(
                custom
                    .columns
                    .iter()
                    .map(|column| cell(column, object, now)),
            )
            .collect(),
    };
    let mut row = Map::new();
    row.insert("cells".to_owned(), cells.into());
    match include {
        IncludeObject::None => {
            row.insert("object".to_owned(), Value::Null);
        }
        IncludeObject::Metadata => {
            row.insert("object".to_owned(), output::partial(object));
        }
        IncludeObject::Object => {
            row.insert("object".to_owned(), object.clone());
        }
    }
    row.into()
}

/// A value that is not of the column's type is left out.
fn cell(column: &CustomColumn, object: &Value, now: Timestamp) -> Value {
    let Some(first) = column.path.first(object) else {
        return Value::Null;
    };
    match column.kind.as_str() {
        "string" => match first {
            Value::Null => Value::Null,
            Value::String(text) => text.clone().into(),
            other => go_text(other).into(),
        },
        "integer" => match first {
            Value::Number(number) => number
                .as_i64()
                .or_else(|| {
                    number.as_f64().map(|float| {
                        #[expect(clippy::cast_possible_truncation, reason = "as Go converts it")]
                        let whole = float as i64;
                        whole
                    })
                })
                .map_or(Value::Null, Value::from),
            _ => Value::Null,
        },
        "number" => first.as_f64().map_or(Value::Null, Value::from),
        "boolean" => first.as_bool().map_or(Value::Null, Value::from),
        "date" => match first.as_str() {
            Some(text) => match text.parse::<Timestamp>() {
                Ok(time) => kinds::age(Some(time), now).into(),
                Err(_) => "<invalid>".into(),
            },
            None => Value::Null,
        },
        _ => Value::Null,
    }
}

/// A value as Go prints it.
fn go_text(value: &Value) -> String {
    match value {
        Value::Object(_) | Value::Array(_) => value.to_string(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
