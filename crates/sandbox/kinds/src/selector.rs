//! Label selectors for validation and printer columns.

use apimachinery::label_selector;
use serde_json::Value;

use crate::value::{list, map, text as text_at};

/// An invalid selector matches nothing; validation reports it.
pub(crate) fn selects(selector: &Value, labels: &Value) -> bool {
    label_selector::matches(selector, labels) == Ok(true)
}

/// Command-line form of a `LabelSelector`.
pub(crate) fn text(selector: &Value) -> String {
    let mut parts: Vec<(String, String)> = map(selector, "matchLabels")
        .iter()
        .map(|(key, value)| {
            (
                key.clone(),
                format!("{key}={}", value.as_str().unwrap_or_default()),
            )
        })
        .collect();
    for expression in list(selector, "matchExpressions") {
        let key = text_at(expression, "key");
        let mut values: Vec<&str> = list(expression, "values")
            .iter()
            .filter_map(Value::as_str)
            .collect();
        values.sort_unstable();
        let values = values.join(",");
        let part = match text_at(expression, "operator") {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "Exists" => key.to_owned(),
            _ => format!("!{key}"),
        };
        parts.push((key.to_owned(), part));
    }
    parts.sort();
    let parts: Vec<String> = parts.into_iter().map(|(_, part)| part).collect();
    parts.join(",")
}

/// Command-line form of a label map.
pub(crate) fn labels_text(labels: &Value) -> String {
    let labels = labels.as_object().into_iter().flatten();
    let parts: Vec<String> = labels
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    parts.join(",")
}
