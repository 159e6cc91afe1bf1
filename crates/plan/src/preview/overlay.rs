//! Server-side apply for one field manager.

use serde_json::Value;

use super::changes::{are_named, name, named};

/// Result of an apply of `desired` to `found` by a manager that applied `owned` before. Fields of others
/// stay. Lists are owned as a whole, but their items keep additional fields.
pub fn overlay(found: Value, owned: Option<&Value>, desired: &Value) -> Value {
    match (found, desired) {
        (Value::Object(mut found), Value::Object(desired)) => {
            for (name, owned) in owned.and_then(Value::as_object).into_iter().flatten() {
                if !desired.contains_key(name)
                    && let Some(value) = found.remove(name)
                    && let Some(rest) = without(value, owned)
                {
                    found.insert(name.clone(), rest);
                }
            }
            for (name, desired) in desired {
                let value = found.remove(name).unwrap_or_default();
                let owned = owned.and_then(|owned| owned.get(name));
                found.insert(name.clone(), overlay(value, owned, desired));
            }
            Value::Object(found)
        }
        (Value::Array(found), Value::Array(desired)) if are_named(&found) && are_named(desired) => {
            let owned = owned.and_then(Value::as_array).map(Vec::as_slice);
            let item = |desired: &Value| {
                let name = name(desired);
                let found = named(&found, name).cloned().unwrap_or_default();
                overlay(found, named(owned.unwrap_or_default(), name), desired)
            };
            desired.iter().map(item).collect()
        }
        (_, desired) => desired.clone(),
    }
}

/// The fields of others.
fn without(found: Value, owned: &Value) -> Option<Value> {
    let (Value::Object(mut found), Value::Object(owned)) = (found, owned) else {
        return None;
    };
    for (name, owned) in owned {
        if let Some(rest) = found.remove(name).and_then(|value| without(value, owned)) {
            found.insert(name.clone(), rest);
        }
    }
    (!found.is_empty()).then_some(Value::Object(found))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::set(json!({"a": 1}), json!({}), json!({"a": 2}), json!({"a": 2}))]
    #[case::others_stay(json!({"a": 1, "b": 1}), json!({"a": 1}), json!({"a": 2}), json!({"a": 2, "b": 1}))]
    #[case::ours_go(json!({"a": 1, "b": 1}), json!({"a": 1, "b": 1}), json!({"a": 1}), json!({"a": 1}))]
    #[case::only_ours_go(
        json!({"a": {"b": 1, "c": 1}}), json!({"a": {"b": 1}}), json!({}), json!({"a": {"c": 1}})
    )]
    #[case::all_of_it_goes(json!({"a": {"b": 1}}), json!({"a": {"b": 1}}), json!({}), json!({}))]
    #[case::items_keep_what_was_filled_in(
        json!({"d": [{"name": "x", "mac": 1}, {"name": "y"}]}),
        json!({"d": [{"name": "x"}, {"name": "y"}]}),
        json!({"d": [{"name": "x", "n": 1}]}),
        json!({"d": [{"name": "x", "mac": 1, "n": 1}]})
    )]
    #[case::lists_without_names(json!({"d": [1, 2]}), json!({}), json!({"d": [3]}), json!({"d": [3]}))]
    fn an_apply_changes_the_fields_of_one_manager(
        #[case] found: Value,
        #[case] owned: Value,
        #[case] desired: Value,
        #[case] expected: Value,
    ) {
        assert_eq!(overlay(found, Some(&owned), &desired), expected);
    }
}
