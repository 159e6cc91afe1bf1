//! JSON and YAML decoding that reports duplicate keys.

use std::{cell::Cell, fmt};

use ::decode::walk::{Walk, Walker};
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::go_json;

#[derive(Debug)]
pub struct Decoded {
    /// The last value wins for duplicate keys.
    pub value: Value,
    pub duplicates: Vec<String>,
}

/// Errors are worded as Go's `encoding/json` words them, where known.
pub fn json(bytes: &[u8]) -> Result<Decoded, String> {
    let doubled = Cell::new(false);
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let value = Seed { doubled: &doubled }
        .deserialize(&mut reader)
        .and_then(|value| reader.end().map(|()| value))
        .map_err(|_| go_json::error(bytes))?;
    let duplicates = if doubled.get() {
        duplicates(bytes)
    } else {
        Vec::new()
    };
    Ok(Decoded { value, duplicates })
}

/// YAML is a superset of JSON.
pub fn yaml(bytes: &[u8]) -> Result<Decoded, String> {
    if let Ok(decoded) = json(bytes) {
        return Ok(decoded);
    }
    let text = std::str::from_utf8(bytes).map_err(|error| error.to_string())?;
    let value = serde_saphyr::from_str(text).map_err(|error: serde_saphyr::Error| {
        format!("error converting YAML to JSON: yaml: {error}")
    })?;
    Ok(Decoded {
        value,
        duplicates: Vec::new(),
    })
}

struct Seed<'a> {
    doubled: &'a Cell<bool>,
}

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(Seed {
            doubled: self.doubled,
        })? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            let value = entries.next_value_seed(Seed {
                doubled: self.doubled,
            })?;
            if map.insert(key, value).is_some() {
                self.doubled.set(true);
            }
        }
        Ok(Value::Object(map))
    }
}

/// Paths of duplicate keys. A second pass, only for bodies that have some.
fn duplicates(bytes: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let keys = DuplicateKeys {
        path: String::new(),
        found: &mut found,
    };
    // The first pass succeeded, so this one does.
    let _ = Walker(keys).deserialize(&mut reader);
    found
}

struct DuplicateKeys<'a> {
    path: String,
    found: &'a mut Vec<String>,
}

impl Walk for DuplicateKeys<'_> {
    fn visit_list<'de, A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let mut index = 0;
        while items
            .next_element_seed(Walker(DuplicateKeys {
                path: format!("{}[{index}]", self.path),
                found: self.found,
            }))?
            .is_some()
        {
            index += 1;
        }
        Ok(())
    }

    fn visit_map<'de, A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        let mut keys = std::collections::BTreeSet::new();
        while let Some(key) = entries.next_key::<String>()? {
            let path = match self.path.as_str() {
                "" => key.clone(),
                parent => format!("{parent}.{key}"),
            };
            if !keys.insert(key) {
                self.found.push(path.clone());
            }
            entries.next_value_seed(Walker(DuplicateKeys {
                path,
                found: self.found,
            }))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duplicate_keys_are_reported_and_the_last_wins() {
        let decoded =
            json(br#"{"spec": {"a": 1, "list": [{"b": 1, "b": 2}], "a": 3}, "kind": "X"}"#)
                .unwrap();
        assert_eq!(decoded.value["spec"]["a"], 3);
        assert_eq!(decoded.duplicates, ["spec.list[0].b", "spec.a"]);
    }

    #[test]
    fn unbounded_nesting_is_refused() {
        let deep = "[".repeat(1_000_000);
        assert!(json(deep.as_bytes()).is_err());
    }

    #[test]
    fn yaml_is_decoded() {
        assert_eq!(yaml(b"a: [1, x]").unwrap().value["a"][1], "x");
        assert!(yaml(b"a: [1").is_err());
    }
}
