//! Estimated costs of rules, which the server limits.

use serde_json::Value;

use crate::Violation;

/// Highest estimate of one rule.
const MAX_OF_RULE: u64 = 10_000_000;
/// Highest estimate of all rules of a schema.
const MAX_OF_SCHEMA: u64 = 100_000_000;
/// Most rules that are named when all together cost too much.
const MAX_NAMED: usize = 4;

/// Costs of the rules of a schema.
#[derive(Default)]
pub(super) struct Total {
    sum: u64,
    /// The rules that cost most.
    expensive: Vec<(String, u64)>,
}

impl Total {
    pub(super) fn add(&mut self, path: String, cost: u64) {
        self.sum = self.sum.saturating_add(cost);
        if cost < MAX_OF_SCHEMA / 100 {
            return;
        }
        self.expensive.push((path, cost));
        self.expensive
            .sort_by_key(|(_, cost)| std::cmp::Reverse(*cost));
        self.expensive.truncate(MAX_NAMED);
    }

    pub(super) fn check(self, path: &str, found: &mut Vec<Violation>) {
        if self.sum <= MAX_OF_SCHEMA {
            return;
        }
        for (path, _) in self.expensive {
            found.push(Violation::forbidden(
                path,
                "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema",
            ));
        }
        let name = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        found.push(Violation::forbidden(
            path,
            message(name, self.sum, MAX_OF_SCHEMA),
        ));
    }
}

/// The violation of an expression that costs too much.
pub(super) fn check(path: &str, name: &str, cost: u64) -> Option<Violation> {
    (cost > MAX_OF_RULE).then(|| Violation::forbidden(path, message(name, cost, MAX_OF_RULE)))
}

#[expect(clippy::cast_precision_loss, reason = "it is shown rounded")]
fn message(name: &str, cost: u64, limit: u64) -> String {
    let factor = cost as f64 / limit as f64;
    let factor = if factor > 100.0 {
        "more than 100x".to_owned()
    } else if factor < 1.5 {
        format!("{factor:.6}x")
    } else {
        format!("{factor:.1}x")
    };
    format!(
        "{name} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )
}

/// How often there may be a value below one of a schema; `None` if that is not bounded.
pub(super) fn cardinality_below(schema: &Value, cardinality: Option<u64>) -> Option<u64> {
    let bound = |name: &str| schema.get(name).and_then(Value::as_u64);
    let most = match schema.get("type").and_then(Value::as_str) {
        Some("object") if schema.get("additionalProperties").is_some() => bound("maxProperties")?,
        Some("array") => bound("maxItems")?,
        _ => 1,
    };
    Some(cardinality?.saturating_mul(most))
}
