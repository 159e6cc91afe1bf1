//! `LabelSelector`s as objects carry them.

use serde_json::Value;

/// Whether a `LabelSelector` chooses an object with `labels`. One that is absent or empty chooses
/// everything. A requirement that says nothing known is an error, in the server's words.
pub(crate) fn matches(selector: &Value, labels: &Value) -> Result<bool, String> {
    let label = |key: &str| labels.get(key).and_then(Value::as_str);
    let wanted = selector.get("matchLabels").and_then(Value::as_object);
    if wanted
        .into_iter()
        .flatten()
        .any(|(key, value)| label(key) != Some(value.as_str().unwrap_or_default()))
    {
        return Ok(false);
    }
    let Some(expressions) = selector.get("matchExpressions").and_then(Value::as_array) else {
        return Ok(true);
    };
    for expression in expressions {
        let own = label(expression["key"].as_str().unwrap_or_default());
        let among = || {
            let values = expression["values"].as_array();
            own.is_some_and(|own| {
                values.is_some_and(|values| values.iter().any(|value| value == own))
            })
        };
        let holds = match expression["operator"].as_str().unwrap_or_default() {
            "In" => among(),
            "NotIn" => !among(),
            "Exists" => own.is_some(),
            "DoesNotExist" => own.is_none(),
            other => return Err(format!("{other:?} is not a valid label selector operator")),
        };
        if !holds {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether a `LabelSelector` is absent or empty.
pub(crate) fn is_everything(selector: &Value) -> bool {
    let empty = |field: &str| match selector.get(field) {
        Some(Value::Object(map)) => map.is_empty(),
        Some(Value::Array(list)) => list.is_empty(),
        _ => true,
    };
    empty("matchLabels") && empty("matchExpressions")
}
