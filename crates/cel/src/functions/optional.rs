//! Optional values and insertion into maps.

use std::sync::Arc;

use super::{Function, refuse};
use crate::value::{Error, Key, List, Map, Result, Value};

pub(super) fn implementation(name: &str) -> Option<Function> {
    Some(match name {
        "optional.of" => |_, arguments| Ok(Value::optional(arguments.first().cloned())),
        "optional.ofNonZeroValue" => |_, arguments| {
            let value = arguments.first().filter(|value| !value.is_zero());
            Ok(Value::optional(value.cloned()))
        },
        "optional.none" => |_, _| Ok(Value::Optional(None)),
        "value" => |_, arguments| match arguments {
            [Value::Optional(Some(value))] => Ok((**value).clone()),
            [Value::Optional(None)] => Err(Error::new("optional.none() dereference")),
            _ => refuse("value", arguments),
        },
        "hasValue" => |_, arguments| match arguments {
            [Value::Optional(value)] => Ok(Value::Bool(value.is_some())),
            _ => refuse("hasValue", arguments),
        },
        "first" => |_, arguments| match arguments {
            [Value::List(list)] => Ok(Value::optional(list.get(0).transpose()?)),
            _ => refuse("first", arguments),
        },
        "last" => |_, arguments| match arguments {
            [Value::List(list)] => {
                let last = list.len().checked_sub(1).and_then(|last| list.get(last));
                Ok(Value::optional(last.transpose()?))
            }
            _ => refuse("last", arguments),
        },
        "optional.unwrap" | "unwrapOpt" => |_, arguments| match arguments {
            [Value::List(list)] => unwrap(list),
            _ => refuse("unwrapOpt", arguments),
        },
        "cel.@mapInsert" => |_, arguments| match arguments {
            [Value::Map(map), key, value] => insert(map, vec![(key.clone(), value.clone())]),
            [Value::Map(map), Value::Map(more)] => {
                let entry = |key: Value<'_>| more.find(&key).transpose();
                let mut entries = Vec::new();
                for key in more.keys() {
                    if let Some(value) = entry(key.clone()) {
                        entries.push((key, value?));
                    }
                }
                insert(map, entries)
            }
            _ => refuse("cel.@mapInsert", arguments),
        },
        _ => return None,
    })
}

fn unwrap<'a>(list: &List<'a>) -> Result<Value<'a>> {
    let mut values = Vec::new();
    for item in list.iter() {
        match item? {
            Value::Optional(Some(value)) => values.push((*value).clone()),
            Value::Optional(None) => {}
            other => {
                let shown = other.shown();
                return Err(Error::new(format!("value {shown} is not optional")));
            }
        }
    }
    Ok(Value::list(values))
}

fn insert<'a>(map: &Map<'a>, entries: Vec<(Value<'a>, Value<'a>)>) -> Result<Value<'a>> {
    let mut inserted = match map {
        Map::Plain(known) => (**known).clone(),
        Map::Data(_) => return Err(Error::no_such_overload()),
    };
    for (key, value) in entries {
        let known = Key::of(&key).ok_or_else(|| Error::new("unsupported key type"))?;
        if inserted.insert(known, value).is_some() {
            let key = key.shown();
            return Err(Error::new(format!(
                "insert failed: key {key} already exists"
            )));
        }
    }
    Ok(Value::Map(Map::Plain(Arc::new(inserted))))
}
