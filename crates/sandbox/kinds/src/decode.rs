//! Objects as a Go server reads and writes them.
//!
//! [`decode`] does in one pass what decoding into a Go struct and encoding it again does: fields
//! that the kind does not have are dropped and named, a value of the wrong type is refused in the
//! decoder's words, `null` is as good as absent, and what is written is what Go writes: zero values
//! left out or put in as the field's tag says, quantities in canonical form, times in UTC.

mod scalar;

use apimachinery::go::json_type;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Map, Value};

use crate::{
    Kind,
    type_info::{self, Absent},
};

/// Brings `object` into the form in which the server keeps it. Gives the fields that it does not
/// know, as `unknown field "spec.replica"`, or why it cannot be decoded: the text of a 400.
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
        &Place::root(),
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

/// `stringData` is a way to write `data`, and is never read back.
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

/// Writes `object`, which is right for the component, as Go would: for objects that did not come
/// from a client, such as a status that an actor has made.
pub(crate) fn normalise(component: &str, object: &mut Value) {
    let mut unknown = Vec::new();
    let mut decoder = Decoder {
        unknown: &mut unknown,
        error: None,
    };
    if let (Some(schema), Value::Object(fields)) = (type_info::component(component), object) {
        decoder.fields(component, schema, fields, &Place::root());
    }
}

/// Where the decoder is: with indices and keys for unknown fields, and as a stack of Go fields for
/// wrong types.
struct Place {
    path: String,
    go: String,
}

impl Place {
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

    /// The same place, where errors also name the embedded structs that the field is in.
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
    /// The first error: Go goes on after it, and reports only that one.
    error: Option<String>,
}

/// The field that is being read: its struct, and the name of its type where the schema has none.
#[derive(Clone, Copy)]
struct Holder<'a> {
    component: &'a str,
    type_name: Option<&'static str>,
}

impl Decoder<'_> {
    fn fields(
        &mut self,
        component: &str,
        schema: &Value,
        fields: &mut Map<String, Value>,
        place: &Place,
    ) {
        let properties = schema.get("properties").and_then(Value::as_object);
        let names: Vec<String> = fields.keys().cloned().collect();
        for name in names {
            let place = place.field(&name);
            let Some(property) = properties.and_then(|known| known.get(&name)) else {
                fields.remove(&name);
                self.unknown.push(format!("unknown field {:?}", place.path));
                continue;
            };
            let Some(value) = fields.get_mut(&name) else {
                continue;
            };
            let field = type_info::field(component, &name);
            let place = place.embedded(field.inside, &name);
            let holder = Holder {
                component,
                type_name: field.type_name,
            };
            if !value.is_null() {
                self.value(property, value, holder, &place);
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

    fn value(&mut self, schema: &Value, value: &mut Value, holder: Holder<'_>, place: &Place) {
        if let Some((component, target)) = type_info::target(schema) {
            return self.component(component, target, value, holder, place);
        }
        match schema.get("type").and_then(Value::as_str) {
            Some("array") => self.list(schema, value, holder, place),
            Some("object") => self.map(schema, value, holder, place),
            Some(_) => self.scalar(schema, value, holder, place),
            None => {}
        }
    }

    fn component(
        &mut self,
        component: &str,
        schema: &Value,
        value: &mut Value,
        holder: Holder<'_>,
        place: &Place,
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
                // It decodes itself, and says nothing of fields that it does not know.
                let known = self.unknown.len();
                if let Some(schema) = type_info::component(one) {
                    self.fields(one, schema, fields, place);
                }
                self.unknown.truncate(known);
            }
            // These stand for several shapes, of which the schema tells none.
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
                self.fields(component, schema, fields, place);
            }
            (_, Value::Object(_))
                if schema.get("type").and_then(Value::as_str) == Some("object") => {}
            _ => {
                let wanted = scalar::component_type(component);
                self.mismatch(value, &wanted, holder, place);
            }
        }
    }

    fn list(&mut self, schema: &Value, value: &mut Value, holder: Holder<'_>, place: &Place) {
        let Value::Array(items) = value else {
            let wanted = scalar::type_name(schema, holder.type_name);
            return self.mismatch(value, &wanted, holder, place);
        };
        let Some(item_schema) = schema.get("items") else {
            return;
        };
        for (index, item) in items.iter_mut().enumerate() {
            if item.is_null() {
                *item = zero(item_schema);
                normalise_zero(item_schema, item);
            } else {
                self.value(item_schema, item, holder, &place.item(index));
            }
        }
    }

    fn map(&mut self, schema: &Value, value: &mut Value, holder: Holder<'_>, place: &Place) {
        let Value::Object(entries) = value else {
            let wanted = scalar::type_name(schema, holder.type_name);
            return self.mismatch(value, &wanted, holder, place);
        };
        let Some(entry_schema) = schema.get("additionalProperties") else {
            return;
        };
        for (key, entry) in entries.iter_mut() {
            if entry.is_null() {
                *entry = zero(entry_schema);
            } else {
                self.value(entry_schema, entry, holder, &place.entry(key));
            }
        }
    }

    fn scalar(&mut self, schema: &Value, value: &mut Value, holder: Holder<'_>, place: &Place) {
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
            let wanted = scalar::type_name(schema, holder.type_name);
            return self.mismatch(value, &wanted, holder, place);
        }
        if format == "byte"
            && let Err(error) = scalar::base64(value)
        {
            self.fail(error);
        }
    }

    fn mismatch(&mut self, value: &Value, wanted: &str, holder: Holder<'_>, place: &Place) {
        let owner = holder.component.rsplit('.').next().unwrap_or_default();
        let found = match value {
            Value::Number(number) if !wanted.contains("string") && !wanted.contains(['.', '[']) => {
                format!("number {number}")
            }
            other => json_type(other).to_owned(),
        };
        self.fail(format!(
            "json: cannot unmarshal {found} into Go struct field {owner}.{} of type {wanted}",
            place.go
        ));
    }

    fn fail(&mut self, error: String) {
        self.error.get_or_insert(error);
    }
}

/// Whether Go leaves the value out although it is there: an empty list or map.
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

/// The zero value of a type, as Go writes it.
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
    fn unknown_fields_are_dropped_and_named_with_their_places() {
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
