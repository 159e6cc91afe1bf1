//! Command `list`: Machines with phase, node, addresses, size, age and reason.

use std::collections::BTreeMap;

use clap::Args;
use futures::StreamExt as _;
use jiff::Timestamp;
use kube::{
    Api,
    api::{ApiResource, DynamicObject, GroupVersionKind},
};
use runtime::{
    backoff::Random,
    reflector::{Config, WatchEvent, reflector},
};
use serde_json::Value;

use crate::{
    age,
    failure::{ExitCode, Failure},
    kinds::MACHINE,
    output::{self, Data, Format},
    read::{condition, name, namespace, text},
    select::Selection,
    session::Session,
    table::Table,
};

/// List Machines with phase, node, addresses, size, age and reason
///
/// With --watch, prints a line for each change of what is shown.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  kubectl machine list
  kubectl machine list -A -l app=web --watch
  kubectl machine list web -o yaml")]
pub struct List {
    #[command(flatten)]
    selection: Selection,

    /// Output format
    #[arg(short, long, value_enum, default_value_t, hide_default_value = true)]
    output: Format,

    /// Continue to print changes until interrupted
    #[arg(short, long)]
    watch: bool,

    /// No heading
    #[arg(long)]
    no_headers: bool,
}

impl List {
    pub(crate) async fn run(self, session: &mut Session) -> Result<ExitCode, Failure> {
        if self.watch {
            return self.watch(session).await;
        }
        let machines = self.selection.machines(session).await?;
        let is_single = self.selection.names.len() == 1;
        let printed = match self.output {
            Format::Json => output::objects(Data::Json, machines, is_single)?,
            Format::Yaml => output::objects(Data::Yaml, machines, is_single)?,
            Format::Name => machines
                .iter()
                .map(|it| output::reference(it) + "\n")
                .collect(),
            Format::Table | Format::Wide if machines.is_empty() => {
                let place = if self.selection.all_namespaces {
                    String::new()
                } else {
                    format!(" in namespace {}", session.namespace)
                };
                session.note(&format!("no Machines found{place}"));
                return Ok(ExitCode::Done);
            }
            Format::Table | Format::Wide => {
                let columns = self.columns();
                let mut table = self.table(&columns);
                for machine in &machines {
                    table.add(&columns.row(machine, session.now()));
                }
                table.take()
            }
        };
        session.out.write_all(printed.as_bytes())?;
        session.out.flush()?;
        Ok(ExitCode::Done)
    }

    fn columns(&self) -> Columns {
        Columns {
            has_namespace: self.selection.all_namespaces,
            is_wide: self.output == Format::Wide,
        }
    }

    fn table(&self, columns: &Columns) -> Table {
        if self.no_headers {
            Table::bare(columns.heading().len())
        } else {
            Table::new(&columns.heading())
        }
    }

    async fn watch(self, session: &mut Session) -> Result<ExitCode, Failure> {
        let kind = GroupVersionKind::gvk(MACHINE.group, MACHINE.version, MACHINE.name);
        let resource = ApiResource::from_gvk_with_plural(&kind, MACHINE.plural);
        let api: Api<DynamicObject> = match self.selection.scope(session).namespace {
            Some(namespace) => Api::namespaced_with(session.client.clone(), namespace, &resource),
            None => Api::all_with(session.client.clone(), &resource),
        };
        let config = Config {
            label_selector: self.selection.selector.clone(),
            ..Config::default()
        };
        let changes = reflector(api, config, Random::from_entropy(), |object| object);
        let mut changes = std::pin::pin!(changes);
        let columns = self.columns();
        let mut table = self.table(&columns);
        // What was printed of each Machine: other changes are of no interest.
        let mut shown: BTreeMap<(String, String), String> = BTreeMap::new();
        // The rows of the first list are aligned with each other.
        let mut is_listed = false;
        while let Some(change) = changes.next().await {
            let object = match change {
                WatchEvent::Listed(object) | WatchEvent::Applied(object) => object,
                WatchEvent::ListCompleted { .. } => {
                    is_listed = true;
                    flush(&mut table, session)?;
                    continue;
                }
                WatchEvent::Deleted(identity) => {
                    let key = (identity.namespace, identity.name);
                    if self.is_selected(&key.1) && shown.remove(&key).is_some() {
                        session.note(&format!("Machine {}/{} was deleted", key.0, key.1));
                    }
                    continue;
                }
                WatchEvent::Failing(failure) if failure.code == Some(403) => {
                    return Err(Failure::Other(format!(
                        "cannot watch machines: {}",
                        failure.summary
                    )));
                }
                WatchEvent::Failing(failure) => {
                    session.note(&format!("cannot watch machines: {}", failure.summary));
                    continue;
                }
                WatchEvent::Recovered
                | WatchEvent::ListStarted
                | WatchEvent::Undecodable { .. } => {
                    continue;
                }
            };
            let machine = serde_json::to_value(object);
            let machine = machine.map_err(|error| Failure::Other(error.to_string()))?;
            if !self.is_selected(name(&machine)) {
                continue;
            }
            let key = (namespace(&machine).to_owned(), name(&machine).to_owned());
            // The age alone is no change.
            let row = columns.row(&machine, Timestamp::UNIX_EPOCH).join("\n");
            let is_new = shown.insert(key, row.clone()).as_deref() != Some(&*row);
            match self.output {
                Format::Table | Format::Wide if !is_new => {}
                Format::Table | Format::Wide => table.add(&columns.row(&machine, session.now())),
                Format::Name => writeln!(session.out, "{}", output::reference(&machine))?,
                Format::Json => print(session, Data::Json, machine)?,
                Format::Yaml => {
                    writeln!(session.out, "---")?;
                    print(session, Data::Yaml, machine)?;
                }
            }
            if is_listed {
                flush(&mut table, session)?;
            }
        }
        Ok(ExitCode::Done)
    }

