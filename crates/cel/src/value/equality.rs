//! Equality and order of values.

use std::cmp::Ordering;

use super::{DataList, DataMap, Error, List, Map, Result, Special, Value};
use crate::data_type::ListSemantics;

impl Value<'_> {
    /// `self == other`. Values of different types differ, except for numbers.
    pub(crate) fn equals(&self, other: &Value<'_>) -> Result<bool> {
        if matches!(self, Value::Null) || matches!(other, Value::Null) {
            return Ok(matches!((self, other), (Value::Null, Value::Null)));
        }
        Ok(match (self, other) {
            (Value::Bool(one), Value::Bool(other)) => one == other,
            (Value::Int(_) | Value::Uint(_) | Value::Double(_), _) => {
                matches!(self.compare(other), Ok(Some(Ordering::Equal)))
            }
            (Value::String(one), Value::String(other)) => **one == **other,
            (Value::Bytes(one), Value::Bytes(other)) => one == other,
            (Value::Duration(one), Value::Duration(other)) => one == other,
            (Value::Timestamp(one), Value::Timestamp(other)) => one == other,
            (Value::Type(one), Value::Type(other)) => one == other,
            (Value::List(one), Value::List(other)) => return lists(one, other),
            (Value::Map(one), Value::Map(other)) => return maps(one, other),
            // Data are not comparable with values of other types.
            (Value::List(List::Data(_)) | Value::Map(Map::Data(_)), _) => {
                return Err(Error::no_such_overload());
            }
            (Value::Optional(one), Value::Optional(other)) => match (one, other) {
                (Some(one), Some(other)) => return one.equals(other),
                (one, other) => one.is_none() && other.is_none(),
            },
            (Value::Special(one), Value::Special(other)) => return specials(one, other),
            (Value::Special(_), _) => return Err(Error::no_such_overload()),
            _ => false,
        })
    }

    /// Order of two values; `None` if a number is not a number.
    pub(crate) fn compare(&self, other: &Value<'_>) -> Result<Option<Ordering>> {
        Ok(match (self, other) {
            (Value::Bool(one), Value::Bool(other)) => Some(one.cmp(other)),
            (Value::Int(one), Value::Int(other)) => Some(one.cmp(other)),
            (Value::Uint(one), Value::Uint(other)) => Some(one.cmp(other)),
            (Value::Int(one), Value::Uint(other)) => Some(i128::from(*one).cmp(&(*other).into())),
            (Value::Uint(one), Value::Int(other)) => Some(i128::from(*one).cmp(&(*other).into())),
            (Value::Double(one), Value::Double(other)) => one.partial_cmp(other),
            (Value::Double(one), Value::Int(other)) => with_double(*one, (*other).into()),
            (Value::Double(one), Value::Uint(other)) => with_double(*one, (*other).into()),
            (Value::Int(one), Value::Double(other)) => {
                with_double(*other, (*one).into()).map(Ordering::reverse)
            }
            (Value::Uint(one), Value::Double(other)) => {
                with_double(*other, (*one).into()).map(Ordering::reverse)
            }
            (Value::String(one), Value::String(other)) => Some((**one).cmp(&**other)),
            (Value::Bytes(one), Value::Bytes(other)) => Some(one.cmp(other)),
            (Value::Duration(one), Value::Duration(other)) => Some(one.cmp(other)),
            (Value::Timestamp(one), Value::Timestamp(other)) => Some(one.cmp(other)),
            _ => return Err(Error::no_such_overload()),
        })
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "as the server compares numbers of different types"
)]
fn with_double(one: f64, other: i128) -> Option<Ordering> {
    one.partial_cmp(&(other as f64))
}

fn specials(one: &Special, other: &Special) -> Result<bool> {
    Ok(match (one, other) {
        (Special::Quantity(one), Special::Quantity(other)) => one == other,
        (Special::Semver(one), Special::Semver(other)) => one.cmp(other).is_eq(),
        (Special::Url(one), Special::Url(other)) => one.to_string() == other.to_string(),
        (Special::Ip(one), Special::Ip(other)) => one == other,
        (Special::Cidr(one, bits), Special::Cidr(other, other_bits)) => {
            one == other && bits == other_bits
        }
        (Special::Format(one), Special::Format(other)) => one.name == other.name,
        _ => return Err(Error::no_such_overload()),
    })
}

fn lists(one: &List<'_>, other: &List<'_>) -> Result<bool> {
    if one.len() != other.len() {
        return Ok(false);
    }
    if let List::Data(list) = one {
        match list.semantics() {
            ListSemantics::Atomic => {}
            ListSemantics::Set => return sets(list, other),
            ListSemantics::Map(_) => return list_maps(list, other),
        }
    }
    for (one, other) in one.iter().zip(other.iter()) {
        if !one?.equals(&other?)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Sets are compared in the form that their items have in JSON.
fn sets(one: &DataList<'_>, other: &List<'_>) -> Result<bool> {
    let known = one.identities();
    for item in other.iter() {
        let identity = one.identity(&item?);
        if identity.is_none() || !known.contains(&identity) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn list_maps(one: &DataList<'_>, other: &List<'_>) -> Result<bool> {
    let known = one.identities();
    for item in other.iter() {
        let item = item?;
        let identity = one.identity(&item);
        let found = known
            .iter()
            .rposition(|known| known.is_some() && *known == identity);
        let Some(same) = found.and_then(|index| one.get(index)) else {
            return Ok(false);
        };
        if !same?.equals(&item)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn maps(one: &Map<'_>, other: &Map<'_>) -> Result<bool> {
    if one.len() != other.len() {
        return Ok(false);
    }
    match one {
        Map::Plain(entries) => {
            for (key, value) in &**entries {
                match other.find(&key.value())? {
                    Some(found) if value.equals(&found)? => {}
                    _ => return Ok(false),
                }
            }
            Ok(true)
        }
        Map::Data(map) => data_maps(map, other),
    }
}

fn data_maps(one: &DataMap<'_>, other: &Map<'_>) -> Result<bool> {
    for name in one.names() {
        let key = one.key(name);
        match (one.find(&key).transpose()?, other.find_text(&key)?) {
            (None, None) => {}
            (Some(value), Some(found)) if value.equals(&found)? => {}
            _ => return Ok(false),
        }
    }
    for (name, value) in one.hidden() {
        let Map::Data(other) = other else {
            return Err(Error::no_such_overload());
        };
        if other.raw(name).is_some_and(|found| found != value) {
            return Ok(false);
        }
    }
    Ok(true)
}
