//! What would change, for people to read.

use std::{
    fmt::Write as _,
    io::{self, Write},
};

use anstyle::{AnsiColor, Style};
use plan::preview::Change;
use serde_json::Value;

use super::{Effect, Forecast, Preview, Restart, Verb};
use crate::report::printable;

const CREATE: Style = AnsiColor::Green.on_default();
const CHANGE: Style = AnsiColor::Yellow.on_default();
const DELETE: Style = AnsiColor::Red.on_default();
const HEADING: Style = Style::new().bold();
const PLAIN: Style = Style::new();

/// As much of a value is shown.
const LONGEST_VALUE: usize = 100;

impl Preview {
    /// Prints what would change, in colours, and a line that sums it up.
    pub fn print(&self, out: &mut impl Write) -> io::Result<()> {
        for forecast in &self.forecasts {
            print_forecast(forecast, out)?;
        }
        writeln!(out, "{}", summary(&self.forecasts))
    }
}

fn print_forecast(forecast: &Forecast, out: &mut impl Write) -> io::Result<()> {
    let Forecast {
        kind,
        key,
        effects,
        restart,
        remarks,
    } = forecast;
    let mut heading = format!("{} {key}: {}", kind.as_str(), Counts::of(effects));
    match restart {
        Restart::None => {}
        Restart::Happens => heading.push_str(", restarts"),
        Restart::Needed(_) => heading.push_str(", restart needed"),
    }
    writeln!(out, "{HEADING}{}{HEADING:#}", printable(&heading))?;
    for effect in effects {
        print_effect(effect, out)?;
    }
    if let Restart::Needed(fields) = restart {
        let fields = printable(&fields.join(", "));
        writeln!(
            out,
            "  {CHANGE}!{CHANGE:#} waits for a restart of the guest: {fields}"
        )?;
    }
    for remark in remarks {
        writeln!(out, "  {CHANGE}!{CHANGE:#} {}", printable(remark))?;
    }
    writeln!(out)
}

fn print_effect(effect: &Effect, out: &mut impl Write) -> io::Result<()> {
    let Effect {
        verb,
        kind,
        name,
        remark,
        fields,
    } = effect;
    let (sign, style) = match verb {
        Verb::Create => ('+', CREATE),
        Verb::Change => ('~', CHANGE),
        Verb::Delete => ('-', DELETE),
    };
    let mut line = format!("{sign} {kind} {name}");
    if !remark.is_empty() {
        // Writing to a String does not fail.
        let _ = write!(line, " ({remark})");
    }
    writeln!(out, "  {style}{}{style:#}", printable(&line))?;
    for Change { path, from, to } in fields {
        let path = printable(path);
        match (from, to) {
            (None, None) => writeln!(out, "      {path}: {CHANGE}(not shown){CHANGE:#}")?,
            (None, Some(to)) => writeln!(out, "      {path}: {CREATE}{}{CREATE:#}", shown(to))?,
            (Some(from), None) => writeln!(
                out,
                "      {path}: {DELETE}{}{DELETE:#} -> {PLAIN}(removed)",
                shown(from)
            )?,
            (Some(from), Some(to)) => writeln!(
                out,
                "      {path}: {DELETE}{}{DELETE:#} -> {CREATE}{}{CREATE:#}",
                shown(from),
                shown(to)
            )?,
        }
    }
    Ok(())
}

/// A value on one line, shortened.
fn shown(value: &Value) -> String {
    let text = match value {
        Value::String(text) if text.is_empty() => "\"\"".to_owned(),
        Value::String(text) => text.clone(),
        value => value.to_string(),
    };
    let text = printable(&text);
    match text.char_indices().nth(LONGEST_VALUE) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()),
        None => text,
    }
}

/// How many objects are written to, and how.
#[derive(Default)]
struct Counts {
    create: usize,
    change: usize,
    delete: usize,
}

impl Counts {
    fn of<'a>(effects: impl IntoIterator<Item = &'a Effect>) -> Self {
        let mut counts = Self::default();
        for effect in effects {
            match effect.verb {
                Verb::Create => counts.create += 1,
                Verb::Change => counts.change += 1,
                Verb::Delete => counts.delete += 1,
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

fn summary(forecasts: &[Forecast]) -> String {
    let effects = || forecasts.iter().flat_map(|forecast| &forecast.effects);
    if effects().next().is_none() {
        return "Nothing would change.".to_owned();
    }
    let count = |is_one: fn(&Restart) -> bool| {
        let restarts = forecasts.iter().map(|forecast| &forecast.restart);
        restarts.filter(|restart| is_one(restart)).count()
    };
    let happen = count(|restart| matches!(restart, Restart::Happens));
    let needed = count(|restart| matches!(restart, Restart::Needed(_)));
    let mut summary = format!("In all: {}", Counts::of(effects()));
    for (count, what) in [(happen, "restarted"), (needed, "to restart by hand")] {
        if count > 0 {
            // Writing to a String does not fail.
            let _ = write!(summary, ", {count} {what}");
        }
    }
    summary.push('.');
    summary
}
