//! Types of data that rules see: what a schema says about JSON values.
//!
//! A type also bounds the size of its values, from which the cost of a rule is estimated.

use std::{collections::BTreeMap, sync::Arc};

/// Bytes of a request; no value is longer.
const MAX_REQUEST: u64 = 3 * 1024 * 1024;
/// Characters of a duration or a point in time, as JSON.
const MAX_TIME: u64 = 32;
const DATE: u64 = 12;

#[derive(Debug)]
pub struct DataType {
    pub(crate) shape: Shape,
    pub(crate) is_nullable: bool,
    /// Bytes of the shortest JSON value.
    min_size: u64,
    /// Most items, entries or characters.
    pub(crate) max_elements: u64,
}

#[derive(Debug)]
pub(crate) enum Shape {
    /// Any JSON value, whose type is known when it is evaluated.
    Any,
    IntOrString,
    Bool,
    Int,
    Double,
    String,
    /// Base64.
    Bytes,
    Duration,
    Date,
    DateTime,
    List {
        items: Arc<DataType>,
        semantics: ListSemantics,
    },
    Map {
        values: Arc<DataType>,
    },
    Object(Object),
}

/// How lists are compared and joined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListSemantics {
    Atomic,
    Set,
    /// Items are identified by these fields.
    Map(Vec<String>),
}

#[derive(Debug)]
pub(crate) struct Object {
    /// By their name in rules.
    pub(crate) fields: BTreeMap<String, Field>,
    /// Whether it is the metadata of an object, which always has a name.
    pub(crate) is_metadata: bool,
}

#[derive(Debug)]
pub(crate) struct Field {
    /// Name in JSON.
    pub(crate) name: String,
    pub(crate) type_: Arc<DataType>,
}

/// A field of an object type.
#[derive(Debug)]
pub struct FieldType {
    pub name: String,
    pub type_: Arc<DataType>,
    /// Whether every object has it in the request.
    pub is_required: bool,
}

impl DataType {
    fn new(shape: Shape, min_size: u64, max_elements: u64) -> Self {
        Self {
            shape,
            is_nullable: false,
            min_size,
            max_elements,
        }
    }

    #[must_use]
    pub fn nullable(self, is_nullable: bool) -> Self {
        Self {
            is_nullable,
            ..self
        }
    }

    pub fn any() -> Self {
        Self::new(Shape::Any, 1, MAX_REQUEST - 2).nullable(true)
    }

    pub fn int_or_string(max_length: Option<u64>) -> Self {
        let max = max_length.map_or(MAX_REQUEST - 2, |max| max.saturating_mul(4));
        Self::new(Shape::IntOrString, 1, max)
    }

    pub fn bool() -> Self {
        Self::new(Shape::Bool, 4, 0)
    }

    pub fn int() -> Self {
        Self::new(Shape::Int, 1, 0)
    }

    pub fn double() -> Self {
        Self::new(Shape::Double, 1, 0)
    }

    /// A string of a format; formats that are no types of their own are ignored. `longest` is the
    /// length of the longest value of an enumeration.
    pub fn string(format: Option<&str>, max_length: Option<u64>, longest: Option<u64>) -> Self {
        match format {
            Some("byte") => Self::new(Shape::Bytes, 2, max_length.unwrap_or(MAX_REQUEST - 2)),
            Some("duration") => Self::new(Shape::Duration, 3, MAX_TIME),
            Some("date") => Self::new(Shape::Date, DATE, DATE),
            Some("date-time") => Self::new(Shape::DateTime, 21, MAX_TIME),
            _ => {
                let max = match (max_length, longest) {
                    // A character has up to four bytes.
                    (Some(max), _) => max.saturating_mul(4),
                    (None, Some(longest)) => longest,
                    (None, None) => MAX_REQUEST - 2,
                };
                Self::new(Shape::String, 2, max)
            }
        }
    }

    pub fn list(items: Arc<Self>, semantics: ListSemantics, max_items: Option<u64>) -> Self {
        let max = max_items.unwrap_or((MAX_REQUEST - 2) / (items.min_size + 1));
        Self::new(Shape::List { items, semantics }, 2, max)
    }

