//! `LabelSelector`s of `meta/v1`, as JSON.

use serde_json::Value;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{operator:?} is not a valid label selector operator")]
pub struct UnknownOperator {
    pub operator: String,
}

/// Whether a selector selects an object with `labels`. An absent or empty selector selects everything.
///
/// # Errors
/// When a requirement that decides the result has an operator that Kubernetes does not know.
pub fn matches(selector: &Value, labels: &Value) -> Result<bool, UnknownOperator> {
    let label = |key: &str| labels.get(key).and_then(Value::as_str);
    let required = selector.get("matchLabels").and_then(Value::as_object);
    let differs =
        |(key, value): (&String, &Value)| label(key) != Some(value.as_str().unwrap_or_default());
    if required.into_iter().flatten().any(differs) {
        return Ok(false);
    }
    let expressions = selector.get("matchExpressions").and_then(Value::as_array);
    for expression in expressions.into_iter().flatten() {
        let text = |field: &str| expression.get(field).and_then(Value::as_str);
        let found = label(text("key").unwrap_or_default());
        let is_among = || {
            let values = expression.get("values").and_then(Value::as_array);
            let mut values = values.into_iter().flatten();
            found.is_some_and(|found| values.any(|value| value == found))
        };
        let is_met = match text("operator").unwrap_or_default() {
            "In" => is_among(),
            "NotIn" => !is_among(),
            "Exists" => found.is_some(),
            "DoesNotExist" => found.is_none(),
            other => {
                return Err(UnknownOperator {
                    operator: other.to_owned(),
                });
            }
        };
        if !is_met {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether a selector is absent or empty.
pub fn is_everything(selector: &Value) -> bool {
    let is_empty = |field: &str| match selector.get(field) {
        Some(Value::Object(map)) => map.is_empty(),
        Some(Value::Array(list)) => list.is_empty(),
        _ => true,
    };
    is_empty("matchLabels") && is_empty("matchExpressions")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case(json!(null), true)]
    #[case(json!({}), true)]
    #[case(json!({"matchLabels": {"a": "1"}}), true)]
    #[case(json!({"matchLabels": {"a": "1", "b": "1"}}), false)]
    #[case(json!({"matchExpressions": [{"key": "a", "operator": "In", "values": ["1", "2"]}]}), true)]
    #[case(json!({"matchExpressions": [{"key": "b", "operator": "In", "values": ["1"]}]}), false)]
    #[case(json!({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["1"]}]}), false)]
    #[case(json!({"matchExpressions": [{"key": "b", "operator": "NotIn", "values": ["1"]}]}), true)]
    #[case(json!({"matchExpressions": [{"key": "a", "operator": "Exists"}]}), true)]
    #[case(json!({"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}), false)]
    fn requirements_are_anded(#[case] selector: Value, #[case] expected: bool) {
        assert_eq!(matches(&selector, &json!({"a": "1"})), Ok(expected));
    }

    #[test]
    fn an_unknown_operator_is_an_error() {
        let selector = json!({"matchExpressions": [{"key": "a", "operator": "Near"}]});
        let error = matches(&selector, &json!({"a": "1"})).unwrap_err();
        assert_eq!(
            error.to_string(),
            r#""Near" is not a valid label selector operator"#
        );
    }
}
