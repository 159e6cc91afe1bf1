//! One webhook of a configuration.

use std::time::Duration;

use serde_json::Value;

/// One webhook of a configuration. What the configuration leaves out has the API's defaults.
#[derive(Clone, Copy, Debug)]
pub struct Hook<'a> {
    value: &'a Value,
}

impl<'a> Hook<'a> {
    /// All webhooks of `configurations`, in the order in which they are called.
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

    /// A field of the webhook; null where it has none.
    pub(super) fn field(self, name: &str) -> &'a Value {
        &self.value[name]
    }

    fn text(self, name: &str) -> &'a str {
        text(self.value, name)
    }

    /// Its name, such as `machines.example.com`.
    pub fn name(self) -> &'a str {
        self.text("name")
    }

    /// Whether a failure to call it is passed over.
    pub(super) fn ignores_failure(self) -> bool {
        self.text("failurePolicy") == "Ignore"
    }

    /// Whether it also wants requests for other versions of the resources that its rules name.
    pub(super) fn matches_equivalents(self) -> bool {
        self.text("matchPolicy") != "Exact"
    }

    /// Whether it may be called when nothing is to be stored.
    pub(super) fn allows_dry_run(self) -> bool {
        matches!(self.text("sideEffects"), "None" | "NoneOnDryRun")
    }

    /// Whether it wants to be called again when later webhooks have changed the object.
    pub(super) fn reinvoked_if_needed(self) -> bool {
        self.text("reinvocationPolicy") == "IfNeeded"
    }

    /// How long it may take.
    pub(super) fn timeout(self) -> Duration {
        let seconds = self.value["timeoutSeconds"].as_u64().unwrap_or(10);
        Duration::from_secs(seconds.clamp(1, 30))
    }
}

/// A text field; empty where there is none.
pub(super) fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object
        .get(field)
        .and_then(Value::as_str)
        .unwrap_or_default()
}
