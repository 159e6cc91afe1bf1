//! Command `doctor`: what keeps a Machine from running, and the remedy.
//!
//! The decision is `plan::diagnosis`; this command reads what it needs, and prints it.

mod observe;

use std::{collections::BTreeMap, fmt::Write as _};

use anstyle::{AnsiColor, Style};
use api::Time;
use clap::Args;
use plan::{
    diagnosis::{Diagnosis, Finding, Link, Severity, diagnose, walk},
    machine::Provider,
};
use serde_json::{Value, json};

use crate::{
    failure::{ExitCode, Failure},
    family::Fleet,
    output::Data,
    read::{name, namespace},
    session::{Session, printable},
};

const BOLD: Style = Style::new().bold();
const BROKEN: Style = AnsiColor::Red.on_default().bold();
const DEGRADED: Style = AnsiColor::Yellow.on_default().bold();
const HEALTHY: Style = AnsiColor::Green.on_default().bold();

/// Name the first cause that keeps a Machine from running, and the remedy
///
/// Walks the Machine, its VirtualMachine, instance, pods, claims, DataVolumes, networks, nodes and Events.
/// What the user may not read is left out, with a note.
///
/// Exit code: 0 no problem, 2 a problem, 1 an error.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  kubectl machine doctor web
  kubectl machine doctor --all -A
  kubectl machine doctor web -o json")]
pub struct Doctor {
    /// Name of the Machine
    #[arg(
        value_name = "NAME",
        required_unless_present = "all",
        conflicts_with = "all"
    )]
    name: Option<String>,

    /// All Machines of the namespace, grouped by cause
    #[arg(long)]
    all: bool,

    /// All namespaces
    #[arg(short = 'A', long, requires = "all")]
    all_namespaces: bool,

    /// Provider of the operator in this cluster
    #[arg(long, value_name = "NAME", default_value = "kubevirt")]
    machine_provider: String,

    /// Output format
    #[arg(short, long, value_enum)]
    output: Option<Data>,
}

/// A Machine with its diagnosis.
struct Patient {
    namespace: String,
    name: String,
    diagnosis: Diagnosis,
    links: Vec<Link>,
}

impl Doctor {
    pub(crate) async fn run(self, session: &mut Session) -> Result<ExitCode, Failure> {
        let place = (!self.all_namespaces).then(|| session.namespace.clone());
        let fleet = Fleet::read(session, place.as_deref()).await?;
        let machines: Vec<&Value> = match &self.name {
            Some(name) => vec![fleet.machine(&session.namespace, name)?],
            None => fleet.machines.iter().collect(),
        };
        if machines.is_empty() {
            session.note("no Machines found");
            return Ok(ExitCode::Done);
        }
        let virt_api = observe::virt_api(session, &fleet).await;
        let provider = Provider::new(&self.machine_provider);
        let now = Time(session.now());
        let mut patients = Vec::new();
        for machine in machines {
            let observed = observe::observed(&fleet, machine, &provider, virt_api.as_deref())?;
            patients.push(Patient {
                namespace: namespace(machine).to_owned(),
                name: name(machine).to_owned(),
                diagnosis: diagnose(&observed, &now),
                links: walk(&observed),
            });
        }
        let printed = match (self.output, patients.as_slice()) {
            (Some(data), [patient]) if self.name.is_some() => data.print(&as_json(patient))?,
            (Some(data), all) => data.print(&all.iter().map(as_json).collect())?,
            (None, [patient]) if self.name.is_some() => one(patient),
            (None, all) => groups(all),
        };
        session.out.write_all(printed.as_bytes())?;
        session.out.flush()?;
        for note in &fleet.notes {
            session.note(note);
        }
        let has_problem =
            |patient: &Patient| patient.diagnosis.verdict.severity <= Severity::Degraded;
        Ok(if patients.iter().any(has_problem) {
            ExitCode::Found
        } else {
            ExitCode::Done
        })
    }
}

