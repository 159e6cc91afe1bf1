//! Command `events`: one timeline of a Machine and all its objects.

use clap::Args;
use serde_json::Value;

use crate::{
    age,
    failure::{ExitCode, Failure},
    family::Fleet,
    output::{self, Data},
    read::text,
    session::Session,
    table::Table,
};

/// Show the Events of a Machine and all its objects, the oldest first
///
/// Also those of objects that are gone, such as earlier launcher pods.
#[derive(Args, Debug)]
pub struct Events {
    /// Name of the Machine
    #[arg(value_name = "NAME")]
    name: String,

    /// Only Events of this type
    #[arg(long, value_name = "TYPE", value_parser = ["Normal", "Warning"])]
    r#type: Option<String>,

    /// Output format
    #[arg(short, long, value_enum)]
    output: Option<Data>,
}

impl Events {
    pub(crate) async fn run(self, session: &mut Session) -> Result<ExitCode, Failure> {
        let fleet = Fleet::read(session, Some(&session.namespace)).await?;
        let machine = fleet.machine(&session.namespace, &self.name)?;
        let mut events = fleet.members(machine).events();
        if let Some(type_) = &self.r#type {
            events.retain(|event| text(event, "/type") == type_);
        }
        // The time has seconds only: resourceVersions order those of one second.
        events.sort_by_key(|event| (last(event).to_owned(), version(event)));
        for note in &fleet.notes {
            session.note(note);
        }
        let printed = match self.output {
            Some(data) => {
                let events = events.into_iter().cloned().collect();
                output::objects(data, events, false)?
            }
            None if events.is_empty() => {
                session.note(&format!("no Events of Machine {}", self.name));
                return Ok(ExitCode::Done);
            }
            None => table(&events, session).take(),
        };
        session.out.write_all(printed.as_bytes())?;
        session.out.flush()?;
        Ok(ExitCode::Done)
    }
}

fn table(events: &[&Value], session: &Session) -> Table {
    let mut table = Table::new(&["LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"]);
    for event in events {
        let count = event["count"].as_i64().unwrap_or(1);
        let mut seen = age::since(last(event), session.now());
        if count > 1 {
            let first = age::since(text(event, "/firstTimestamp"), session.now());
            seen = format!("{seen} (x{count} over {first})");
        }
        let object = format!(
            "{}/{}",
            text(event, "/involvedObject/kind").to_lowercase(),
            text(event, "/involvedObject/name")
        );
        table.add(&[
            seen,
            text(event, "/type").to_owned(),
            text(event, "/reason").to_owned(),
            object,
            text(event, "/message").to_owned(),
        ]);
    }
    table
}

/// Time of the last occurrence, as RFC 3339 in UTC, which sorts by time.
fn last(event: &Value) -> &str {
    let times = [
        "/lastTimestamp",
        "/eventTime",
        "/firstTimestamp",
        "/metadata/creationTimestamp",
    ];
    let mut times = times.into_iter().map(|pointer| text(event, pointer));
    times.find(|time| !time.is_empty()).unwrap_or_default()
}

fn version(event: &Value) -> u64 {
    text(event, "/metadata/resourceVersion")
        .parse()
        .unwrap_or_default()
}
