//! Text output of a preview.

use std::{
    fmt::Write as _,
    io::{self, Write},
};

use api::kubevirt::install;
use plan::{
    kubevirt::{
        preflight::{Finding, Severity},
        preview::{End, Rollout, StagePreview},
    },
    preview::{Change, Effect, Verb},
};

use super::Preview;
use crate::{
    effects::{self, CHANGE, Counts, DELETE, HEADING},
    report::printable,
};

/// Labels and annotations that change on every object with the version.
const VERSION_KEYS: [&str; 6] = [
    install::STRATEGY_VERSION,
    install::STRATEGY_REGISTRY,
    install::STRATEGY_IDENTIFIER,
    install::VERSION,
    install::CUSTOMIZER,
    install::GENERATION,
];

impl Preview {
    /// Prints the changes, with colors, and a summary line.
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
            let from = running.map_or(String::new(), |running| format!("{running} -> "));
            // Writing to a String does not fail.
            let _ = write!(heading, ": {from}{version} from {registry}");
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
            (0, 0) => "Preflight: passed".to_owned(),
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
        let changes = if self.has_changes() {
            let issued = effects().filter(|it| it.verb == Verb::Issue).count();
            let mut changes = format!("Plan: {}", Counts::of(effects()));
            if issued > 0 {
                let _ = write!(changes, ", {} to issue", several(issued, "certificate"));
            }
            changes.push('.');
            changes
        } else {
            "No changes.".to_owned()
        };
        match &self.forecast.end {
            End::Deployed => changes,
            End::Deleted => format!("{changes} The installation is then removed completely."),
            End::Strategy => format!(
                "{changes} A Job writes the install strategy of the release first; its objects are \
                 not known before. Pass the strategy with --strategy FILE to preview them."
            ),
            End::Stuck { stage, .. } => {
                format!("{changes} The rollout stops at {}.", stage.reason())
            }
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
        Counts::of(effects)
    )?;
    let (relabeled, others): (Vec<&Effect>, Vec<&Effect>) =
        effects.iter().partition(|effect| is_relabeled(effect));
    for effect in others {
        print_effect(effect, out)?;
    }
    if !relabeled.is_empty() {
        let objects = several(relabeled.len(), "object");
        let line = format!("~ {objects}: only labels and annotations of the version change");
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
        fields,
    } = effect;
    let line = match verb {
        Verb::Issue => format!("* {id}: a certificate is issued"),
        Verb::Empty => format!("- all objects of {}", id.name),
        verb => format!("{} {id}", effects::sign(*verb)),
    };
    let reason = if !reason.is_empty() && *verb != Verb::Create {
        format!(" ({reason})")
    } else {
        String::new()
    };
    let fields = fields.iter().filter(|field| !is_version_key(field));
    effects::print(*verb, &line, &reason, fields, out)
}

/// Whether only labels and annotations of the version change.
fn is_relabeled(effect: &Effect) -> bool {
    let mut fields = effect.fields.iter();
    effect.verb == Verb::Change && !effect.fields.is_empty() && fields.all(is_version_key)
}

fn is_version_key(field: &Change) -> bool {
    let name = field.path.strip_suffix(']');
    let name = name.and_then(|path| path.rsplit_once('['));
    name.is_some_and(|(_, name)| VERSION_KEYS.contains(&name))
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
        several(*pods, "node")
    } else {
        several(*pods, "pod")
    };
    if *replaced > 0 {
        let _ = write!(line, ", {replaced} replaced");
    }
    if *canary && *pods > 1 {
        line.push_str(": a canary on one node first, then 10% of the nodes at a time");
    }
    let line = format!("> {}: wait for the rollout to {line}", id.name);
    writeln!(out, "  {}", printable(&line))
}

/// Count with a noun in singular or plural.
fn several(count: usize, thing: &str) -> String {
    match count {
        1 => format!("1 {thing}"),
        count => format!("{count} {thing}s"),
    }
}