fn style(severity: Severity) -> Style {
    match severity {
        Severity::Broken => BROKEN,
        Severity::Degraded => DEGRADED,
        Severity::Progressing | Severity::Healthy => HEALTHY,
    }
}

fn one(patient: &Patient) -> String {
    let Patient {
        namespace,
        name,
        diagnosis: Diagnosis { verdict, others },
        links,
    } = patient;
    let color = style(verdict.severity);
    let mut text = String::new();
    // Writing to a String does not fail.
    let _ = writeln!(
        text,
        "{BOLD}Machine {namespace}/{name}{BOLD:#} {color}{}{color:#}: {}",
        verdict.severity.as_str(),
        verdict.cause
    );
    describe(verdict, "  ", &mut text);
    for other in others {
        let _ = writeln!(text, "Also {}: {}", other.severity.as_str(), other.cause);
        describe(other, "  ", &mut text);
    }
    let width = links
        .iter()
        .map(|link| link.kind.len() + link.name.len() + 1)
        .max();
    let width = width.unwrap_or_default();
    text.push_str("Walked:\n");
    for Link { kind, name, state } in links {
        let object = format!("{kind}/{name}");
        let _ = writeln!(
            text,
            "  {:width$}   {}",
            printable(&object),
            printable(state)
        );
    }
    text
}

fn describe(finding: &Finding, indent: &str, text: &mut String) {
    let Finding {
        object,
        message,
        remedy,
        ..
    } = finding;
    let _ = writeln!(
        text,
        "{indent}{}: {}",
        printable(object),
        printable(message)
    );
    if !remedy.is_empty() {
        let _ = writeln!(text, "{indent}Remedy: {}", printable(remedy));
    }
}

/// A fleet by severity and cause, the most severe and most frequent first.
fn groups(patients: &[Patient]) -> String {
    let mut groups: BTreeMap<(Severity, String), Vec<&Patient>> = BTreeMap::new();
    for patient in patients {
        let verdict = &patient.diagnosis.verdict;
        let key = (verdict.severity, verdict.cause.to_string());
        groups.entry(key).or_default().push(patient);
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|((severity, _), patients)| (*severity, usize::MAX - patients.len()));
    let mut text = String::new();
    for ((severity, cause), patients) in groups {
        let color = style(severity);
        let noun = if patients.len() == 1 {
            "Machine"
        } else {
            "Machines"
        };
        let _ = writeln!(
            text,
            "{color}{}{color:#}: {cause}: {} {noun}",
            severity.as_str(),
            patients.len()
        );
        for patient in &patients {
            let Patient {
                namespace, name, ..
            } = patient;
            let verdict = &patient.diagnosis.verdict;
            match severity {
                Severity::Healthy | Severity::Progressing => {
                    let _ = writeln!(text, "  {namespace}/{name}");
                }
                Severity::Broken | Severity::Degraded => {
                    let _ = writeln!(
                        text,
                        "  {namespace}/{name}: {}: {}",
                        printable(&verdict.object),
                        printable(&verdict.message)
                    );
                }
            }
        }
        let first = patients
            .first()
            .map_or("", |patient| &patient.diagnosis.verdict.remedy);
        if !first.is_empty() {
            let _ = writeln!(text, "  Remedy: {}", printable(first));
        }
    }
    text
}

fn as_json(patient: &Patient) -> Value {
    let Diagnosis { verdict, others } = &patient.diagnosis;
    let links: Vec<Value> = patient
        .links
        .iter()
        .map(|link| json!({ "kind": link.kind, "name": link.name, "state": link.state }))
        .collect();
    let mut value = finding(verdict);
    value["namespace"] = patient.namespace.clone().into();
    value["name"] = patient.name.clone().into();
    value["others"] = others.iter().map(finding).collect();
    value["walked"] = links.into();
    value
}

fn finding(finding: &Finding) -> Value {
    json!({
        "severity": finding.severity.as_str(),
        "cause": finding.cause.to_string(),
        "object": finding.object,
        "message": finding.message,
        "remedy": finding.remedy,
    })
}
