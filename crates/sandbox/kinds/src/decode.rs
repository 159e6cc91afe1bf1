//! Decoding of built-in kinds as Go decodes and encodes them.
//!
//! [`decode`] does in one pass what decoding into a Go struct and encoding it again does: unknown
//! fields are dropped and reported, values of the wrong type are refused with the decoder's text,
//! `null` counts as absent, and the result is what Go writes: zero values omitted or present as the
//! field's tag says, quantities in canonical form, times in UTC.

mod scalar;

use apimachinery::go::json_type;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Map, Value};

use crate::{
    Kind,
    type_info::{self, Absent},
};

/// Decodes `object` in place. Returns the strict decoding errors, such as `unknown field
/// "spec.replica"`; the error is the text of a 400.
pub fn decode(kind: &Kind, object: &mut Value) -> Result<Vec<String>, String> {
    let mut unknown = Vec::new();
    let mut decoder = Decoder {
        unknown: &mut unknown,
        error: None,
    };
    let Value::Object(fields) = object else {
        return Err(format!(
            "the object provided is unrecognized (must be of type {}): couldn't get version/kind; json parse error: json: cannot unmarshal {} into Go value of type struct {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}",
            kind.kind,
            json_type(object)
        ));
    };
    decoder.fields(
        kind.component,
        type_info::schema(kind),
        fields,
        &FieldPath::root(),
    );
    match decoder.error {
        None => {
            if kind.kind == "Secret" {
                fold_string_data(fields);
            }
            Ok(unknown)
        }
        Some(error) => Err(format!(
            "{} in version {:?} cannot be handled as a {}: {error}",
            kind.kind, kind.version, kind.kind
        )),
    }
}

/// `stringData` is write-only: it is merged into `data`.
fn fold_string_data(fields: &mut Map<String, Value>) {
    let Some(Value::Object(texts)) = fields.remove("stringData") else {
        return;
    };
    if let Some(data) = crate::value::child(fields, "data") {
        for (key, text) in texts {
            let bytes = text.as_str().unwrap_or_default().as_bytes();
            data.insert(key, STANDARD.encode(bytes).into());
        }
    }
}

/// Normalizes an object that is valid for the component but did not come from a client, such as a
/// status set by an actor.
pub(crate) fn normalise(component: &str, object: &mut Value) {
    let mut unknown = Vec::new();
    let mut decoder = Decoder {
        unknown: &mut unknown,
        error: None,
    };
    if let (Some(schema), Value::Object(fields)) = (type_info::component(component), object) {
        decoder.fields(component, schema, fields, &FieldPath::root());
    }
}

/// Path of the current field: with indices and keys for unknown fields, and as a stack of Go fields
/// for type errors.
struct FieldPath {
    path: String,
    go: String,
}

impl FieldPath {
    fn root() -> Self {
        Self {
            path: String::new(),
            go: String::new(),
        }
    }

    fn field(&self, name: &str) -> Self {
        let join = |parent: &str| match parent {
            "" => name.to_owned(),
            parent => format!("{parent}.{name}"),
        };
        Self {
            path: join(&self.path),
            go: join(&self.go),
        }
    }

    /// The same path, with the embedded structs that type errors name.
    fn embedded(self, inside: Option<&str>, name: &str) -> Self {
        match inside {
            None => self,
            Some(inside) => Self {
                go: format!("{}{inside}.{name}", self.go.trim_end_matches(name)),
                path: self.path,
            },
        }
    }

    fn item(&self, index: usize) -> Self {
        Self {
            path: format!("{}[{index}]", self.path),
            go: self.go.clone(),
        }
    }

    fn entry(&self, key: &str) -> Self {
        Self {
            path: format!("{}.{key}", self.path),
            go: self.go.clone(),
        }
    }
}

struct Decoder<'a> {
    unknown: &'a mut Vec<String>,
    /// Go continues after an error and reports only the first.
    error: Option<String>,
}

/// Struct of the current field, and the name of its type if the schema has none.
#[derive(Clone, Copy)]
struct FieldContext<'a> {
    component: &'a str,
    type_name: Option<&'static str>,
}

