//! Command `tree`: a Machine with the objects that belong to it.

use std::collections::BTreeSet;

use clap::Args;
use serde_json::Value;

use crate::{
    age,
    failure::{ExitCode, Failure},
    family::{Fleet, Members},
    kinds::SECRET,
    read::{self, Scope, condition, name, text},
    session::Session,
    table::Table,
};

/// Show a Machine with all its objects, as a tree
///
/// An object is below its owner; disks, which have no owner reference, are below the Machine. Networks that
/// the Machine shares with others follow it.
#[derive(Args, Debug)]
pub struct Tree {
    /// Name of the Machine
    #[arg(value_name = "NAME")]
    name: String,
}

impl Tree {
    pub(crate) async fn run(self, session: &mut Session) -> Result<ExitCode, Failure> {
        let fleet = Fleet::read(session, Some(&session.namespace)).await?;
        let machine = fleet.machine(&session.namespace, &self.name)?;
        let members = fleet.members(machine);
        let selector = format!("vitistack.io/machine={}", self.name);
        let scope = Scope {
            namespace: Some(&session.namespace),
            labels: Some(&selector),
        };
        let secrets = match read::list_metadata(&session.client, SECRET, scope).await {
            Ok(secrets) => secrets,
            Err(failure) => {
                session.note(&failure.to_string());
                Vec::new()
            }
        };
        let mut table = Table::new(&["OBJECT", "STATE", "AGE"]);
        for line in lines(&members, &secrets) {
            table.add(&[
                format!(
                    "{}{}/{}",
                    line.indent,
                    text(line.object, "/kind"),
                    name(line.object)
                ),
                state(line.object),
                age::of(line.object, session.now()),
            ]);
        }
        for note in &fleet.notes {
            session.note(note);
        }
        session.out.write_all(table.take().as_bytes())?;
        session.out.flush()?;
        Ok(ExitCode::Done)
    }
}

struct Line<'a> {
    indent: String,
    object: &'a Value,
}

fn lines<'a>(members: &Members<'a>, secrets: &'a [Value]) -> Vec<Line<'a>> {
    let shared: Vec<&Value> = members.networks.clone();
    let owned: Vec<&Value> = members.all().chain(secrets).collect();
    let mut lines = Vec::new();
    let mut done = BTreeSet::new();
    let roots = std::iter::once(members.machine).chain(shared.iter().copied());
    for root in roots {
        done.insert(uid(root));
    }
    add(
        members.machine,
        String::new(),
        "",
        &owned,
        &mut done,
        &mut lines,
        true,
    );
    for root in shared {
        add(
            root,
            String::new(),
            "",
            &owned,
            &mut done,
            &mut lines,
            false,
        );
    }
    lines
}

/// Adds an object and what belongs to it.
fn add<'a>(
    object: &'a Value,
    indent: String,
    below: &str,
    all: &[&'a Value],
    done: &mut BTreeSet<&'a str>,
    lines: &mut Vec<Line<'a>>,
    is_machine: bool,
) {
    lines.push(Line { indent, object });
    let known: BTreeSet<&str> = all.iter().map(|it| uid(it)).collect();
    let children: Vec<&Value> = all
        .iter()
        .copied()
        .filter(|child| {
            let owners: Vec<&str> = owners(child).collect();
            let is_orphan = !owners.iter().any(|owner| known.contains(owner));
            let is_child = owners.contains(&uid(object)) || is_machine && is_orphan;
            is_child && !done.contains(uid(child))
        })
        .collect();
    done.extend(children.iter().map(|child| uid(child)));
    let count = children.len();
    for (index, child) in children.into_iter().enumerate() {
        let (branch, stem) = if index + 1 == count {
            ("└─", "  ")
        } else {
            ("├─", "│ ")
        };
        let (indent, below) = (format!("{below}{branch}"), format!("{below}{stem}"));
        add(child, indent, &below, all, done, lines, false);
    }
}

fn uid(object: &Value) -> &str {
    text(object, "/metadata/uid")
}

fn owners(object: &Value) -> impl Iterator<Item = &str> {
    let owners = object["metadata"]["ownerReferences"].as_array();
    owners
        .into_iter()
        .flatten()
        .filter_map(|owner| owner["uid"].as_str())
}

/// State of an object in a word or two.
fn state(object: &Value) -> String {
    let phase = text(object, "/status/phase");
    let ready = text(condition(object, "Ready"), "/reason");
    let words = match text(object, "/kind") {
        "Machine" => [phase, ready],
        "VirtualMachine" => [text(object, "/status/printableStatus"), ""],
        "Pod" => [phase, text(object, "/spec/nodeName")],
        "VirtualMachineInstance" => [phase, text(object, "/status/nodeName")],
        "PersistentVolumeClaim" => [phase, text(object, "/status/capacity/storage")],
        "DataVolume" => [phase, text(object, "/status/progress")],
        "NetworkConfiguration" => [ready, ""],
        _ => [phase, ""],
    };
    let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
    let mut state = words.join(", ");
    if !text(object, "/metadata/deletionTimestamp").is_empty() {
        state.push_str(if state.is_empty() {
            "(deleting)"
        } else {
            " (deleting)"
        });
    }
    if state.is_empty() {
        "-".to_owned()
    } else {
        state
    }
}
