//! Null values in request bodies.
//!
//! Creates and applies leave out fields without a value: the schema of a custom resource refuses null,
//! and an apply that contains null claims the field. Null has a meaning in two kinds of requests only:
//!
//! - a merge patch removes the field: labels and annotations, obsolete fields in the status of a KubeVirt
//!   resource, and the webhook's next CA once it signs;
//! - an apply of SecurityContextConstraints, whose OpenShift schema requires fields that may be null: the
//!   install strategy's values are sent unchanged.

use serde_json::Value;

/// JSON pointer to the first null.
pub fn find(value: &Value) -> Option<String> {
    let below = |name: &str, value: &Value| {
        let found = find(value)?;
        Some(format!(
            "/{}{found}",
            name.replace('~', "~0").replace('/', "~1")
        ))
    };
    match value {
        Value::Null => Some(String::new()),
        Value::Array(items) => {
            let mut items = items.iter().enumerate();
            items.find_map(|(place, item)| below(&place.to_string(), item))
        }
        Value::Object(fields) => fields.iter().find_map(|(name, value)| below(name, value)),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

/// Removes fields that are null. List items stay, because removing one would renumber the rest.
pub fn remove(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(remove);
        }
        Value::Array(items) => items.iter_mut().for_each(remove),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case(json!({ "a": 1, "b": [{ "c": "null" }] }), None)]
    #[case(json!(null), Some(""))]
    #[case(json!({ "a": { "b/c": [0, { "~": null }] } }), Some("/a/b~1c/1/~0"))]
    #[case(json!([null]), Some("/0"))]
    fn the_first_null_is_named(#[case] value: Value, #[case] pointer: Option<&str>) {
        assert_eq!(find(&value).as_deref(), pointer);
        if let Some(pointer) = pointer {
            assert_eq!(value.pointer(pointer), Some(&Value::Null));
        }
    }

    #[test]
    fn fields_are_removed_and_items_stay() {
        let mut value =
            json!({ "a": null, "b": { "c": null, "d": 1 }, "e": [{ "f": null }, null] });
        remove(&mut value);
        assert_eq!(value, json!({ "b": { "d": 1 }, "e": [{}, null] }));
    }
}