impl Decoder<'_> {
    fn fields(
        &mut self,
        component: &str,
        schema: &Value,
        fields: &mut Map<String, Value>,
        path: &FieldPath,
    ) {
        let properties = schema.get("properties").and_then(Value::as_object);
        let names: Vec<String> = fields.keys().cloned().collect();
        for name in names {
            let path = path.field(&name);
            let Some(property) = properties.and_then(|known| known.get(&name)) else {
                fields.remove(&name);
                self.unknown.push(format!("unknown field {:?}", path.path));
                continue;
            };
            let Some(value) = fields.get_mut(&name) else {
                continue;
            };
            let field = type_info::field(component, &name);
            let path = path.embedded(field.inside, &name);
            let context = FieldContext {
                component,
                type_name: field.type_name,
            };
            if !value.is_null() {
                self.value(property, value, context, &path);
            }
            let written = match field.absent {
                Absent::Unwritten => !value.is_null() && !is_empty(property, value),
                Absent::ZeroUnwritten => !value.is_null() && !is_zero(value),
                Absent::Null | Absent::Zero => !value.is_null(),
            };
            if !written {
                fields.remove(&name);
            }
        }
        for (name, absent) in type_info::written_when_absent(component) {
            if fields.contains_key(name) {
                continue;
            }
            let zero = match absent {
                Absent::Zero => properties
                    .and_then(|known| known.get(name))
                    .map_or(Value::Null, zero),
                _ => Value::Null,
            };
            fields.insert(name.to_owned(), zero);
        }
    }

    fn value(
        &mut self,
        schema: &Value,
        value: &mut Value,
        context: FieldContext<'_>,
        path: &FieldPath,
    ) {
        if let Some((component, target)) = type_info::target(schema) {
            return self.component(component, target, value, context, path);
        }
        match schema.get("type").and_then(Value::as_str) {
            Some("array") => self.list(schema, value, context, path),
            Some("object") => self.map(schema, value, context, path),
            Some(_) => self.scalar(schema, value, context, path),
            None => {}
        }
    }

    fn component(
        &mut self,
        component: &str,
        schema: &Value,
        value: &mut Value,
        context: FieldContext<'_>,
        path: &FieldPath,
    ) {
        let name = component.rsplit('.').next().unwrap_or(component);
        match (name, &mut *value) {
            ("Quantity" | "IntOrString" | "Time" | "MicroTime", _) => {
                if let Err(error) = scalar::special(name, value) {
                    self.fail(error);
                }
            }
            ("JSONSchemaPropsOrBool" | "JSONSchemaPropsOrArray", Value::Object(fields)) => {
                let one = component.strip_suffix("OrBool");
                let one = one
                    .or_else(|| component.strip_suffix("OrArray"))
                    .unwrap_or(component);
                // It has its own decoder, which ignores unknown fields.
                let known = self.unknown.len();
                if let Some(schema) = type_info::component(one) {
                    self.fields(one, schema, fields, path);
                }
                self.unknown.truncate(known);
            }
            // Union types, which the schema does not describe.
            (
                "JSON"
                | "JSONSchemaPropsOrStringArray"
                | "JSONSchemaPropsOrBool"
                | "JSONSchemaPropsOrArray"
                | "FieldsV1"
                | "RawExtension"
                | "Patch",
                _,
            ) => {}
            (_, Value::Object(fields)) if schema.get("properties").is_some() => {
                self.fields(component, schema, fields, path);
            }
            (_, Value::Object(_))
                if schema.get("type").and_then(Value::as_str) == Some("object") => {}
            _ => {
                let go_type = scalar::component_type(component);
                self.mismatch(value, &go_type, context, path);
            }
        }
    }

    fn list(
        &mut self,
        schema: &Value,
        value: &mut Value,
        context: FieldContext<'_>,
        path: &FieldPath,
    ) {
        let Value::Array(items) = value else {
            let go_type = scalar::type_name(schema, context.type_name);
            return self.mismatch(value, &go_type, context, path);
        };
        let Some(item_schema) = schema.get("items") else {
            return;
        };
        for (index, item) in items.iter_mut().enumerate() {
            if item.is_null() {
                *item = zero(item_schema);
                normalise_zero(item_schema, item);
            } else {
                self.value(item_schema, item, context, &path.item(index));
            }
        }
    }

    fn map(
        &mut self,
        schema: &Value,
        value: &mut Value,
        context: FieldContext<'_>,
        path: &FieldPath,
    ) {
        let Value::Object(entries) = value else {
            let go_type = scalar::type_name(schema, context.type_name);
            return self.mismatch(value, &go_type, context, path);
        };
        let Some(entry_schema) = schema.get("additionalProperties") else {
            return;
        };
        for (key, entry) in entries.iter_mut() {
            if entry.is_null() {
                *entry = zero(entry_schema);
            } else {
                self.value(entry_schema, entry, context, &path.entry(key));
            }
        }
    }

    fn scalar(
        &mut self,
        schema: &Value,
        value: &mut Value,
        context: FieldContext<'_>,
        path: &FieldPath,
    ) {
        let type_name = schema
            .get("type")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let format = schema
            .get("format")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let fits = match (type_name, &*value) {
            ("string", Value::String(_))
            | ("boolean", Value::Bool(_))
            | ("number", Value::Number(_)) => true,
            ("integer", Value::Number(number)) => match number.as_i64() {
                Some(number) => format != "int32" || i32::try_from(number).is_ok(),
                None => false,
            },
            _ => false,
        };
        if !fits {
            let go_type = scalar::type_name(schema, context.type_name);
            return self.mismatch(value, &go_type, context, path);
        }
        if format == "byte"
            && let Err(error) = scalar::base64(value)
        {
            self.fail(error);
        }
    }

    fn mismatch(
        &mut self,
        value: &Value,
        go_type: &str,
        context: FieldContext<'_>,
        path: &FieldPath,
    ) {
        let owner = context.component.rsplit('.').next().unwrap_or_default();
        let found = match value {
            Value::Number(number)
                if !go_type.contains("string") && !go_type.contains(['.', '[']) =>
            {
                format!("number {number}")
            }
            other => json_type(other).to_owned(),
        };
        self.fail(format!(
            "json: cannot unmarshal {found} into Go struct field {owner}.{} of type {go_type}",
            path.go
        ));
    }

    fn fail(&mut self, error: String) {
        self.error.get_or_insert(error);
    }
}

