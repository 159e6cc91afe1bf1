//! Values of expressions.
//!
//! Data stay JSON: a list or an object of a request is a view on it with its type, and its parts are
//! converted when a rule looks at them.

mod data;
mod equality;
mod print;

use std::{collections::BTreeMap, fmt, net::IpAddr, ops::Deref, sync::Arc};

pub use data::{DataList, DataMap};
pub(crate) use print::{double as shown_double, go_exponent, go_type as shown_go_type};
use quantity::Quantity;
use serde_json::Value as Json;

use crate::{
    data_type::DataType,
    functions::{semver::Version, time::Time, url::Url},
    types::Type,
};

/// Error of an evaluation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    message: Arc<str>,
}

impl Error {
    pub(crate) fn new(message: impl AsRef<str>) -> Self {
        Self {
            message: message.as_ref().into(),
        }
    }

    pub(crate) fn no_such_overload() -> Self {
        Self::new("no such overload")
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

pub(crate) type Result<T> = std::result::Result<T, Error>;

#[derive(Clone, Debug)]
pub enum Value<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(Text<'a>),
    Bytes(Arc<[u8]>),
    /// Nanoseconds.
    Duration(i64),
    Timestamp(Time),
    #[doc(hidden)]
    Type(TypeValue),
    List(List<'a>),
    Map(Map<'a>),
    Optional(Option<Arc<Value<'a>>>),
    #[doc(hidden)]
    Special(Special),
}

/// Values of types that Kubernetes adds.
#[derive(Clone, Debug)]
#[doc(hidden)]
pub enum Special {
    Quantity(Quantity),
    Semver(Arc<Version>),
    Url(Arc<Url>),
    Ip(IpAddr),
    Cidr(IpAddr, u8),
    Format(&'static NamedFormat),
}

/// A format that rules validate strings with: `format.named('uuid').value().validate(self)`.
#[derive(Debug)]
pub struct NamedFormat {
    /// Name in rules.
    pub name: &'static str,
    /// What is wrong with a text.
    pub validate: fn(&str) -> Vec<String>,
    /// Length of the expression that the server validates with, from which the cost is estimated.
    pub pattern_length: u64,
}

/// Name of a type as a value.
#[derive(Clone, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub struct TypeValue(pub(crate) Arc<str>);

/// A string.
#[derive(Clone, Debug)]
pub enum Text<'a> {
    #[doc(hidden)]
    Borrowed(&'a str),
    #[doc(hidden)]
    Shared(Arc<str>),
}

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Self::Borrowed(text) => text,
            Self::Shared(text) => text,
        }
    }
}

#[derive(Clone, Debug)]
#[doc(hidden)]
pub enum List<'a> {
    Plain(Arc<Vec<Value<'a>>>),
    Data(DataList<'a>),
}

#[derive(Clone, Debug)]
#[doc(hidden)]
pub enum Map<'a> {
    Plain(Arc<BTreeMap<Key, Value<'a>>>),
    Data(DataMap<'a>),
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[doc(hidden)]
pub enum Key {
    Bool(bool),
    Int(i64),
    Uint(u64),
    String(Arc<str>),
}

impl<'a> Value<'a> {
    /// Data of a type.
    pub fn of(data: &'a Json, type_: &'a DataType) -> std::result::Result<Self, Error> {
        data::to_value(data, type_)
    }

    /// An optional value, as `oldSelf` is.
    pub fn optional(value: Option<Self>) -> Self {
        Self::Optional(value.map(Arc::new))
    }

    pub(crate) fn text(text: impl Into<Arc<str>>) -> Self {
        Self::String(Text::Shared(text.into()))
    }

    pub(crate) fn list(items: Vec<Self>) -> Self {
        Self::List(List::Plain(Arc::new(items)))
    }

    /// Number of characters, bytes, items or entries; `None` for values without a size.
    pub(crate) fn size(&self) -> Option<usize> {
        Some(match self {
            Self::String(text) => text.chars().count(),
            Self::Bytes(bytes) => bytes.len(),
            Self::List(list) => list.len(),
            Self::Map(map) => map.len(),
            Self::Special(Special::Ip(IpAddr::V4(_))) => 4,
            Self::Special(Special::Ip(IpAddr::V6(_))) => 16,
            Self::Special(Special::Cidr(_, bits)) => usize::from(*bits).div_ceil(8),
            _ => return None,
        })
    }

    /// Name of the type that the value has.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "null_type",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Uint(_) => "uint",
            Self::Double(_) => "double",
            Self::String(_) => "string",
            Self::Bytes(_) => "bytes",
            Self::Duration(_) => "google.protobuf.Duration",
            Self::Timestamp(_) => "google.protobuf.Timestamp",
            Self::Type(_) => "type",
            Self::List(_) => "list",
            Self::Map(_) => "map",
            Self::Optional(_) => "optional_type",
            Self::Special(special) => match special {
                Special::Quantity(_) => "kubernetes.Quantity",
                Special::Semver(_) => "kubernetes.Semver",
                Special::Url(_) => "kubernetes.URL",
                Special::Ip(_) => "net.IP",
                Special::Cidr(..) => "net.CIDR",
                Special::Format(_) => "kubernetes.NamedFormat",
            },
        }
    }

    pub(crate) fn type_value(&self) -> Self {
        Self::Type(TypeValue(self.type_name().into()))
    }

    pub(crate) fn of_type(type_: &Type) -> Value<'static> {
        Value::Type(TypeValue(type_.name().into()))
    }

    /// As messages show a value.
    pub(crate) fn shown(&self) -> String {
        print::shown(self)
    }

    /// Whether it is the value that a field has before it is set.
    pub(crate) fn is_zero(&self) -> bool {
        match self {
            Self::Null => true,
            Self::Bool(value) => !value,
            Self::Int(value) | Self::Duration(value) => *value == 0,
            Self::Uint(value) => *value == 0,
            Self::Double(value) => *value == 0.0,
            // Lists and objects of a request have no such value.
            Self::Timestamp(_)
            | Self::Type(_)
            | Self::Special(_)
            | Self::List(List::Data(_))
            | Self::Map(Map::Data(_)) => false,
            Self::Optional(value) => value.is_none(),
            _ => self.size() == Some(0),
        }
    }
}

impl<'a> List<'a> {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Plain(items) => items.len(),
            Self::Data(list) => list.len(),
        }
    }

    pub(crate) fn get(&self, index: usize) -> Option<Result<Value<'a>>> {
        match self {
            Self::Plain(items) => items.get(index).cloned().map(Ok),
            Self::Data(list) => list.get(index),
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Result<Value<'a>>> {
        (0..self.len()).filter_map(|index| self.get(index))
    }

    pub(crate) fn values(&self) -> Result<Vec<Value<'a>>> {
        self.iter().collect()
    }

