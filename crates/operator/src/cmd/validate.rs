//! Command `validate`.

mod strict;

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, BufWriter, Write},
};

use plan::{
    machine::{
        Note, Provider, ResolvedMachine, ignored_switches, labels_not_passed_on, nothing_to_boot,
        resolve,
    },
    naming,
};

use serde_json::{Value, json};

use super::{
    Outcome,
    findings::{self, Finding, Format},
    input::{Entry, Input, Loaded, OTHER_PROVIDER, Problem, Unreadable},
    written,
};
use crate::{
    documents::Origin,
    manifests::{Inventory, Resource},
    report::Report,
};

/// Validate Machines, MachineClasses and NetworkConfigurations
///
/// Checks the documents against the schema and its CEL rules, as the API server does, and resolves
/// Machines, as the operator does, without a cluster. Prints one line for each problem:
/// file:document: field: message. The other formats have line and column of the field instead.
///
/// Exit status: 0 no problems, 1 problems, 2 a file cannot be read.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  kubevirt-operator validate -f machine.yaml
  kubevirt-operator validate -R -f manifests/
  kubevirt-operator validate --strict -o github manifests/
  helm template . | kubevirt-operator validate -f -")]
pub(crate) struct Args {
    #[command(flatten)]
    input: Input,

    /// Also refuse documents of unknown API groups, and cloud-init data that cloud-init cannot read
    #[arg(long)]
    strict: bool,

    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

impl Args {
    pub(crate) fn run(self, report: &mut Report) -> Outcome {
        report.record_notes();
        let mut loaded = self.input.load(report);
        let found = find_duplicates(&loaded.entries);
        loaded.problems.extend(found);
        let found = resolve_machines(&loaded.entries, self.input.provider(), report);
        loaded.problems.extend(found);
        if self.strict {
            let found = strict_problems(&loaded);
            loaded.problems.extend(found);
        }
        let printed = self.print(&loaded, &report.recorded_notes());
        if loaded.checked > 0 || loaded.unreadable.is_none() {
            report.summary(summary(&loaded));
        }
        loaded.outcome().max(written(printed, report))
    }
}

impl Args {
    fn print(&self, loaded: &Loaded, notes: &[(Origin, String, String)]) -> io::Result<()> {
        if self.output == Format::Text {
            return print(&loaded.problems);
        }
        let problems = loaded.problems.iter();
        let mut problems: Vec<Finding> = problems
            .map(|it| Finding::error(&it.origin, &it.path, &it.message))
            .collect();
        problems.extend(loaded.failures.iter().cloned());
        let notes = notes.iter();
        let notes: Vec<Finding> = notes
            .map(|(origin, path, message)| Finding::note(origin, path, message))
            .collect();
        let all = [problems.as_slice(), &notes].concat();
        let text = match self.output {
            Format::Text => return Ok(()),
            Format::Json => format!("{:#}\n", as_json(loaded, &problems, &notes)),
            Format::Sarif => format!("{:#}\n", findings::sarif("validate", &all, &loaded.texts)),
            Format::Github => findings::github("validate", &all, &loaded.texts),
        };
        io::stdout().write_all(text.as_bytes())
    }
}

fn as_json(loaded: &Loaded, problems: &[Finding], notes: &[Finding]) -> Value {
    json!({
        "checked": loaded.checked,
        "isValid": problems.is_empty(),
        "problems": findings::as_json(problems, &loaded.texts),
        "notes": findings::as_json(notes, &loaded.texts),
    })
}

/// Problems that only `--strict` reports.
fn strict_problems(loaded: &Loaded) -> Vec<Problem> {
    let ignored = loaded.ignored.iter().filter_map(|document| {
        Some(Problem {
            origin: document.origin.clone(),
            path: "apiVersion".to_owned(),
            message: strict::unknown_group(&document.value)?,
        })
    });
    let entries = loaded.entries.iter();
    let cloud_init = entries.flat_map(|entry| {
        let found = match &entry.resource {
            Resource::Machine(machine) => strict::cloud_init(machine),
            _ => Vec::new(),
        };
        found.into_iter().map(|(path, message)| Problem {
            origin: entry.origin.clone(),
            path,
            message,
        })
    });
    ignored.chain(cloud_init).collect()
}

fn summary(loaded: &Loaded) -> String {
    let plural = |count: usize, noun: &str| match count {
        0 => format!("no {noun}s"),
        1 => format!("1 {noun}"),
        count => format!("{count} {noun}s"),
    };
    let unread = match loaded.unreadable {
        Some(Unreadable) => "; not all files could be read",
        None => "",
    };
    format!(
        "checked {}: {}{unread}",
        plural(loaded.checked, "document"),
        plural(loaded.problems.len(), "problem")
    )
}

fn print(problems: &[Problem]) -> io::Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    for problem in problems {
        writeln!(out, "{problem}")?;
    }
    out.flush()
}

