//! OpenAPI schemas and Go type information of built-in kinds, recorded from a real server.

use std::{collections::BTreeMap, sync::LazyLock};

use serde_json::Value;

use crate::Kind;

static COMPONENTS: LazyLock<BTreeMap<String, Value>> = LazyLock::new(|| {
    // Cannot fail: a test parses the file.
    serde_json::from_str(include_str!("type_info/schema.json")).unwrap_or_default()
});

static FIELDS: LazyLock<BTreeMap<&'static str, BTreeMap<&'static str, Field>>> =
    LazyLock::new(|| {
        include_str!("type_info/go.txt")
            .lines()
            .filter_map(read_line)
            .collect()
    });

/// Encoding properties of a field that its schema does not have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Field {
    pub(crate) absent: Absent,
    /// Type name in errors, if the schema does not have it.
    pub(crate) type_name: Option<&'static str>,
    /// Embedded structs, which errors name too.
    pub(crate) inside: Option<&'static str>,
}

/// Encoding of an absent or zero value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Absent {
    /// Omitted: a pointer, or a list or map with omitempty.
    #[default]
    Unwritten,
    /// `name-`: zero values are omitted too.
    ZeroUnwritten,
    /// `name?`: `null`.
    Null,
    /// `name~`: the zero value.
    Zero,
}

fn read_line(line: &'static str) -> Option<(&'static str, BTreeMap<&'static str, Field>)> {
    let (component, fields) = line.split_once(' ')?;
    let fields = fields.split(' ').map(|field| {
        let split = |text: &'static str, mark: char| match text.split_once(mark) {
            Some((text, rest)) => (text, Some(rest)),
            None => (text, None),
        };
        let (field, inside) = split(field, '@');
        let (field, type_name) = split(field, '=');
        let name = field.trim_end_matches(['-', '?', '~']);
        let absent = match field.as_bytes().last() {
            Some(b'-') => Absent::ZeroUnwritten,
            Some(b'?') => Absent::Null,
            Some(b'~') => Absent::Zero,
            _ => Absent::Unwritten,
        };
        (
            name,
            Field {
                absent,
                type_name,
                inside,
            },
        )
    });
    Some((component, fields.collect()))
}

/// Without descriptions.
pub fn schema(kind: &Kind) -> &'static Value {
    component(kind.component).unwrap_or(&Value::Null)
}

/// Such as `io.k8s.api.core.v1.PodSpec`.
pub fn component(name: &str) -> Option<&'static Value> {
    COMPONENTS.get(name)
}

pub(crate) fn referred(reference: &str) -> Option<(&'static str, &'static Value)> {
    let name = reference.strip_prefix("#/components/schemas/")?;
    COMPONENTS
        .get_key_value(name)
        .map(|(name, schema)| (name.as_str(), schema))
}

/// Component of a schema with `$ref`, or `allOf` with one `$ref`.
pub(crate) fn target(schema: &Value) -> Option<(&'static str, &'static Value)> {
    let reference = schema
        .get("$ref")
        .or_else(|| schema.get("allOf")?.get(0)?.get("$ref"))?;
    referred(reference.as_str()?)
}

pub(crate) fn field(component: &str, name: &str) -> Field {
    let fields = FIELDS.get(component);
    fields
        .and_then(|fields| fields.get(name))
        .copied()
        .unwrap_or_default()
}

/// Fields that are written even if unset.
pub(crate) fn written_when_absent(component: &str) -> impl Iterator<Item = (&'static str, Absent)> {
    FIELDS
        .get(component)
        .into_iter()
        .flatten()
        .filter(|(_, field)| matches!(field.absent, Absent::Null | Absent::Zero))
        .map(|(name, field)| (*name, field.absent))
}
