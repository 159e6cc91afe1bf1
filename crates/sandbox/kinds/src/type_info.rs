//! The shapes of built-in kinds, recorded from a real server and read when they are first needed.

use std::{collections::BTreeMap, sync::LazyLock};

use serde_json::Value;

use crate::Kind;

static COMPONENTS: LazyLock<BTreeMap<String, Value>> = LazyLock::new(|| {
    // A test reads the file; it cannot be broken at run time.
    serde_json::from_str(include_str!("type_info/schema.json")).unwrap_or_default()
});

static FIELDS: LazyLock<BTreeMap<&'static str, BTreeMap<&'static str, Field>>> =
    LazyLock::new(|| {
        include_str!("type_info/go.txt")
            .lines()
            .filter_map(read_line)
            .collect()
    });

/// What a Go server does with a field beyond what its schema says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Field {
    pub(crate) absent: Absent,
    /// The name of its type in errors, where the schema does not tell.
    pub(crate) type_name: Option<&'static str>,
    /// The embedded structs that it is in, which errors name too.
    pub(crate) inside: Option<&'static str>,
}

/// What is written for a field that is not set, or is set to the zero value of its type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Absent {
    /// A pointer, or a list or map that is left out when it is empty.
    #[default]
    Unwritten,
    /// `name-`: the zero value is not written either.
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

/// The component schema of a kind, without descriptions.
pub fn schema(kind: &Kind) -> &'static Value {
    component(kind.component).unwrap_or(&Value::Null)
}

/// An OpenAPI component by its name, such as `io.k8s.api.core.v1.PodSpec`.
pub fn component(name: &str) -> Option<&'static Value> {
    COMPONENTS.get(name)
}

/// The component that a `$ref` names.
pub(crate) fn referred(reference: &str) -> Option<(&'static str, &'static Value)> {
    let name = reference.strip_prefix("#/components/schemas/")?;
    COMPONENTS
        .get_key_value(name)
        .map(|(name, schema)| (name.as_str(), schema))
}

/// The component that a schema stands for, by `$ref` or by `allOf` with one.
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

/// The fields of a component that are written even when they are not set.
pub(crate) fn written_when_absent(component: &str) -> impl Iterator<Item = (&'static str, Absent)> {
    FIELDS
        .get(component)
        .into_iter()
        .flatten()
        .filter(|(_, field)| matches!(field.absent, Absent::Null | Absent::Zero))
        .map(|(name, field)| (*name, field.absent))
}
