//! Text output of a preview.

use std::{
    fmt::Write as _,
    io::{self, Write},
};

use plan::{
    machine::preview::{Forecast, Restart},
    preview::Effect,
};

use super::Preview;
use crate::{
    effects::{self, CHANGE, Counts, HEADING},
    report::printable,
};

impl Preview {
    /// Prints the changes, with colors, and a summary line.
    pub fn print(&self, out: &mut (impl Write + ?Sized)) -> io::Result<()> {
        for forecast in &self.forecasts {
            print_forecast(forecast, out)?;
        }
        let left_out = self.errors.len() + self.unread;
        writeln!(out, "{}", summary(&self.forecasts, left_out))
    }
}

fn print_forecast(forecast: &Forecast, out: &mut (impl Write + ?Sized)) -> io::Result<()> {
    let Forecast {
        id,
        effects,
        restart,
        notes,
    } = forecast;
    let mut heading = format!("{id}: {}", Counts::of(effects));
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
            "  {CHANGE}!{CHANGE:#} takes effect at the next restart of the guest: {fields}"
        )?;
    }
    for note in notes {
        writeln!(out, "  {CHANGE}!{CHANGE:#} {}", printable(note))?;
    }
    writeln!(out)
}

fn print_effect(effect: &Effect, out: &mut (impl Write + ?Sized)) -> io::Result<()> {
    let Effect {
        verb,
        id,
        reason,
        fields,
    } = effect;
    let mut line = format!("{} {} {}", effects::sign(*verb), id.kind, id.name);
    if !reason.is_empty() {
        // Writing to a String does not fail.
        let _ = write!(line, " ({reason})");
    }
    effects::print(*verb, &line, "", fields, out)
}

/// Summary of the changes. `left_out` is the number of errors: without what they are about, nobody knows
/// whether there would be changes.
fn summary(forecasts: &[Forecast], left_out: usize) -> String {
    let effects = || forecasts.iter().flat_map(|forecast| &forecast.effects);
    let errors = match left_out {
        1 => "1 error".to_owned(),
        count => format!("{count} errors"),
    };
    match (effects().next().is_none(), left_out) {
        (true, 0) => return "No changes.".to_owned(),
        (true, _) => return format!("The plan is incomplete: {errors}."),
        (false, _) => {}
    }
    let count = |is_one: fn(&Restart) -> bool| {
        let restarts = forecasts.iter().map(|forecast| &forecast.restart);
        restarts.filter(|restart| is_one(restart)).count()
    };
    let happen = count(|restart| matches!(restart, Restart::Happens));
    let needed = count(|restart| matches!(restart, Restart::Needed(_)));
    let mut summary = format!("Plan: {}", Counts::of(effects()));
    for (count, what) in [(happen, "restarted"), (needed, "to restart manually")] {
        if count > 0 {
            // Writing to a String does not fail.
            let _ = write!(summary, ", {count} {what}");
        }
    }
    if left_out > 0 {
        // Writing to a String does not fail.
        let _ = write!(summary, "; the plan is incomplete: {errors}");
    }
    summary.push('.');
    summary
}
