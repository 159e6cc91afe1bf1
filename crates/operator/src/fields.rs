//! Text output of changed fields.

use std::io::{self, Write};

use anstyle::{AnsiColor, Style};
use plan::preview::Change;
use serde_json::Value;

use crate::report::printable;

pub(crate) const CREATE: Style = AnsiColor::Green.on_default();
pub(crate) const CHANGE: Style = AnsiColor::Yellow.on_default();
pub(crate) const DELETE: Style = AnsiColor::Red.on_default();
pub(crate) const HEADING: Style = Style::new().bold();
const PLAIN: Style = Style::new();

/// Maximum number of characters of a value.
const MAX_VALUE_CHARS: usize = 100;

/// Prints a field with its old and new value.
pub(crate) fn print(field: &Change, out: &mut impl Write) -> io::Result<()> {
    let Change { path, from, to } = field;
    let path = printable(path);
    match (from, to) {
        (None, None) => writeln!(out, "      {path}: {CHANGE}(not shown){CHANGE:#}"),
        (None, Some(to)) => writeln!(out, "      {path}: {CREATE}{}{CREATE:#}", shown(to)),
        (Some(from), None) => writeln!(
            out,
            "      {path}: {DELETE}{}{DELETE:#} -> {PLAIN}(removed)",
            shown(from)
        ),
        (Some(from), Some(to)) => writeln!(
            out,
            "      {path}: {DELETE}{}{DELETE:#} -> {CREATE}{}{CREATE:#}",
            shown(from),
            shown(to)
        ),
    }
}

/// Value on one line, shortened.
fn shown(value: &Value) -> String {
    let text = match value {
        Value::String(text) if text.is_empty() => "\"\"".to_owned(),
        Value::String(text) => text.clone(),
        value => value.to_string(),
    };
    let text = printable(&text);
    match text.char_indices().nth(MAX_VALUE_CHARS) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()),
        None => text,
    }
}

/// Number of objects by change.
#[derive(Clone, Copy, Default)]
pub(crate) struct Counts {
    pub(crate) create: usize,
    pub(crate) change: usize,
    pub(crate) delete: usize,
}

impl std::fmt::Display for Counts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            create,
            change,
            delete,
        } = self;
        write!(
            f,
            "{create} to create, {change} to change, {delete} to delete"
        )
    }
}
