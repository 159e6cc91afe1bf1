//! What would be done, for people to read.

use std::{
    fmt::Write as _,
    io::{self, Write},
};

use api::kubevirt::install;
use plan::{
    kubevirt::{
        preflight::{Finding, Severity},
        preview::{Effect, End, Rollout, StagePreview, Verb},
    },
    preview::Change,
};

use super::Preview;
use crate::{
    fields::{self, CHANGE, CREATE, Counts, DELETE, HEADING},
    report::printable,
};

/// Labels and annotations that every object of a version has: they are told by the version.
const MARKS: [&str; 6] = [
    install::STRATEGY_VERSION,
    install::STRATEGY_REGISTRY,
    install::STRATEGY_IDENTIFIER,
    install::VERSION,
    install::CUSTOMIZER,
    install::GENERATION,
];

impl Preview {
    /// Prints what would be done, in colours, and a line that sums it up.
    pub fn print(&self, out: &mut impl Write) -> io::Result<()> {
        self.print_resource(out)?;
        self.print_findings(out)?;
        for (number, stage) in self.forecast.stages.iter().enumerate() {
            print_stage(number + 1, stage, out)?;
        }
        for wait in &self.forecast.waits {
            let line = format!("{} {}", wait.id, wait.message);
            writeln!(out, "{CHANGE}now:{CHANGE:#} {}", printable(&line))?;
        }
        for note in &self.forecast.notes {
            writeln!(out, "{CHANGE}then:{CHANGE:#} {}", printable(note))?;
        }
        writeln!(out, "{}", printable(&self.summary()))
    }

    fn print_resource(&self, out: &mut impl Write) -> io::Result<()> {
        let mut heading = self.resource.to_string();
        if let Some((version, registry)) = &self.version {
            let running = self.running.as_ref().filter(|running| *running != version);
            let way = running.map_or(String::new(), |running| format!("{running} -> "));
            // Writing to a String does not fail.
            let _ = write!(heading, ": {way}{version} from {registry}");
        }
        writeln!(out, "{HEADING}{}{HEADING:#}", printable(&heading))?;
        if let Some(own) = &self.own {
            print_effect(own, out)?;
        }
        writeln!(out)
    }

    fn print_findings(&self, out: &mut impl Write) -> io::Result<()> {
        let count = |severity: Severity| {
            let findings = self.findings.iter();
            findings.filter(|it| it.severity == severity).count()
        };
        let heading = match (count(Severity::Error), count(Severity::Warning)) {
            (0, 0) => "Preflight: nothing stands in the way".to_owned(),
            (errors, warnings) => format!(
                "Preflight: {}, {}",
                several(errors, "error"),
                several(warnings, "warning")
            ),
        };
        writeln!(out, "{HEADING}{heading}{HEADING:#}")?;
        for finding in &self.findings {
            print_finding(finding, out)?;
        }
        writeln!(out)
    }

    fn summary(&self) -> String {
        let stages = self.forecast.stages.iter();
        let effects = || {
            let stages = stages.clone();
            self.own
                .iter()
                .chain(stages.flat_map(|stage| &stage.effects))
        };
        let what = if self.has_changes() {
            let issued = effects().filter(|it| it.verb == Verb::Issue).count();
            let mut what = format!("In all: {}", counts(effects()));
            if issued > 0 {
                let _ = write!(what, ", {} to issue", several(issued, "certificate"));
            }
            what.push('.');
            what
        } else {
            "Nothing would change.".to_owned()
        };
        match &self.forecast.end {
            End::Deployed => what,
            End::Deleted => format!("{what} Then nothing is left."),
            End::Strategy => format!(
                "{what} A Job writes the install strategy of the release first: what it brings, \
                 and whether the cluster lets it in, is not known before. --strategy FILE tells."
            ),
            End::Stuck { stage, .. } => format!("{what} It does not go on at {}.", stage.reason()),
        }
    }
}