/// Whether Go omits the value although it is set: an empty list or map.
fn is_empty(schema: &Value, value: &Value) -> bool {
    let has_items = schema.get("items").is_some() || schema.get("additionalProperties").is_some();
    has_items && is_zero(value)
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(value) => value.as_f64() == Some(0.0),
        Value::String(value) => value.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}

fn zero(schema: &Value) -> Value {
    if let Some((component, target)) = type_info::target(schema) {
        return match component.rsplit('.').next() {
            Some("Quantity") => Value::from("0"),
            Some("IntOrString") => Value::from(0),
            Some("Time" | "MicroTime") => Value::Null,
            _ if target.get("properties").is_some() => {
                let mut value = Value::Object(Map::new());
                normalise(component, &mut value);
                value
            }
            _ => Value::Null,
        };
    }
    match schema.get("type").and_then(Value::as_str) {
        Some("string") => Value::from(""),
        Some("boolean") => Value::from(false),
        Some("integer" | "number") => Value::from(0),
        _ => Value::Null,
    }
}

fn normalise_zero(schema: &Value, value: &mut Value) {
    if let (Some((component, _)), Value::Object(_)) = (type_info::target(schema), &*value) {
        normalise(component, value);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::decode;

    #[test]
    fn unknown_fields_are_dropped_and_reported_with_their_paths() {
        let deployments = crate::find("apps", "v1", "deployments").unwrap();
        let mut object = json!({
            "metadata": {"name": "d", "bogus": 1},
            "spec": {"Replicas": 1, "template": {"spec": {
                "containers": [{"name": "c", "env": [{"name": "a", "vv": 1}]}],
                "volumes": [{"name": "v", "configMap": {"x": 1}}],
            }}},
        });
        let unknown = decode(deployments, &mut object).unwrap();
        let expected = [
            r#"unknown field "metadata.bogus""#,
            r#"unknown field "spec.Replicas""#,
            r#"unknown field "spec.template.spec.containers[0].env[0].vv""#,
            r#"unknown field "spec.template.spec.volumes[0].configMap.x""#,
        ];
        assert_eq!(unknown, expected);
        assert!(object["metadata"].get("bogus").is_none());
    }

    #[test]
    fn schemas_inside_schemas_are_not_strict() {
        let definitions =
            crate::find("apiextensions.k8s.io", "v1", "customresourcedefinitions").unwrap();
        let schema = json!({"type": "object", "foo": 1, "properties": {
            "a": {"type": "array", "items": {"type": "object", "bar": 1}},
        }});
        let mut object =
            json!({"spec": {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": schema}}]}});
        let unknown = decode(definitions, &mut object).unwrap();
        assert_eq!(
            unknown,
            [r#"unknown field "spec.versions[0].schema.openAPIV3Schema.foo""#]
        );
        let kept = &object["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["a"];
        assert_eq!(*kept, json!({"type": "array", "items": {"type": "object"}}));
    }
}
