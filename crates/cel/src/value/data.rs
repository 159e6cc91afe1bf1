//! JSON values as values of expressions, by their type.

use std::{borrow::Cow, sync::Arc};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Map as JsonMap, Value as Json};

use super::{Error, List, Map, Result, Text, Value};
use crate::{
    data_type::{DataType, ListSemantics, Object, Shape, escape},
    functions::time,
};

/// A list of a request, perhaps with items that an expression added.
#[derive(Clone, Debug)]
#[doc(hidden)]
pub struct DataList<'a> {
    own: &'a [Json],
    added: Arc<Vec<Item<'a>>>,
    /// `None` for the items of a list whose type is not known.
    type_: &'a DataType,
}

/// Item that an expression added or replaced.
#[derive(Clone, Debug)]
enum Item<'a> {
    Json(&'a Json),
    Value(Value<'a>),
}

/// An object or map of a request.
#[derive(Clone, Copy, Debug)]
#[doc(hidden)]
pub struct DataMap<'a> {
    fields: &'a JsonMap<String, Json>,
    type_: &'a DataType,
}

/// Type in Go of a JSON value, as errors name it.
fn go_type(data: &Json) -> &'static str {
    match data {
        Json::Null => "<nil>",
        Json::Bool(_) => "bool",
        Json::Number(number) if number.is_i64() => "int64",
        Json::Number(_) => "float64",
        Json::String(_) => "string",
        Json::Array(_) => "[]interface {}",
        Json::Object(_) => "map[string]interface {}",
    }
}

fn invalid(expected: &str, data: &Json) -> Error {
    Error::new(format!(
        "invalid data, expected {expected}, got {}",
        go_type(data)
    ))
}

#[expect(clippy::cast_precision_loss, reason = "as the server converts it")]
pub(super) fn to_value<'a>(data: &'a Json, type_: &'a DataType) -> Result<Value<'a>> {
    if data.is_null() {
        return if type_.is_nullable {
            Ok(Value::Null)
        } else {
            Err(Error::new(
                "invalid data, got null for schema with nullable=false",
            ))
        };
    }
    Ok(match (&type_.shape, data) {
        (Shape::Any, _) => untyped(data, type_),
        (Shape::IntOrString | Shape::String, Json::String(text)) => {
            Value::String(Text::Borrowed(text))
        }
        (Shape::IntOrString | Shape::Int, Json::Number(number)) => match number.as_i64() {
            Some(number) => Value::Int(number),
            // A whole number with a decimal point.
            None => return whole(number.as_f64(), data),
        },
        (Shape::IntOrString, _) => {
            return Err(Error::new(
                "invalid data, expected XIntOrString value to be either a string or integer",
            ));
        }
        (Shape::Int, _) => return Err(invalid("int", data)),
        (Shape::Double, Json::Number(number)) => match number.as_i64() {
            Some(number) => Value::Double(number as f64),
            None => Value::Double(number.as_f64().unwrap_or(f64::NAN)),
        },
        (Shape::Double, _) => return Err(invalid("float", data)),
        (Shape::Bool, Json::Bool(value)) => Value::Bool(*value),
        (Shape::Bool, _) => return Err(invalid("bool", data)),
        (Shape::Bytes, Json::String(text)) => {
            let bytes = STANDARD.decode(text).map_err(|error| {
                Error::new(format!("Invalid byte formatted string {text}: {error}"))
            })?;
            Value::Bytes(bytes.into())
        }
        (Shape::Duration, Json::String(text)) => time::parse_data_duration(text)
            .map(Value::Duration)
            .ok_or_else(|| Error::new(format!("Invalid duration {text}: unable to parse")))?,
        (Shape::Date, Json::String(text)) => time::parse_timestamp(&format!("{text}T00:00:00Z"))
            .flatten()
            .map(Value::Timestamp)
            .ok_or_else(|| Error::new(format!("Invalid date formatted string {text}")))?,
        (Shape::DateTime, Json::String(text)) => time::parse_data_timestamp(text)
            .map(Value::Timestamp)
            .ok_or_else(|| Error::new(format!("Invalid date-time formatted string {text}")))?,
        (Shape::String | Shape::Bytes | Shape::Duration | Shape::Date | Shape::DateTime, _) => {
            return Err(invalid("string", data));
        }
        (Shape::List { .. }, Json::Array(items)) => {
            Value::List(List::Data(DataList::new(items, type_)))
        }
        (Shape::List { .. }, _) => {
            return Err(Error::new(
                "invalid data, expected an array for the provided schema with type=array",
            ));
        }
        (Shape::Map { .. } | Shape::Object(_), Json::Object(fields)) => {
            Value::Map(Map::Data(DataMap { fields, type_ }))
        }
        (Shape::Map { .. } | Shape::Object(_), _) => {
            return Err(Error::new(
                "invalid data, expected a map for the provided schema with type=object",
            ));
        }
    })
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the schema says that it is whole"
)]
fn whole<'a>(number: Option<f64>, data: &Json) -> Result<Value<'a>> {
    match number {
        Some(number) if number.fract() == 0.0 => Ok(Value::Int(number as i64)),
        _ => Err(invalid("int", data)),
    }
}