    pub fn map(values: Arc<Self>, max_properties: Option<u64>) -> Self {
        let max = max_properties.unwrap_or((MAX_REQUEST - 2) / (values.min_size + 6));
        Self::new(Shape::Map { values }, 2, max)
    }

    /// An object. Fields whose names cannot be written in rules are not visible.
    pub fn object(fields: Vec<FieldType>) -> Self {
        Self::named(fields, escape)
    }

    /// An object that the server declares itself: its names are not escaped, such as `request.namespace`.
    pub fn declared(fields: Vec<FieldType>) -> Self {
        Self::named(fields, |name| Some(name.to_owned()))
    }

    fn named(fields: Vec<FieldType>, name_in_rules: fn(&str) -> Option<String>) -> Self {
        let mut min_size = 2;
        let mut visible = BTreeMap::new();
        for field in fields {
            if field.is_required {
                min_size += field.name.len() as u64 + field.type_.min_size + 4;
            }
            if let Some(escaped) = name_in_rules(&field.name) {
                let FieldType { name, type_, .. } = field;
                visible.insert(escaped, Field { name, type_ });
            }
        }
        let object = Object {
            fields: visible,
            is_metadata: false,
        };
        Self::new(Shape::Object(object), min_size, 0)
    }

    /// The fields that every object has in rules, whatever its schema says: its type and name.
    pub fn type_and_name() -> Vec<FieldType> {
        let field = |name: &str, type_: &Arc<Self>| FieldType {
            name: name.to_owned(),
            type_: Arc::clone(type_),
            is_required: false,
        };
        let text = Arc::new(Self::string(None, None, None));
        let names = vec![field("name", &text), field("generateName", &text)];
        let mut metadata = Self::object(names);
        if let Shape::Object(object) = &mut metadata.shape {
            object.is_metadata = true;
        }
        let metadata = Arc::new(metadata);
        vec![
            field("apiVersion", &text),
            field("kind", &text),
            field("metadata", &metadata),
        ]
    }

    /// Most values of this type that fit into a request.
    pub fn max_cardinality(&self) -> u64 {
        MAX_REQUEST / (self.min_size + 1)
    }

    /// The type of what a path leads to.
    pub(crate) fn at<'t>(&'t self, path: &[String]) -> Option<&'t Self> {
        path.iter()
            .try_fold(self, |type_, step| match (&type_.shape, step.as_str()) {
                (Shape::List { items, .. }, "@items" | "@values") => Some(&**items),
                (Shape::Map { values }, "@items" | "@values") => Some(&**values),
                (Shape::Map { .. }, "@keys") => Some(&*KEY),
                (Shape::Object(object), name) => object.fields.get(name).map(|field| &*field.type_),
                _ => None,
            })
    }
}

/// Type of the keys of maps. The length of keys is not bounded by a schema, and the server takes it
/// for zero.
static KEY: std::sync::LazyLock<DataType> =
    std::sync::LazyLock::new(|| DataType::new(Shape::String, 2, 0));

/// Words that are escaped as field names.
const RESERVED: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

const ESCAPES: [(&str, &str); 4] = [
    ("__", "__underscores__"),
    (".", "__dot__"),
    ("-", "__dash__"),
    ("/", "__slash__"),
];

/// Name of a field in rules; `None` if rules cannot name it.
pub fn escape(name: &str) -> Option<String> {
    if name.is_empty() || name.starts_with(|first: char| first.is_ascii_digit()) {
        return None;
    }
    if RESERVED.contains(&name) {
        return Some(format!("__{name}__"));
    }
    let mut escaped = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(letter) = rest.chars().next() {
        if let Some((plain, replacement)) =
            ESCAPES.iter().find(|(plain, _)| rest.starts_with(plain))
        {
            escaped.push_str(replacement);
            rest = rest.get(plain.len()..).unwrap_or("");
        } else if letter.is_ascii_alphanumeric() || letter == '_' {
            escaped.push(letter);
            rest = rest.get(1..).unwrap_or("");
        } else {
            return None;
        }
    }
    Some(escaped)
}
