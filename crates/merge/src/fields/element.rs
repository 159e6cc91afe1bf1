//! Path elements: from a value to a part of it.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use crate::go;
use crate::ordered::Ordered;

/// Path from a value to a part of it. Ordered as the server sorts them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PathElement(Step);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Field(Arc<str>),
    Key(Vec<(String, Ordered)>),
    Value(Ordered),
    Index(i64),
}

/// Why a key of a `fieldsV1` map is not a path element.
pub(super) enum NotAnElement {
    /// Of a type that a newer server may write: skipped.
    Unknown,
    /// Not valid.
    Malformed(String),
}

impl PathElement {
    /// A field of a map (`f:`).
    pub fn field(name: impl AsRef<str>) -> Self {
        Self(Step::Field(name.as_ref().into()))
    }

    /// The item of a list that has these fields (`k:`).
    pub fn key(fields: impl IntoIterator<Item = (String, Value)>) -> Self {
        let mut fields: Vec<_> = fields
            .into_iter()
            .map(|(name, value)| (name, Ordered(value)))
            .collect();
        fields.sort_by(|left, right| left.0.cmp(&right.0));
        Self(Step::Key(fields))
    }

    /// The item of a set that is this value (`v:`).
    pub fn value(value: Value) -> Self {
        Self(Step::Value(Ordered(value)))
    }

    /// The item of a list at this index (`i:`).
    pub fn index(index: i64) -> Self {
        Self(Step::Index(index))
    }

    /// The name, if this is a field of a map.
    pub fn field_name(&self) -> Option<&str> {
        match &self.0 {
            Step::Field(name) => Some(name),
            _ => None,
        }
    }

    /// Whether this is the item of a list by its key fields.
    pub(crate) fn is_key(&self) -> bool {
        matches!(self.0, Step::Key(_))
    }

    /// As a key of a `fieldsV1` map.
    pub(super) fn to_wire(&self) -> String {
        match &self.0 {
            Step::Field(name) => format!("f:{name}"),
            Step::Key(fields) => {
                let fields: Vec<_> = fields
                    .iter()
                    .map(|(name, Ordered(value))| {
                        format!("{}:{}", Value::from(name.as_str()), wire_value(value))
                    })
                    .collect();
                format!("k:{{{}}}", fields.join(","))
            }
            Step::Value(Ordered(value)) => format!("v:{}", wire_value(value)),
            Step::Index(index) => format!("i:{index}"),
        }
    }

    /// From a key of a `fieldsV1` map.
    pub(super) fn from_wire(text: &str) -> Result<Self, NotAnElement> {
        let malformed = |reason: String| NotAnElement::Malformed(reason);
        if text.len() < 2 {
            return Err(malformed("key must be 2 characters long:".to_owned()));
        }
        let (kind, content) = match text.split_at_checked(2) {
            Some((kind, content)) if kind.ends_with(':') => (kind, content),
            _ => return Err(malformed(format!("missing colon: {text}"))),
        };
        match kind {
            "f:" => Ok(Self::field(content)),
            "v:" => serde_json::from_str(content)
                .map(Self::value)
                .map_err(|error| malformed(error.to_string())),
            "k:" => serde_json::from_str::<serde_json::Map<String, Value>>(content)
                .map(Self::key)
                .map_err(|error| malformed(error.to_string())),
            "i:" => content
                .parse()
                .map(Self::index)
                .map_err(|_| malformed(format!("not an index: {content}"))),
            _ => Err(NotAnElement::Unknown),
        }
    }
}

fn wire_value(value: &Value) -> String {
    match value {
        Value::Number(number) => go::number(number),
        other => other.to_string(),
    }
}

/// As in the server's messages: `.spec`, `[name="a"]`, `[="value"]`, `[0]`.
impl fmt::Display for PathElement {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Step::Field(name) => write!(formatter, ".{name}"),
            Step::Key(fields) => {
                formatter.write_str("[")?;
                for (index, (name, Ordered(value))) in fields.iter().enumerate() {
                    let separator = if index == 0 { "" } else { "," };
                    write!(formatter, "{separator}{name}={}", shown(value))?;
                }
                formatter.write_str("]")
            }
            Step::Value(Ordered(value)) => write!(formatter, "[={}]", shown(value)),
            Step::Index(index) => write!(formatter, "[{index}]"),
        }
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::String(text) => go::quote(text),
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(shown).collect();
            format!("[{}]", items.join(","))
        }
        Value::Object(map) => {
            let fields: Vec<_> = map
                .iter()
                .map(|(key, value)| format!("{key}={}", shown(value)))
                .collect();
            fields.concat()
        }
        other => go::plain(other),
    }
}

/// Path from an object to one of its fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Path(pub Vec<PathElement>);

impl Path {
    /// Path of fields of maps.
    pub fn of_fields<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        Self(names.into_iter().map(PathElement::field).collect())
    }
}

impl PartialOrd for Path {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Path {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.cmp(&other.0)
    }
}

impl fmt::Display for Path {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|element| element.fmt(formatter))
    }
}
