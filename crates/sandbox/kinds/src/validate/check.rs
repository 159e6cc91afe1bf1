//! Collector of validation errors.

use quantity::Quantity;
use schema::{Problem, Violation};
use serde_json::Value;

use super::names;
use crate::value::{at, list, map, text};

#[derive(Default)]
pub(super) struct Check {
    pub(super) found: Vec<Violation>,
}

impl Check {
    fn add(&mut self, path: impl Into<String>, problem: Problem) {
        self.found.push(Violation::at(path, problem));
    }

    pub(super) fn required(&mut self, path: impl Into<String>) {
        self.add(path, Problem::Required);
    }

    pub(super) fn required_because(&mut self, path: impl Into<String>, detail: &str) {
        let detail = detail.to_owned();
        self.add(path, Problem::RequiredBecause { detail });
    }

    pub(super) fn invalid(
        &mut self,
        path: impl Into<String>,
        value: impl Into<Value>,
        detail: impl Into<String>,
    ) {
        let problem = Problem::Invalid {
            value: Some(value.into()),
            detail: detail.into(),
        };
        self.add(path, problem);
    }

    /// `shown` replaces the value in the error text.
    pub(super) fn invalid_shown(&mut self, path: &str, shown: String, detail: &str) {
        let detail = detail.to_owned();
        self.add(path, Problem::InvalidShown { shown, detail });
    }

    pub(super) fn unsupported(
        &mut self,
        path: impl Into<String>,
        value: impl Into<Value>,
        supported: &[&str],
    ) {
        let problem = Problem::Unsupported {
            value: value.into(),
            supported: supported.iter().map(|&word| word.into()).collect(),
        };
        self.add(path, problem);
    }

    pub(super) fn not_found(&mut self, path: impl Into<String>, value: &str) {
        let value = value.into();
        self.add(path, Problem::NotFound { value });
    }

    pub(super) fn duplicate(&mut self, path: impl Into<String>, value: impl Into<Value>) {
        let value = value.into();
        self.add(path, Problem::Duplicate { value });
    }

    pub(super) fn forbidden(&mut self, path: impl Into<String>, detail: impl Into<String>) {
        let detail = detail.into();
        self.add(path, Problem::Forbidden { detail });
    }

    pub(super) fn too_long(&mut self, path: impl Into<String>, max: u64) {
        self.add(path, Problem::TooLong { max });
    }

    /// An empty value passes: it has a default.
    pub(super) fn one_of(&mut self, path: impl Into<String>, value: &str, words: &[&str]) {
        match value {
            "" => self.required(path),
            _ if words.contains(&value) => {}
            _ => self.unsupported(path, value, words),
        }
    }

    pub(super) fn not_negative(&mut self, object: &Value, path: &str) {
        self.not_negative_at(path, at(object, path));
    }

    pub(super) fn not_negative_at(&mut self, path: impl Into<String>, value: &Value) {
        if value.as_i64().is_some_and(|number| number < 0) {
            self.invalid(path, value.clone(), NOT_NEGATIVE);
        }
    }

    /// Field that may not change.
    pub(super) fn immutable(&mut self, new: &Value, old: Option<&Value>, path: &str) {
        if let Some(old) = old
            && at(new, path) != at(old, path)
        {
            self.invalid(path, at(new, path).clone(), IMMUTABLE);
        }
    }

    pub(super) fn dns_label(&mut self, path: impl Into<String>, value: &str) {
        let path = path.into();
        for message in schema::names::dns_label(value) {
            self.invalid(path.clone(), value, message);
        }
    }

    pub(super) fn dns_name(&mut self, path: impl Into<String>, value: &str) {
        let path = path.into();
        for message in schema::names::dns_subdomain(value) {
            self.invalid(path.clone(), value, message);
        }
    }

    pub(super) fn port_number(&mut self, path: impl Into<String>, port: i64) {
        if !(1..=65535).contains(&port) {
            self.invalid(path, port, PORT_RANGE);
        }
    }

    pub(super) fn port(&mut self, path: &str, port: &Value) {
        match port {
            Value::String(name) => {
                for message in names::port_name(name) {
                    self.invalid(path, name.as_str(), message);
                }
            }
            other => self.port_number(path, other.as_i64().unwrap_or_default()),
        }
    }

    /// Relative path without `..`.
    pub(super) fn descending_path(&mut self, path: &str, place: &str) {
        if place.starts_with('/') {
            self.invalid(path, place, "must be a relative path");
        }
        if place.split('/').any(|part| part == "..") {
            self.invalid(path, place, "must not contain '..'");
        }
    }

    pub(super) fn labels(&mut self, path: &str, labels: &Value) {
        for (key, value) in labels.as_object().into_iter().flatten() {
            let value = value.as_str().unwrap_or_default();
            for message in schema::names::qualified_name(key) {
                self.invalid(path, key.as_str(), message);
            }
            for message in schema::names::label_value(value) {
                self.invalid(path, value, message);
            }
        }
    }

    pub(super) fn label_selector(&mut self, path: &str, selector: &Value) {
        self.labels(
            &format!("{path}.matchLabels"),
            &Value::Object(map(selector, "matchLabels").clone()),
        );
        for (index, expression) in list(selector, "matchExpressions").iter().enumerate() {
            let path = format!("{path}.matchExpressions[{index}]");
            let values = list(expression, "values");
            match text(expression, "operator") {
                "In" | "NotIn" if values.is_empty() => self.required_because(
                    format!("{path}.values"),
                    "must be specified when `operator` is 'In' or 'NotIn'",
                ),
                "Exists" | "DoesNotExist" if !values.is_empty() => self.forbidden(
                    format!("{path}.values"),
                    "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
                ),
                "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
                other => self.invalid(
                    format!("{path}.operator"),
                    other,
                    "not a valid selector operator",
                ),
            }
            let key = text(expression, "key");
            for message in schema::names::qualified_name(key) {
                self.invalid(format!("{path}.key"), key, message);
            }
            for (index, value) in values.iter().enumerate() {
                let value = value.as_str().unwrap_or_default();
                for message in schema::names::label_value(value) {
                    self.invalid(format!("{path}.values[{index}]"), value, message);
                }
            }
        }
    }

    /// Non-negative number or percentage.
    pub(super) fn int_or_percent(&mut self, path: &str, value: &Value) {
        match value {
            Value::String(percent) if names::percent(percent).is_none() => {
                self.invalid(path, percent.as_str(), names::PERCENT);
            }
            Value::Number(_) => self.not_negative_at(path, value),
            _ => {}
        }
    }

    /// At most 100%.
    pub(super) fn at_most_all(&mut self, path: &str, value: &Value) {
        let percent = value.as_str().and_then(names::percent);
        if percent.is_some_and(|percent| percent > 100) {
            self.invalid(path, value.clone(), "must not be greater than 100%");
        }
    }
}

pub(super) const IMMUTABLE: &str = "field is immutable";
pub(super) const NOT_NEGATIVE: &str = "must be greater than or equal to 0";
pub(super) const PORT_RANGE: &str = "must be between 1 and 65535, inclusive";

/// Parses a decoded quantity.
pub(super) fn amount(value: &Value) -> Option<Quantity> {
    value.as_str()?.parse().ok()
}

pub(super) fn number_or_percent(value: &Value) -> i64 {
    match value {
        Value::String(percent) => names::percent(percent).unwrap_or_default(),
        other => other.as_i64().unwrap_or_default(),
    }
}
