//! Keys of list items.

use serde_json::Value;

use crate::fields::PathElement;
use crate::go;
use crate::shape::ListType;

/// The path element of an item of a set or of a list with keys, or why it has none.
pub(super) fn element_of(list: ListType<'_>, item: &Value) -> Result<PathElement, String> {
    if list.keys().is_empty() {
        element_of_set(item)
    } else {
        element_by_keys(list, item)
    }
}

fn element_by_keys(list: ListType<'_>, item: &Value) -> Result<PathElement, String> {
    let map = match item {
        Value::Object(map) => map,
        Value::Null => {
            return Err("associative list with keys may not have a null element".to_owned());
        }
        _ => return Err("associative list with keys may not have non-map elements".to_owned()),
    };
    let fields: Vec<_> = list
        .keys()
        .iter()
        .filter_map(|name| {
            let value = map.get(name).or_else(|| list.key_default(name))?;
            Some((name.clone(), value.clone()))
        })
        .collect();
    if fields.is_empty() {
        return Err(format!(
            "associative list with keys has an element that omits all key fields {} (and doesn't have default values for any key fields)",
            go::quote_list(list.keys())
        ));
    }
    Ok(PathElement::key(fields))
}

fn element_of_set(item: &Value) -> Result<PathElement, String> {
    match item {
        Value::Object(_) => {
            Err("associative list without keys has an element that's a map type".to_owned())
        }
        Value::Array(_) => Err("not supported: associative list with lists as elements".to_owned()),
        Value::Null => {
            Err("associative list without keys has an element that's an explicit null".to_owned())
        }
        scalar => Ok(PathElement::value(scalar.clone())),
    }
}