fn untyped<'a>(data: &'a Json, type_: &'a DataType) -> Value<'a> {
    match data {
        Json::Null => Value::Null,
        Json::Bool(value) => Value::Bool(*value),
        Json::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(number), _) => Value::Int(number),
            (None, Some(number)) => Value::Uint(number),
            (None, None) => Value::Double(number.as_f64().unwrap_or(f64::NAN)),
        },
        Json::String(text) => Value::String(Text::Borrowed(text)),
        Json::Array(items) => Value::List(List::Data(DataList::new(items, type_))),
        Json::Object(fields) => Value::Map(Map::Data(DataMap { fields, type_ })),
    }
}

impl<'a> DataList<'a> {
    fn new(own: &'a [Json], type_: &'a DataType) -> Self {
        Self {
            own,
            added: Arc::default(),
            type_,
        }
    }

    pub(super) fn len(&self) -> usize {
        if self.added.is_empty() {
            self.own.len()
        } else {
            self.added.len()
        }
    }

    fn items_type(&self) -> &'a DataType {
        match &self.type_.shape {
            Shape::List { items, .. } => items,
            _ => self.type_,
        }
    }

    pub(super) fn semantics(&self) -> &'a ListSemantics {
        match &self.type_.shape {
            Shape::List { semantics, .. } => semantics,
            _ => &ListSemantics::Atomic,
        }
    }

    fn item(&self, index: usize) -> Option<Item<'a>> {
        if self.added.is_empty() {
            self.own.get(index).map(Item::Json)
        } else {
            self.added.get(index).cloned()
        }
    }

    pub(super) fn get(&self, index: usize) -> Option<Result<Value<'a>>> {
        let type_ = self.items_type();
        Some(match self.item(index)? {
            Item::Json(item) => to_value(item, type_),
            Item::Value(value) => adopted(value, type_),
        })
    }

    /// What identifies an item of a set or map; `None` if it is not comparable with others.
    pub(super) fn identity(&self, item: &Value<'_>) -> Option<String> {
        match self.semantics() {
            ListSemantics::Map(keys) => match item {
                Value::Map(Map::Data(map)) => Some(identity_by(keys, map.fields)),
                _ => None,
            },
            _ => native(item).map(|item| item.to_string()),
        }
    }

    /// Identities of the items as they are in JSON.
    pub(super) fn identities(&self) -> Vec<Option<String>> {
        (0..self.len())
            .filter_map(|index| self.item(index))
            .map(|item| match (item, self.semantics()) {
                (Item::Json(Json::Object(fields)), ListSemantics::Map(keys)) => {
                    Some(identity_by(keys, fields))
                }
                (Item::Json(item), _) => Some(item.to_string()),
                (Item::Value(item), _) => self.identity(&item),
            })
            .collect()
    }

    pub(super) fn joined(&self, other: &List<'a>) -> Result<Self> {
        let mut identities = match self.semantics() {
            ListSemantics::Atomic => Vec::new(),
            _ => self.identities(),
        };
        let mut added: Vec<Item<'a>> = (0..self.len())
            .filter_map(|index| self.item(index))
            .collect();
        for item in other.iter() {
            let item = item?;
            let identity = self.identity(&item);
            let known = identities
                .iter()
                .position(|known| known.is_some() && *known == identity);
            match (self.semantics(), known) {
                (ListSemantics::Set, Some(_)) => continue,
                (ListSemantics::Map(_), Some(index)) => {
                    if let Some(slot) = added.get_mut(index) {
                        *slot = Item::Value(item);
                    }
                    continue;
                }
                (ListSemantics::Set, None) => identities.push(identity),
                _ => {}
            }
            added.push(Item::Value(item));
        }
        Ok(Self {
            own: self.own,
            added: Arc::new(added),
            type_: self.type_,
        })
    }
}

fn identity_by(keys: &[String], fields: &JsonMap<String, Json>) -> String {
    let mut identity = String::new();
    for key in keys {
        if let Some(value) = fields.get(key) {
            identity.push_str(&value.to_string());
        }
        identity.push('\0');
    }
    identity
}

/// The JSON form of a plain value.
fn native(value: &Value<'_>) -> Option<Json> {
    Some(match value {
        Value::Bool(value) => Json::from(*value),
        Value::Int(value) => Json::from(*value),
        Value::Double(value) => Json::from(*value),
        Value::String(text) => Json::from(&**text),
        _ => return None,
    })
}

