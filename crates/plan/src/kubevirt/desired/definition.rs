//! CustomResourceDefinitions as text. Their schemas are most of a release and are never changed, so
//! they are copied without parsing.

use serde::Deserialize;
use serde_json::{Map, Value, value::RawValue};

use crate::kubevirt::object::Object;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Definition<'a> {
    api_version: Value,
    kind: Value,
    metadata: Value,
    #[serde(borrow)]
    spec: &'a RawValue,
}

/// Parses an object; the spec of a definition is returned as text.
pub(super) fn open(object: &Object) -> (Value, Option<&str>) {
    if object
        .id
        .is("apiextensions.k8s.io", "CustomResourceDefinition")
        && let Ok(definition) = serde_json::from_str::<Definition<'_>>(object.text())
        && !definition.spec.get().contains("null")
    {
        let Definition {
            api_version,
            kind,
            metadata,
            spec,
        } = definition;
        let fields = [
            ("apiVersion", api_version),
            ("kind", kind),
            ("metadata", metadata),
        ];
        let fields = fields.map(|(name, value)| (name.to_owned(), value));
        return (Value::Object(Map::from_iter(fields)), Some(spec.get()));
    }
    (object.value(), None)
}

/// The object of a value and the text of its spec.
pub(super) fn close(object: &Object, value: &Value, spec: &str) -> Object {
    let mut text = value.to_string();
    text.pop();
    text.push_str(",\"spec\":");
    text.push_str(spec);
    text.push('}');
    Object::from_text(object.id.clone(), object.version.clone(), &text)
}