    fn is_selected(&self, name: &str) -> bool {
        let names = &self.selection.names;
        names.is_empty() || names.iter().any(|wanted| wanted == name)
    }
}

fn print(session: &mut Session, data: Data, machine: Value) -> Result<(), Failure> {
    let text = output::objects(data, vec![machine], true)?;
    session.out.write_all(text.as_bytes())?;
    session.out.flush()?;
    Ok(())
}

fn flush(table: &mut Table, session: &mut Session) -> Result<(), Failure> {
    if !table.is_empty() {
        session.out.write_all(table.take().as_bytes())?;
        session.out.flush()?;
    }
    Ok(())
}

struct Columns {
    has_namespace: bool,
    is_wide: bool,
}

impl Columns {
    fn heading(&self) -> Vec<&'static str> {
        let mut heading = Vec::new();
        if self.has_namespace {
            heading.push("NAMESPACE");
        }
        heading.extend([
            "NAME",
            "PHASE",
            "NODE",
            "ADDRESSES",
            "SIZE",
            "AGE",
            "REASON",
        ]);
        if self.is_wide {
            heading.extend(["READY", "VIRTUALMACHINE", "OS", "MESSAGE"]);
        }
        heading
    }

    fn row(&self, machine: &Value, now: Timestamp) -> Vec<String> {
        let ready = condition(machine, "Ready");
        let of = |pointer: &str| or_none(text(machine, pointer));
        let mut row = Vec::new();
        if self.has_namespace {
            row.push(namespace(machine).to_owned());
        }
        row.extend([
            name(machine).to_owned(),
            or_none(text(machine, "/status/phase")),
            of("/status/nodeName"),
            addresses(machine, self.is_wide),
            size(machine),
            age::of(machine, now),
            or_none(text(ready, "/reason")),
        ]);
        if self.is_wide {
            row.extend([
                or_none(text(ready, "/status")),
                of("/status/vmName"),
                of("/status/operatingSystem"),
                or_none(text(ready, "/message")),
            ]);
        }
        row
    }
}

fn or_none(text: &str) -> String {
    match text {
        "" => "<none>".to_owned(),
        text => text.to_owned(),
    }
}

/// Addresses; in the narrow table at most two, so that the row fits a terminal.
fn addresses(machine: &Value, all: bool) -> String {
    let list = machine
        .pointer("/status/ipAddresses")
        .and_then(Value::as_array);
    let list: Vec<&str> = list
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    match list.as_slice() {
        [] => "<none>".to_owned(),
        [first, second, rest @ ..] if !all && !rest.is_empty() => {
            format!("{first},{second} + {} more", rest.len())
        }
        all => all.join(","),
    }
}

/// CPUs and memory, as `plan` prints them.
fn size(machine: &Value) -> String {
    let memory = text(machine, "/status/memoryQuantity");
    match (
        machine.pointer("/status/vcpus").and_then(Value::as_i64),
        memory,
    ) {
        (None, "") => "<none>".to_owned(),
        (None, memory) => memory.to_owned(),
        (Some(cpus), "") => format!("{cpus} CPU"),
        (Some(cpus), memory) => format!("{cpus} CPU, {memory}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn row(machine: &Value, is_wide: bool) -> String {
        let columns = Columns {
            has_namespace: true,
            is_wide,
        };
        assert_eq!(
            columns.heading().len(),
            columns.row(machine, Timestamp::UNIX_EPOCH).len()
        );
        columns
            .row(machine, "2026-01-01T00:01:00Z".parse().unwrap())
            .join(" | ")
    }

    #[test]
    fn a_row_shows_what_the_status_says() {
        let machine = json!({
            "metadata": {
                "name": "web", "namespace": "shop", "creationTimestamp": "2026-01-01T00:00:00Z",
            },
            "status": {
                "phase": "Running", "nodeName": "node-1", "vcpus": 2, "memoryQuantity": "4Gi",
                "ipAddresses": ["10.0.0.1", "10.0.0.2", "fd00::1", "fd00::2"],
                "conditions": [{ "type": "Ready", "status": "True", "reason": "Running" }],
            },
        });
        assert_eq!(
            row(&machine, false),
            "shop | web | Running | node-1 | 10.0.0.1,10.0.0.2 + 2 more | 2 CPU, 4Gi | 60s | Running"
        );
        assert!(row(&machine, true).contains("10.0.0.1,10.0.0.2,fd00::1,fd00::2"));
    }

    #[test]
    fn a_machine_without_status_has_a_row() {
        let machine = json!({ "metadata": { "name": "web", "namespace": "shop" } });
        assert_eq!(
            row(&machine, false),
            "shop | web | <none> | <none> | <none> | <none> | <unknown> | <none>"
        );
    }
}