/// A value that was added to a list whose items have a type.
fn adopted<'a>(value: Value<'a>, type_: &DataType) -> Result<Value<'a>> {
    let wrong = |expected: &str, found: &str| {
        Err(Error::new(format!(
            "invalid data, expected {expected}, got {found}"
        )))
    };
    match (&type_.shape, &value) {
        (Shape::Any, _)
        | (Shape::IntOrString, Value::Int(_) | Value::String(_))
        | (Shape::String, Value::String(_))
        | (Shape::Bool, Value::Bool(_))
        | (Shape::Int, Value::Int(_))
        | (Shape::Double, Value::Double(_))
        | (Shape::List { .. }, Value::List(List::Data(_)))
        | (Shape::Map { .. } | Shape::Object(_), Value::Map(Map::Data(_))) => Ok(value),
        (Shape::Int, _) => wrong("int", value.type_name()),
        (Shape::Double, _) => wrong("float", value.type_name()),
        (Shape::Bool, _) => wrong("bool", value.type_name()),
        (Shape::Bytes, Value::Bytes(_)) => wrong("string", "[]uint8"),
        (Shape::Duration, Value::Duration(_)) => wrong("string", "time.Duration"),
        (Shape::Date | Shape::DateTime, Value::Timestamp(_)) => wrong("string", "time.Time"),
        (Shape::String | Shape::Bytes | Shape::Duration | Shape::Date | Shape::DateTime, _) => {
            wrong("string", value.type_name())
        }
        (Shape::IntOrString, _) => Err(Error::new(
            "invalid data, expected XIntOrString value to be either a string or integer",
        )),
        (Shape::List { .. }, _) => Err(Error::new(
            "invalid data, expected an array for the provided schema with type=array",
        )),
        (Shape::Map { .. } | Shape::Object(_), _) => Err(Error::new(
            "invalid data, expected a map for the provided schema with type=object",
        )),
    }
}

impl<'a> DataMap<'a> {
    pub(super) fn len(&self) -> usize {
        self.fields.len()
    }

    /// Type of what is below a name in JSON.
    fn type_below(&self, name: &str) -> Option<&'a DataType> {
        match &self.type_.shape {
            Shape::Map { values } => Some(values),
            Shape::Object(object) => object.by_name(name).map(|field| &*field.type_),
            _ => Some(self.type_),
        }
    }

    pub(super) fn find(&self, key: &str) -> Option<Result<Value<'a>>> {
        let Shape::Object(object) = &self.type_.shape else {
            let value = self.fields.get(key)?;
            return Some(to_value(value, self.type_below(key)?));
        };
        let field = object.fields.get(key)?;
        match self.fields.get(&field.name) {
            Some(Json::Null) => None,
            Some(value) => Some(to_value(value, &field.type_)),
            // The name is an empty string while it is not generated.
            None if object.is_metadata && key == "name" => {
                Some(Ok(Value::String(Text::Borrowed(""))))
            }
            None => None,
        }
    }

    /// Names of the visible fields in JSON.
    pub(super) fn names(&self) -> impl Iterator<Item = &'a str> {
        let type_ = self.type_;
        self.fields
            .keys()
            .map(String::as_str)
            .filter(move |name| match &type_.shape {
                Shape::Object(object) => object.by_name(name).is_some(),
                _ => true,
            })
    }

    pub(super) fn keys(&self) -> Vec<String> {
        let is_object = matches!(self.type_.shape, Shape::Object(_));
        self.names()
            .map(|name| {
                if is_object {
                    escape(name).unwrap_or_else(|| name.to_owned())
                } else {
                    name.to_owned()
                }
            })
            .collect()
    }

    /// The key of a field in rules.
    pub(super) fn key(&self, name: &'a str) -> Cow<'a, str> {
        match &self.type_.shape {
            Shape::Object(_) => escape(name).map_or(Cow::Borrowed(name), Cow::Owned),
            _ => Cow::Borrowed(name),
        }
    }

    /// All fields with the names that rules do not see.
    pub(super) fn hidden(&self) -> impl Iterator<Item = (&'a str, &'a Json)> {
        let type_ = self.type_;
        self.fields
            .iter()
            .map(|(name, value)| (name.as_str(), value))
            .filter(move |(name, _)| match &type_.shape {
                Shape::Object(object) => object.by_name(name).is_none(),
                _ => false,
            })
    }

    pub(super) fn raw(&self, name: &str) -> Option<&'a Json> {
        self.fields.get(name)
    }
}

impl Object {
    fn by_name(&self, name: &str) -> Option<&crate::data_type::Field> {
        match self.fields.get(name) {
            Some(field) if field.name == name => Some(field),
            _ => escape(name).and_then(|escaped| self.fields.get(&escaped)),
        }
    }
}