fn print_finding(finding: &Finding, out: &mut impl Write) -> io::Result<()> {
    let Finding {
        severity,
        subject,
        message,
        remedy,
    } = finding;
    let (sign, style) = match severity {
        Severity::Error => ('x', DELETE),
        Severity::Warning => ('!', CHANGE),
    };
    let line = format!("{subject}: {message}");
    writeln!(out, "  {style}{sign}{style:#} {}", printable(&line))?;
    writeln!(out, "      {}", printable(remedy))
}

fn print_stage(number: usize, stage: &StagePreview, out: &mut impl Write) -> io::Result<()> {
    let StagePreview {
        stage,
        effects,
        rollouts,
    } = stage;
    writeln!(
        out,
        "{HEADING}{number}. {}: {}{HEADING:#}",
        stage.reason(),
        counts(effects)
    )?;
    let (marked, others): (Vec<&Effect>, Vec<&Effect>) =
        effects.iter().partition(|effect| is_marked(effect));
    for effect in others {
        print_effect(effect, out)?;
    }
    if !marked.is_empty() {
        let objects = several(marked.len(), "object");
        let line = format!("~ {objects}, of which only the marks of the version change");
        writeln!(out, "  {CHANGE}{line}{CHANGE:#}")?;
    }
    for rollout in rollouts {
        print_rollout(rollout, out)?;
    }
    writeln!(out)
}

fn print_effect(effect: &Effect, out: &mut impl Write) -> io::Result<()> {
    let Effect {
        verb,
        id,
        reason,
        fields: changed,
    } = effect;
    let (line, style) = match verb {
        Verb::Create => (format!("+ {id}"), CREATE),
        Verb::Change => (format!("~ {id}"), CHANGE),
        Verb::Replace => (format!("-/+ {id}"), DELETE),
        Verb::Issue => (format!("* {id}: a certificate is issued"), CREATE),
        Verb::Delete => (format!("- {id}"), DELETE),
        Verb::Empty => (format!("- all objects of {}", id.name), DELETE),
    };
    let told = !reason.is_empty() && *verb != Verb::Create;
    let remark = if told {
        format!(" ({reason})")
    } else {
        String::new()
    };
    let line = printable(&line);
    writeln!(out, "  {style}{line}{style:#}{}", printable(&remark))?;
    for field in changed.iter().filter(|field| !is_mark(field)) {
        fields::print(field, out)?;
    }
    Ok(())
}

/// Whether nothing but the marks of the version changes.
fn is_marked(effect: &Effect) -> bool {
    effect.verb == Verb::Change && !effect.fields.is_empty() && effect.fields.iter().all(is_mark)
}

fn is_mark(field: &Change) -> bool {
    let name = field.path.strip_suffix(']');
    let name = name.and_then(|path| path.rsplit_once('['));
    name.is_some_and(|(_, name)| MARKS.contains(&name))
}

fn print_rollout(rollout: &Rollout, out: &mut impl Write) -> io::Result<()> {
    let Rollout {
        id,
        pods,
        replaced,
        canary,
    } = rollout;
    let on_nodes = id.is("apps", "DaemonSet");
    let mut line = if on_nodes {
        format!("on {}", several(*pods, "node"))
    } else {
        several(*pods, "pod")
    };
    if *replaced > 0 {
        let _ = write!(line, ", {replaced} replaced");
    }
    if *canary && *pods > 1 {
        line.push_str(": one node first, then a tenth of them at a time");
    }
    let line = format!("> {} rolls out {line}, and is waited for", id.name);
    writeln!(out, "  {}", printable(&line))
}

fn counts<'a>(effects: impl IntoIterator<Item = &'a Effect>) -> Counts {
    let mut counts = Counts::default();
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

/// So many of a thing.
fn several(count: usize, thing: &str) -> String {
    match count {
        1 => format!("1 {thing}"),
        count => format!("{count} {thing}s"),
    }
}
