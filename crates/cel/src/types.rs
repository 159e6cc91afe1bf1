//! Static types of expressions.

use std::{fmt, sync::Arc};

use crate::data_type::{DataType, Shape};

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Type {
    Dyn,
    /// Type of a part with an error.
    Error,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    Timestamp,
    Duration,
    List(Arc<Type>),
    Map(Arc<(Type, Type)>),
    /// Type of a type.
    Type(Option<Arc<Type>>),
    /// Type parameter of a declaration, or a free variable of the checker.
    Parameter(Parameter),
    Struct(Struct),
    /// Type with parameters of its own, such as `optional_type(int)`.
    Opaque(&'static str, Vec<Type>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parameter {
    Declared(char),
    Free(u32),
}

/// An object type; types of one name are the same.
#[derive(Clone, Debug)]
pub(crate) struct Struct {
    pub(crate) name: Arc<str>,
    pub(crate) data: Option<Arc<DataType>>,
}

impl PartialEq for Struct {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

pub(crate) const OPTIONAL: &str = "optional_type";

impl Type {
    pub(crate) fn list(items: Self) -> Self {
        Self::List(Arc::new(items))
    }

    pub(crate) fn map(keys: Self, values: Self) -> Self {
        Self::Map(Arc::new((keys, values)))
    }

    pub(crate) fn optional(value: Self) -> Self {
        Self::Opaque(OPTIONAL, vec![value])
    }

    pub(crate) fn named(name: &str) -> Self {
        Self::Struct(Struct {
            name: name.into(),
            data: None,
        })
    }

    /// Type of data; `name` is that of objects.
    pub(crate) fn of(data: &Arc<DataType>, name: &str) -> Self {
        match &data.shape {
            Shape::Any | Shape::IntOrString => Self::Dyn,
            Shape::Bool => Self::Bool,
            Shape::Int => Self::Int,
            Shape::Double => Self::Double,
            Shape::String => Self::String,
            Shape::Bytes => Self::Bytes,
            Shape::Duration => Self::Duration,
            Shape::Date | Shape::DateTime => Self::Timestamp,
            Shape::List { items, .. } => Self::list(Self::of(items, &format!("{name}.@idx"))),
            Shape::Map { values } => {
                Self::map(Self::String, Self::of(values, &format!("{name}.@elem")))
            }
            Shape::Object(_) => Self::Struct(Struct {
                name: name.into(),
                data: Some(Arc::clone(data)),
            }),
        }
    }

    pub(crate) fn is_dyn(&self) -> bool {
        matches!(self, Self::Dyn)
    }

    pub(crate) fn is_dyn_or_error(&self) -> bool {
        matches!(self, Self::Dyn | Self::Error)
    }

    /// The inner type of an optional.
    pub(crate) fn of_optional(&self) -> Option<&Self> {
        match self {
            Self::Opaque(OPTIONAL, inner) => inner.first(),
            _ => None,
        }
    }

    pub(crate) fn same_kind(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Opaque(one, _), Self::Opaque(other, _)) => one == other,
            _ => std::mem::discriminant(self) == std::mem::discriminant(other),
        }
    }

    /// Parameters of the type.
    pub(crate) fn parameters(&self) -> Vec<&Self> {
        match self {
            Self::List(items) => vec![items],
            Self::Map(entry) => vec![&entry.0, &entry.1],
            Self::Type(inner) => inner.as_deref().into_iter().collect(),
            Self::Opaque(_, inner) => inner.iter().collect(),
            _ => Vec::new(),
        }
    }

    /// Name without parameters, as `type()` and errors of functions print it.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Null => "null_type".to_owned(),
            Self::Timestamp => "google.protobuf.Timestamp".to_owned(),
            Self::Duration => "google.protobuf.Duration".to_owned(),
            Self::List(_) => "list".to_owned(),
            Self::Map(_) => "map".to_owned(),
            Self::Type(_) => "type".to_owned(),
            Self::Opaque(name, _) => (*name).to_owned(),
            other => other.to_string(),
        }
    }
}

/// As errors show types.
impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Self::Dyn => "dyn",
            Self::Error => "!error!",
            Self::Null => "null",
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Uint => "uint",
            Self::Double => "double",
            Self::String => "string",
            Self::Bytes => "bytes",
            Self::Timestamp => "timestamp",
            Self::Duration => "duration",
            Self::List(_) => "list",
            Self::Map(_) => "map",
            Self::Type(_) => "type",
            Self::Parameter(Parameter::Declared(name)) => return write!(f, "{name}"),
            Self::Parameter(Parameter::Free(number)) => return write!(f, "_var{number}"),
            Self::Struct(object) => &object.name,
            Self::Opaque(name, _) => name,
        };
        f.write_str(name)?;
        let parameters = self.parameters();
        if parameters.is_empty() {
            return Ok(());
        }
        f.write_str("(")?;
        for (index, parameter) in parameters.into_iter().enumerate() {
            let separator = if index > 0 { ", " } else { "" };
            write!(f, "{separator}{parameter}")?;
        }
        f.write_str(")")
    }
}
