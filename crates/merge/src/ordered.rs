//! Total order of JSON values, in which the server sorts the items of a field set.
//!
//! Numbers come first and compare by value, whether integers or not; then strings, booleans, lists,
//! maps and null.

use std::cmp::Ordering;

use serde_json::{Number, Value};

#[derive(Clone, Debug)]
pub(crate) struct Ordered(pub(crate) Value);

impl PartialEq for Ordered {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Ordered {}

impl PartialOrd for Ordered {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ordered {
    fn cmp(&self, other: &Self) -> Ordering {
        compare(&self.0, &other.0)
    }
}

/// Whether the server treats two values as equal: `1` and `1.0` are.
pub(crate) fn same(left: &Value, right: &Value) -> bool {
    left == right || compare(left, right) == Ordering::Equal
}

fn compare(left: &Value, right: &Value) -> Ordering {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => compare_numbers(left, right),
        (Value::String(left), Value::String(right)) => left.cmp(right),
        (Value::Bool(left), Value::Bool(right)) => left.cmp(right),
        (Value::Array(left), Value::Array(right)) => {
            let unequal = left
                .iter()
                .zip(right)
                .map(|(left, right)| compare(left, right))
                .find(|order| order.is_ne());
            unequal.unwrap_or_else(|| left.len().cmp(&right.len()))
        }
        (Value::Object(left), Value::Object(right)) => {
            let left = sorted(left);
            let right = sorted(right);
            let unequal = left
                .iter()
                .zip(&right)
                .map(|(left, right)| left.0.cmp(right.0).then_with(|| compare(left.1, right.1)))
                .find(|order| order.is_ne());
            unequal.unwrap_or_else(|| left.len().cmp(&right.len()))
        }
        _ => rank(left).cmp(&rank(right)),
    }
}

/// Sorts explicitly: whether maps keep insertion order depends on features of other crates.
fn sorted(map: &serde_json::Map<String, Value>) -> Vec<(&String, &Value)> {
    let mut entries: Vec<_> = map.iter().collect();
    entries.sort_unstable_by_key(|(key, _)| *key);
    entries
}

fn rank(value: &Value) -> u8 {
    match value {
        Value::Number(_) => 0,
        Value::String(_) => 1,
        Value::Bool(_) => 2,
        Value::Array(_) => 3,
        Value::Object(_) => 4,
        Value::Null => 5,
    }
}

fn compare_numbers(left: &Number, right: &Number) -> Ordering {
    match (left.as_i128(), right.as_i128()) {
        (Some(left), Some(right)) => left.cmp(&right),
        (Some(left), None) => compare_mixed(left, float(right)),
        (None, Some(right)) => compare_mixed(right, float(left)).reverse(),
        (None, None) => float(left)
            .partial_cmp(&float(right))
            .unwrap_or(Ordering::Equal),
    }
}

fn float(number: &Number) -> f64 {
    number.as_f64().unwrap_or_default()
}

/// Exact: rounding the integer would make the order intransitive.
#[allow(clippy::cast_possible_truncation)] // saturates, and only within the bounds just checked
fn compare_mixed(integer: i128, float: f64) -> Ordering {
    if float >= 2f64.powi(65) {
        return Ordering::Less;
    }
    if float <= -2f64.powi(65) {
        return Ordering::Greater;
    }
    let whole = float.trunc();
    integer
        .cmp(&(whole as i128))
        .then_with(|| whole.partial_cmp(&float).unwrap_or(Ordering::Equal))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_compare_by_amount() {
        assert!(same(&json!(1), &json!(1.0)));
        assert_eq!(compare(&json!(80), &json!(443)), Ordering::Less);
        assert_eq!(compare(&json!(1.5), &json!(1)), Ordering::Greater);
        assert_eq!(compare(&json!(-1.5), &json!(-1)), Ordering::Less);
        assert_eq!(compare(&json!(u64::MAX), &json!(1e300)), Ordering::Less);
        assert_eq!(compare(&json!(i64::MIN), &json!(-1e300)), Ordering::Greater);
    }

    #[test]
    fn kinds_have_an_order() {
        let values = [
            json!(9),
            json!("a"),
            json!("b"),
            json!(false),
            json!([]),
            json!([1]),
            json!({}),
            json!(null),
        ];
        for (index, left) in values.iter().enumerate() {
            for (other, right) in values.iter().enumerate() {
                assert_eq!(
                    compare(left, right),
                    index.cmp(&other),
                    "{left} and {right}"
                );
            }
        }
    }
}
