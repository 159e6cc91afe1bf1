//! Log line of one event.

use std::{collections::BTreeMap, error::Error, fmt};

use jiff::Timestamp;
use serde_json::Value;
use tracing::{
    Level,
    field::{Field, Visit},
};

use crate::text::{is_control, prefix};

/// Container runtimes split lines at 16 KiB; three values of this size still fit.
const MAX_VALUE_BYTES: usize = 4096;

/// An event whose fields are collected one by one.
pub(super) struct Line {
    time: Timestamp,
    level: Level,
    fields: BTreeMap<&'static str, Value>,
}

impl Line {
    pub(super) fn new(time: Timestamp, level: Level) -> Self {
        Self {
            time,
            level,
            fields: BTreeMap::new(),
        }
    }

    /// A JSON object and a newline.
    pub(super) fn json(mut self, leading_fields: &[&str]) -> String {
        let mut out = String::from("{");
        member(&mut out, "timestamp", &Value::String(self.timestamp()));
        let level = self.level.as_str().to_ascii_lowercase();
        member(&mut out, "level", &Value::String(level));
        for name in leading_fields.iter().copied().chain(["message"]) {
            if let Some(value) = self.fields.remove(name) {
                member(&mut out, name, &value);
            }
        }
        for (name, value) in &self.fields {
            member(&mut out, name, value);
        }
        out.push_str("}\n");
        out
    }

    /// Text for people and a newline.
    pub(super) fn text(mut self, leading_fields: &[&'static str]) -> String {
        let mut out = format!("{} {:<5}", self.timestamp(), self.level);
        if let Some(message) = self.fields.remove("message") {
            out.push(' ');
            escape(&mut out, &plain(&message), |c| {
                c.escape_default().to_string()
            });
        }
        let leading = leading_fields
            .iter()
            .filter_map(|name| Some((*name, self.fields.remove(name)?)))
            .collect::<Vec<_>>();
        for (name, value) in leading.into_iter().chain(self.fields) {
            out.push(' ');
            out.push_str(name);
            out.push('=');
            let value = plain(&value);
            // Quoted if it is not one word.
            if value.is_empty() || value.contains([' ', '"', '=']) {
                escape(&mut out, &format!("{value:?}"), |c| {
                    c.escape_default().to_string()
                });
            } else {
                escape(&mut out, &value, |c| c.escape_default().to_string());
            }
        }
        out.push('\n');
        out
    }

    fn timestamp(&self) -> String {
        format!("{:.3}", self.time)
    }

    fn put(&mut self, field: &Field, value: impl Into<Value>) {
        match field.name() {
            // Set by the logger itself.
            "timestamp" | "level" => {}
            name => {
                self.fields.insert(name, value.into());
            }
        }
    }
}

impl Visit for Line {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, cut(value.to_owned()));
    }

    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        let mut text = value.to_string();
        let mut source = value.source();
        while let Some(cause) = source {
            let cause_text = cause.to_string();
            // Many errors include their cause.
            if !text.ends_with(&cause_text) {
                text = format!("{text}: {cause_text}");
            }
            source = cause.source();
        }
        self.put(field, cut(text));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, cut(format!("{value:?}")));
    }
}

/// `text`, cut to [`MAX_VALUE_BYTES`].
fn cut(text: String) -> String {
    if text.len() > MAX_VALUE_BYTES {
        format!("{}…", prefix(&text, MAX_VALUE_BYTES))
    } else {
        text
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn member(out: &mut String, name: &str, value: &Value) {
    if !out.ends_with('{') {
        out.push(',');
    }
    for text in [Value::from(name).to_string(), ":".into(), value.to_string()] {
        // serde_json escapes ASCII control characters only; the others occur in strings only, where
        // JSON allows this escape.
        escape(out, &text, |c| format!("\\u{:04x}", u32::from(c)));
    }
}

/// Appends `text` with control characters and line separators replaced.
fn escape(out: &mut String, text: &str, replace: impl Fn(char) -> String) {
    for character in text.chars() {
        if is_control(character) {
            out.push_str(&replace(character));
        } else {
            out.push(character);
        }
    }
}
