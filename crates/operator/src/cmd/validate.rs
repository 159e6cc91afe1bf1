use std::{
    collections::BTreeMap,
    io::{self, BufWriter, Write},
};

use plan::machine::resolve;

use super::{
    Outcome,
    input::{Entry, Input, Problem},
    written,
};
use crate::{
    manifests::{Inventory, Resource},
    report::Report,
};

/// Say what is wrong with Machines, MachineClasses and NetworkConfigurations
///
/// Holds the documents against the schema and its CEL rules, as the API server does, and resolves
/// Machines, as the operator does, without a cluster. Prints one line for each problem:
/// file:document: field: what is wrong.
///
/// Exit status: 0 no problem, 1 problems, 2 something could not be read.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  kubevirt-operator validate -f machine.yaml
  kubevirt-operator validate -R -f manifests/
  helm template . | kubevirt-operator validate -f -")]
pub(crate) struct Args {
    #[command(flatten)]
    input: Input,
}

impl Args {
    pub(crate) fn run(self, report: &mut Report) -> Outcome {
        let mut loaded = self.input.load(report);
        let found = find_twins(&loaded.entries);
        loaded.problems.extend(found);
        let found = resolve_machines(&loaded.entries, report);
        loaded.problems.extend(found);
        let printed = print(&loaded.problems);
        if loaded.ours > 0 {
            report.summary(summary(loaded.ours, loaded.problems.len()));
        }
        loaded.outcome().max(written(printed, report))
    }
}

fn summary(checked: usize, problems: usize) -> String {
    let plural = |count: usize, noun: &str| match count {
        0 => format!("no {noun}s"),
        1 => format!("1 {noun}"),
        count => format!("{count} {noun}s"),
    };
    format!(
        "checked {}: {}",
        plural(checked, "document"),
        plural(problems, "problem")
    )
}

fn print(problems: &[Problem]) -> io::Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    for problem in problems {
        writeln!(out, "{problem}")?;
    }
    out.flush()
}

/// Two documents for one object: the second would undo the first.
fn find_twins(entries: &[Entry]) -> Vec<Problem> {
    let mut seen = BTreeMap::new();
    let mut problems = Vec::new();
    for Entry {
        origin, resource, ..
    } in entries
    {
        let (kind, metadata) = match resource {
            Resource::Machine(machine) => ("Machine", &machine.metadata),
            Resource::MachineClass(class) => ("MachineClass", &class.metadata),
            Resource::NetworkConfiguration(network) => ("NetworkConfiguration", &network.metadata),
            Resource::StorageClass(_) | Resource::Secret(_) => continue,
        };
        let Some(name) = &metadata.name else { continue };
        if let Some(first) = seen.insert((kind, &metadata.namespace, name), origin) {
            problems.push(Problem {
                origin: origin.clone(),
                path: "metadata.name".to_owned(),
                message: format!("{kind} {name:?} is already given by {first}: remove one of them"),
            });
        }
    }
    problems
}

fn resolve_machines(entries: &[Entry], report: &mut Report) -> Vec<Problem> {
    let inventory = Inventory::of(entries.iter().map(|entry| &entry.resource));
    let mut problems = Vec::new();
    for Entry {
        origin,
        resource,
        broken,
    } in entries
    {
        let Resource::Machine(machine) = resource else {
            continue;
        };
        let surroundings = inventory.surroundings(machine.metadata.namespace.as_ref());
        let errors = resolve(machine, surroundings).err().unwrap_or_default();
        for error in errors {
            if !error.certain {
                report.note(origin, &error.path, &error.message);
            } else if !broken.iter().any(|path| covers(path, &error.path)) {
                problems.push(Problem {
                    origin: origin.clone(),
                    message: format!("{}: {}", error.error_type, error.message),
                    path: error.path,
                });
            }
        }
    }
    problems
}

/// Whether what was said of `said` makes it needless to say something of `path`.
fn covers(said: &str, path: &str) -> bool {
    let within = |outer: &str, inner: &str| {
        inner
            .strip_prefix(outer)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    };
    within(said, path) || within(path, said)
}
