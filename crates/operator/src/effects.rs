//! Text output of the effects of a preview.

use std::io::{self, Write};

use anstyle::{AnsiColor, Style};
use plan::preview::{Change, Effect, Verb};
use serde_json::Value;

use crate::report::printable;

const CREATE: Style = AnsiColor::Green.on_default();
pub(crate) const CHANGE: Style = AnsiColor::Yellow.on_default();
pub(crate) const DELETE: Style = AnsiColor::Red.on_default();
pub(crate) const HEADING: Style = Style::new().bold();
const PLAIN: Style = Style::new();

/// Maximum number of characters of a value.
const MAX_VALUE_CHARS: usize = 100;

/// Sign before an object.
pub(crate) fn sign(verb: Verb) -> &'static str {
    match verb {
        Verb::Create => "+",
        Verb::Change => "~",
        Verb::Replace => "-/+",
        Verb::Issue => "*",
        Verb::Delete | Verb::Empty => "-",
    }
}

/// Prints a line about an object, a remark without color, and its changed fields.
pub(crate) fn print<'a>(
    verb: Verb,
    line: &str,
    remark: &str,
    fields: impl IntoIterator<Item = &'a Change>,
    out: &mut (impl Write + ?Sized),
) -> io::Result<()> {
    let style = match verb {
        Verb::Create | Verb::Issue => CREATE,
        Verb::Change => CHANGE,
        Verb::Replace | Verb::Delete | Verb::Empty => DELETE,
    };
    let (line, remark) = (printable(&line), printable(&remark));
    writeln!(out, "  {style}{line}{style:#}{remark}")?;
    for field in fields {
        print_field(field, out)?;
    }
    Ok(())
}

/// Prints a field with its old and new value.
fn print_field(field: &Change, out: &mut (impl Write + ?Sized)) -> io::Result<()> {
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
    create: usize,
    change: usize,
    delete: usize,
}

impl Counts {
    pub(crate) fn of<'a>(effects: impl IntoIterator<Item = &'a Effect>) -> Self {
        let mut counts = Self::default();
        for effect in effects {
            match effect.verb {
                Verb::Create => counts.create += 1,
                Verb::Change => counts.change += 1,
                Verb::Replace => {
                    counts.delete += 1;
                    counts.create += 1;
                }
                Verb::Delete | Verb::Empty => counts.delete += 1,
                Verb::Issue => {}
            }
        }
        counts
    }
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