    pub(crate) fn joined(&self, other: &Self) -> Result<Self> {
        match self {
            Self::Data(list) => Ok(Self::Data(list.joined(other)?)),
            Self::Plain(_) if self.len() == 0 => Ok(other.clone()),
            Self::Plain(items) => {
                let mut joined = Vec::with_capacity(items.len() + other.len());
                joined.extend(items.iter().cloned());
                joined.extend(other.values()?);
                Ok(Self::Plain(Arc::new(joined)))
            }
        }
    }

    /// Whether an item equals a value.
    pub(crate) fn contains(&self, value: &Value<'_>) -> Result<bool> {
        let mut failed = None;
        for item in self.iter() {
            match item.and_then(|item| item.equals(value)) {
                Ok(true) => return Ok(true),
                Ok(false) => {}
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        failed.map_or(Ok(false), Err)
    }
}

impl<'a> Map<'a> {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Plain(entries) => entries.len(),
            Self::Data(map) => map.len(),
        }
    }

    /// Value of a key.
    pub(crate) fn find(&self, key: &Value<'_>) -> Result<Option<Value<'a>>> {
        match self {
            Self::Data(map) => match key {
                Value::String(key) => map.find(key).transpose(),
                _ => Err(Error::no_such_overload()),
            },
            Self::Plain(entries) => {
                let found = Key::of(key).and_then(|key| entries.get(&key));
                Ok(found.cloned())
            }
        }
    }

    pub(crate) fn find_text(&self, key: &str) -> Result<Option<Value<'a>>> {
        match self {
            Self::Data(map) => map.find(key).transpose(),
            Self::Plain(entries) => Ok(entries.get(&Key::String(key.into())).cloned()),
        }
    }

    pub(crate) fn keys(&self) -> Vec<Value<'a>> {
        match self {
            Self::Plain(entries) => entries.keys().map(Key::value).collect(),
            Self::Data(map) => map.keys().into_iter().map(Value::text).collect(),
        }
    }
}

impl Key {
    /// The key that a value stands for; numbers of all types are the same key if they are equal.
    pub(crate) fn of(value: &Value<'_>) -> Option<Self> {
        Some(match value {
            Value::Bool(value) => Self::Bool(*value),
            Value::Int(value) => Self::Int(*value),
            Value::Uint(value) => i64::try_from(*value).map_or(Self::Uint(*value), Self::Int),
            #[expect(
                clippy::cast_possible_truncation,
                reason = "only whole numbers in the range are keys"
            )]
            Value::Double(value) if value.fract() == 0.0 && value.abs() < 9.2e18 => {
                Self::Int(*value as i64)
            }
            Value::String(text) => Self::String(match text {
                Text::Shared(text) => Arc::clone(text),
                Text::Borrowed(text) => (*text).into(),
            }),
            _ => return None,
        })
    }

    pub(crate) fn value<'a>(&self) -> Value<'a> {
        match self {
            Self::Bool(value) => Value::Bool(*value),
            Self::Int(value) => Value::Int(*value),
            Self::Uint(value) => Value::Uint(*value),
            Self::String(text) => Value::String(Text::Shared(Arc::clone(text))),
        }
    }
}