/// Documents that define the same object: the second would overwrite the first.
fn find_duplicates(entries: &[Entry]) -> Vec<Problem> {
    let mut origins = BTreeMap::new();
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
        if let Some(first) = origins.insert((kind, &metadata.namespace, name), origin) {
            problems.push(Problem {
                origin: origin.clone(),
                path: "metadata.name".to_owned(),
                message: format!(
                    "{kind} {name:?} is already defined in {first}: remove one of them"
                ),
            });
        }
    }
    problems
}

fn resolve_machines(entries: &[Entry], provider: Provider, report: &mut Report) -> Vec<Problem> {
    let inventory = Inventory::of(entries.iter().map(|entry| &entry.resource), provider);
    let mut names = Names::default();
    let mut problems = Vec::new();
    for entry in entries {
        let Resource::Machine(machine) = &entry.resource else {
            continue;
        };
        let surroundings = inventory.surroundings(machine.metadata.namespace.as_ref());
        if !surroundings.provider.is_named_by(machine) {
            report.note(&entry.origin, "spec.provider", OTHER_PROVIDER);
            continue;
        }
        let notes = ignored_switches(machine).into_iter();
        for Note { path, message } in
            notes.chain(labels_not_passed_on(machine, &surroundings.passed_on))
        {
            report.note(&entry.origin, &path, &message);
        }
        let errors = match resolve(machine, surroundings) {
            Ok(resolution) => {
                problems.extend(names.claim(&entry.origin, &resolution.machine));
                if let Some(Note { path, message }) = nothing_to_boot(machine, &resolution.machine)
                {
                    report.note(&entry.origin, &path, &message);
                }
                continue;
            }
            Err(errors) => errors,
        };
        let unreported = errors
            .into_iter()
            .filter(|error| !covered(&entry.invalid_fields, &error.path));
        for error in unreported {
            if error.certain {
                problems.push(Problem {
                    origin: entry.origin.clone(),
                    message: format!("{}: {}", error.error_type, error.message),
                    path: error.path,
                });
            } else {
                report.note(&entry.origin, &error.path, &error.message);
            }
        }
    }
    problems
}

/// Names of the objects of Machines: two Machines cannot have the same child.
#[derive(Default)]
struct Names(BTreeMap<(Option<String>, &'static str, String), (String, Origin)>);

impl Names {
    fn claim(&mut self, origin: &Origin, machine: &ResolvedMachine) -> Vec<Problem> {
        let identity = &machine.identity;
        let vm = ("spec.name", "VirtualMachine", machine.vm_name.clone());
        let disks = machine.disks.iter().map(|disk| {
            let claim = naming::claim(&identity.name, &disk.name);
            ("spec.disks", "PersistentVolumeClaim", claim)
        });
        let mut problems = Vec::new();
        for (path, kind, name) in std::iter::once(vm).chain(disks) {
            let key = (identity.namespace.clone(), kind, name.clone());
            let first = self
                .0
                .entry(key)
                .or_insert_with(|| (identity.name.clone(), origin.clone()));
            // Duplicate Machines are reported separately.
            if first.0 != identity.name {
                let other = &first.1;
                problems.push(Problem {
                    origin: origin.clone(),
                    path: path.to_owned(),
                    message: format!(
                        "{kind} {name:?} already belongs to the Machine in {other}: choose another name"
                    ),
                });
            }
        }
        problems
    }
}

/// Whether a problem with `path` is covered by reported fields: the field itself, one above or one below
/// it.
fn covered(reported: &BTreeSet<String>, path: &str) -> bool {
    let separators = path.match_indices(['.', '[']).map(|(at, _)| at);
    let ancestors = separators.chain([path.len()]).map(|at| &path[..at]);
    let has_descendant = |separator: char| {
        let prefix = format!("{path}{separator}");
        let next = reported.range(prefix.clone()..).next();
        next.is_some_and(|field| field.starts_with(&prefix))
    };
    ancestors
        .into_iter()
        .any(|ancestor| reported.contains(ancestor))
        || has_descendant('.')
        || has_descendant('[')
}
