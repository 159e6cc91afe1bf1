use std::{
    collections::BTreeMap,
    io::{self, BufWriter, Write},
    sync::LazyLock,
};

use plan::machine::resolve;
use schema::{Schema, Violation};
use serde_json::Value;

use super::{Outcome, input::Input, written};
use crate::{
    documents::{Document, Origin},
    manifests::{self, Inventory, Kind, NotOurs, Resource},
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

/// A line of the output.
struct Problem {
    origin: Origin,
    path: String,
    message: String,
}

impl Args {
    pub(crate) fn run(self, report: &mut Report) -> Outcome {
        let (documents, read) = self.input.read(report);
        let mut problems = Vec::new();
        let mut resources = Vec::new();
        let mut checked = 0;
        for document in documents {
            let kind = match manifests::kind(&document.value) {
                Ok(kind) => kind,
                Err(NotOurs::Foreign(what)) => {
                    report.note(&document.origin, "kind", &format!("{what} is passed over"));
                    continue;
                }
                Err(NotOurs::Wrong { path, message }) => {
                    checked += 1;
                    problems.push(Problem {
                        origin: document.origin,
                        path: path.to_owned(),
                        message,
                    });
                    continue;
                }
            };
            checked += usize::from(kind.is_ours());
            let found = violations(kind, &document.value);
            let broken: Vec<_> = found
                .iter()
                .map(|violation| violation.path.clone())
                .collect();
            problems.extend(found.into_iter().map(|violation| Problem {
                origin: document.origin.clone(),
                path: violation.path,
                message: violation.problem.to_string(),
            }));
            match manifests::resource(kind, &document, self.input.namespace.as_deref()) {
                Ok(resource) => resources.push((document, resource, broken)),
                // The schema has said so already, in better words.
                Err(_) if !broken.is_empty() => {}
                Err(message) => {
                    problems.push(Problem {
                        origin: document.origin,
                        path: String::new(),
                        message,
                    });
                }
            }
        }
        if checked == 0 && read == Outcome::Fine {
            report.error(
                "there is no Machine, MachineClass or NetworkConfiguration in the given documents",
            );
            return Outcome::Unreadable;
        }
        find_twins(&resources, &mut problems);
        resolve_machines(&resources, &mut problems, report);
        let outcome = if problems.is_empty() {
            Outcome::Fine
        } else {
            Outcome::Problems
        };
        let printed = print(&problems);
        report.summary(summary(checked, problems.len()));
        read.max(outcome).max(written(printed, report))
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
    for Problem {
        origin,
        path,
        message,
    } in problems
    {
        match path.as_str() {
            "" => writeln!(out, "{origin}: {message}")?,
            path => writeln!(out, "{origin}: {path}: {message}")?,
        }
    }
    out.flush()
}

/// What the API server would refuse in a document.
pub(super) fn violations(kind: Kind, value: &Value) -> Vec<Violation> {
    static SCHEMAS: LazyLock<BTreeMap<String, Schema>> = LazyLock::new(|| {
        #[expect(
            clippy::expect_used,
            reason = "our own definitions: tests compile them"
        )]
        let compile = |schema: &Value| Schema::compile(schema).expect("our own schemas compile");
        let schemas = api::crds().into_iter().map(|crd| {
            let crd = serde_json::json!(crd);
            let kind = crd["spec"]["names"]["kind"].as_str().unwrap_or_default();
            let schema = compile(&crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]);
            (kind.to_owned(), schema)
        });
        schemas.collect()
    });
    let name = match kind {
        Kind::Machine => "Machine",
        Kind::MachineClass => "MachineClass",
        Kind::NetworkConfiguration => "NetworkConfiguration",
        Kind::StorageClass | Kind::Secret => return Vec::new(),
    };
    SCHEMAS[name].validate(value, None)
}

/// Two documents for one object: the second would undo the first.
fn find_twins(resources: &[(Document, Resource, Vec<String>)], problems: &mut Vec<Problem>) {
    let mut seen = BTreeMap::new();
    for (document, resource, _) in resources {
        let (kind, metadata) = match resource {
            Resource::Machine(machine) => ("Machine", &machine.metadata),
            Resource::MachineClass(class) => ("MachineClass", &class.metadata),
            Resource::NetworkConfiguration(network) => ("NetworkConfiguration", &network.metadata),
            Resource::StorageClass(_) | Resource::Secret(_) => continue,
        };
        let Some(name) = &metadata.name else { continue };
        if let Some(first) = seen.insert((kind, &metadata.namespace, name), &document.origin) {
            problems.push(Problem {
                origin: document.origin.clone(),
                path: "metadata.name".to_owned(),
                message: format!("{kind} {name:?} is already given by {first}: remove one of them"),
            });
        }
    }
}

fn resolve_machines(
    resources: &[(Document, Resource, Vec<String>)],
    problems: &mut Vec<Problem>,
    report: &mut Report,
) {
    let inventory = Inventory::of(resources.iter().map(|(_, resource, _)| resource));
    for (document, resource, broken) in resources {
        let Resource::Machine(machine) = resource else {
            continue;
        };
        let surroundings = inventory.surroundings(machine.metadata.namespace.as_ref());
        let errors = resolve(machine, surroundings).err().unwrap_or_default();
        for error in errors {
            if !error.certain {
                report.note(&document.origin, &error.path, &error.message);
            } else if !broken.iter().any(|path| covers(path, &error.path)) {
                problems.push(Problem {
                    origin: document.origin.clone(),
                    message: format!("{}: {}", error.error_type, error.message),
                    path: error.path,
                });
            }
        }
    }
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
