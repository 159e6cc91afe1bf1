//! Differences between two states of an object.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// A field with different values.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// Such as `spec.template.spec.domain.memory.guest` or `spec.disks[root].size`.
    pub path: String,
    pub from: Option<Value>,
    pub to: Option<Value>,
}

/// The fields in which two states of an object differ. List items are matched by name if they have one, so
/// that an inserted item does not change those after it. Null equals absent.
pub fn changes(before: &Value, after: &Value) -> Vec<Change> {
    let mut found = Vec::new();
    compare("", Some(before), Some(after), &mut found);
    found
}

fn compare(path: &str, before: Option<&Value>, after: Option<&Value>, found: &mut Vec<Change>) {
    let before = before.filter(|value| !value.is_null());
    let after = after.filter(|value| !value.is_null());
    match (before, after) {
        (before, after) if before == after => {}
        (Some(Value::Object(before)), Some(Value::Object(after))) => {
            for name in names(before, after) {
                let path = field(path, name);
                compare(&path, before.get(name), after.get(name), found);
            }
        }
        (Some(Value::Array(old)), Some(Value::Array(new))) if are_named(old) && are_named(new) => {
            let removed = old.iter().filter(|item| named(new, name(item)).is_none());
            for item in removed {
                compare(&item_of(path, item), Some(item), None, found);
            }
            for item in new {
                compare(
                    &item_of(path, item),
                    named(old, name(item)),
                    Some(item),
                    found,
                );
            }
        }
        (before, after) => found.push(Change {
            path: path.to_owned(),
            from: before.cloned(),
            to: after.cloned(),
        }),
    }
}

fn names<'a>(
    before: &'a Map<String, Value>,
    after: &'a Map<String, Value>,
) -> BTreeSet<&'a String> {
    before.keys().chain(after.keys()).collect()
}

/// Puts names with dots, as those of labels, into brackets.
fn field(path: &str, name: &str) -> String {
    match (path, name.contains(['.', '/'])) {
        (_, true) => format!("{path}[{name}]"),
        ("", false) => name.to_owned(),
        (_, false) => format!("{path}.{name}"),
    }
}

fn item_of(path: &str, item: &Value) -> String {
    format!("{path}[{}]", name(item))
}

/// Whether all items of a list have distinct names.
pub(super) fn are_named(items: &[Value]) -> bool {
    let names: BTreeSet<&str> = items.iter().map(name).collect();
    !names.contains("") && names.len() == items.len()
}

pub(super) fn name(item: &Value) -> &str {
    item["name"].as_str().unwrap_or_default()
}

pub(super) fn named<'a>(items: &'a [Value], desired: &str) -> Option<&'a Value> {
    items.iter().find(|item| name(item) == desired)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::same(json!({"a": 1}), json!({"a": 1}), &[])]
    #[case::null_is_nothing(json!({"a": null}), json!({}), &[])]
    #[case::changed(json!({"a": {"b": 1}}), json!({"a": {"b": 2}}), &["a.b 1 2"])]
    #[case::added(json!({}), json!({"a": {"b": 2}}), &["a - {\"b\":2}"])]
    #[case::removed(json!({"a": 1}), json!({}), &["a 1 -"])]
    #[case::label(json!({"l": {"x.io/y": "1"}}), json!({"l": {}}), &["l[x.io/y] \"1\" -"])]
    #[case::item(
        json!({"d": [{"name": "b", "n": 1}]}),
        json!({"d": [{"name": "a"}, {"name": "b", "n": 2}]}),
        &["d[a] - {\"name\":\"a\"}", "d[b].n 1 2"]
    )]
    #[case::item_gone(
        json!({"d": [{"name": "a"}, {"name": "b"}]}),
        json!({"d": [{"name": "b"}]}),
        &["d[a] {\"name\":\"a\"} -"]
    )]
    #[case::first_item(json!({"d": []}), json!({"d": [{"name": "a"}]}), &["d[a] - {\"name\":\"a\"}"])]
    #[case::plain_list(json!({"d": [1, 2]}), json!({"d": [1]}), &["d [1,2] [1]"])]
    fn lists_differing_fields_with_their_values(
        #[case] before: Value,
        #[case] after: Value,
        #[case] expected: &[&str],
    ) {
        let text = |value: &Option<Value>| value.as_ref().map_or("-".to_owned(), Value::to_string);
        let found: Vec<_> = changes(&before, &after)
            .iter()
            .map(|change| {
                format!(
                    "{} {} {}",
                    change.path,
                    text(&change.from),
                    text(&change.to)
                )
            })
            .collect();
        assert_eq!(found, expected);
    }
}
