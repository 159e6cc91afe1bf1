//! A webhook entry of a configuration.

use std::time::Duration;

use serde_json::Value;

/// A webhook of a configuration. Absent fields have the defaults of the API.
#[derive(Clone, Copy, Debug)]
pub struct Hook<'a> {
    value: &'a Value,
}

impl<'a> Hook<'a> {
    /// All webhooks of `configurations`, in call order.
    pub fn all(configurations: impl IntoIterator<Item = &'a Value>) -> Vec<Self> {
        let mut configurations: Vec<&Value> = configurations.into_iter().collect();
        configurations.sort_by_key(|configuration| text(&configuration["metadata"], "name"));
        configurations
            .into_iter()
            .filter_map(|configuration| configuration["webhooks"].as_array())
            .flatten()
            .map(|value| Self { value })
            .collect()
    }

    /// Null if absent.
    pub(super) fn field(self, name: &str) -> &'a Value {
        &self.value[name]
    }

    fn text(self, name: &str) -> &'a str {
        text(self.value, name)
    }

    /// Such as `machines.example.com`.
    pub fn name(self) -> &'a str {
        self.text("name")
    }

    /// `failurePolicy: Ignore`.
    pub(super) fn ignores_failure(self) -> bool {
        self.text("failurePolicy") == "Ignore"
    }

    /// `matchPolicy: Equivalent`.
    pub(super) fn matches_equivalents(self) -> bool {
        self.text("matchPolicy") != "Exact"
    }

    /// `sideEffects` permits dry runs.
    pub(super) fn allows_dry_run(self) -> bool {
        matches!(self.text("sideEffects"), "None" | "NoneOnDryRun")
    }

    /// `reinvocationPolicy: IfNeeded`.
    pub(super) fn reinvoked_if_needed(self) -> bool {
        self.text("reinvocationPolicy") == "IfNeeded"
    }

    pub(super) fn timeout(self) -> Duration {
        let seconds = self.value["timeoutSeconds"].as_u64().unwrap_or(10);
        Duration::from_secs(seconds.clamp(1, 30))
    }
}

/// A string field, empty if absent.
pub(super) fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object
        .get(field)
        .and_then(Value::as_str)
        .unwrap_or_default()
}
