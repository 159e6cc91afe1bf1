//! Commands `start`, `stop`, `restart`, `pause` and `resume`: they write fields of the Machine.
//!
//! A Machine that has the field already is not written. `--wait` polls the Machine until the operator has
//! made it true, so it survives a lost connection.

use std::time::Duration;

use clap::Args;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::{
    failure::{ExitCode, Failure},
    kinds::VMI,
    read::{self, condition, name, namespace, text},
    select::Selection,
    session::Session,
};

const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Arguments that the commands share.
#[derive(Args, Debug)]
struct Power {
    #[command(flatten)]
    selection: Selection,

    /// All Machines of the namespace
    #[arg(long, conflicts_with_all = ["names", "selector"])]
    all: bool,

    /// Wait until it is true, and show progress
    #[arg(long)]
    wait: bool,

    /// Give up waiting after so many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 600, requires = "wait")]
    timeout: u64,
}

/// Start Machines: spec.powerState becomes Running
#[derive(Args, Debug)]
pub struct Start {
    #[command(flatten)]
    power: Power,
}

/// Stop Machines: spec.powerState becomes Stopped
#[derive(Args, Debug)]
pub struct Stop {
    #[command(flatten)]
    power: Power,
}

/// Restart the guests of Machines: spec.restartedAt becomes the current time
#[derive(Args, Debug)]
pub struct Restart {
    #[command(flatten)]
    power: Power,
}

/// Pause the guests of Machines: spec.powerState becomes Paused
#[derive(Args, Debug)]
pub struct Pause {
    #[command(flatten)]
    power: Power,
}

/// Resume paused Machines: spec.powerState becomes Running
#[derive(Args, Debug)]
pub struct Resume {
    #[command(flatten)]
    power: Power,
}

impl Start {
    pub(crate) async fn run(self, session: &mut Session) -> Result<ExitCode, Failure> {
        self.power.run(Change::Start, session).await
    }
}

impl Stop {
    pub(crate) async fn run(self, session: &mut Session) -> Result<ExitCode, Failure> {
        self.power.run(Change::Stop, session).await
    }
}

impl Restart {
    pub(crate) async fn run(self, session: &mut Session) -> Result<ExitCode, Failure> {
        self.power.run(Change::Restart, session).await
    }
}

impl Pause {
    pub(crate) async fn run(self, session: &mut Session) -> Result<ExitCode, Failure> {
        self.power.run(Change::Pause, session).await
    }
}

impl Resume {
    pub(crate) async fn run(self, session: &mut Session) -> Result<ExitCode, Failure> {
        self.power.run(Change::Resume, session).await
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Start,
    Stop,
    Restart,
    Pause,
    Resume,
}

impl Change {
    /// What is true of the Machine afterwards.
    fn done(self) -> &'static str {
        match self {
            Self::Start => "started",
            Self::Stop => "stopped",
            Self::Restart => "restarted",
            Self::Pause => "paused",
            Self::Resume => "resumed",
        }
    }

    /// The fields to write; none if the Machine has them.
    fn spec(self, machine: &Value, now: Timestamp) -> Result<Option<Value>, String> {
        let current = match text(machine, "/spec/powerState") {
            "" => "Running",
            state => state,
        };
        let wanted = match (self, current) {
            (Self::Restart, "Stopped") => {
                return Err("is stopped, so it cannot be restarted: use start".to_owned());
            }
            (Self::Restart, _) => {
                let now = now.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string();
                return Ok(Some(json!({ "restartedAt": now })));
            }
            (Self::Pause, "Stopped") => {
                return Err("is stopped, so it cannot be paused: use start first".to_owned());
            }
            (Self::Resume, "Stopped") => {
                return Err("is stopped, not paused: use start".to_owned());
            }
            (Self::Start, "Paused") => return Err("is paused: use resume".to_owned()),
            (Self::Start | Self::Resume, _) => "Running",
            (Self::Stop, _) => "Stopped",
            (Self::Pause, _) => "Paused",
        };
        Ok((current != wanted).then(|| json!({ "powerState": wanted })))
    }

    /// Whether the Machine is in the state that the change asks for.
    fn is_reached(self, machine: &Value, generation: i64) -> bool {
        let observed = machine
            .pointer("/status/observedGeneration")
            .and_then(Value::as_i64);
        let reason = text(condition(machine, "Ready"), "/reason");
        observed.unwrap_or_default() >= generation
            && match self {
                Self::Start | Self::Restart | Self::Resume => reason == "Running",
                Self::Stop => reason == "Stopped",
                Self::Pause => reason == "Paused",
            }
    }
}

impl Power {
    async fn run(self, change: Change, session: &mut Session) -> Result<ExitCode, Failure> {
        let machines = self.selection.machines_to_change(session, self.all).await?;
        if machines.is_empty() {
            session.note("no Machines found");
            return Ok(ExitCode::Done);
        }
        let mut code = ExitCode::Done;
        let mut changed = Vec::new();
        for machine in &machines {
            match self.change(change, machine, session).await {
                Ok(pending) => changed.push(pending),
                Err(failure) => {
                    session.error(&failure.to_string());
                    code = ExitCode::Failed;
                }
            }
        }
        if !self.wait {
            return Ok(code);
        }
        let deadline = Instant::now() + Duration::from_secs(self.timeout);
        for pending in changed {
            if let Err(failure) = wait(change, &pending, deadline, self.timeout, session).await {
                session.error(&failure.to_string());
                code = ExitCode::Failed;
            }
        }
        Ok(code)
    }

    async fn change(
        &self,
        change: Change,
        machine: &Value,
        session: &mut Session,
    ) -> Result<Pending, Failure> {
        let key = (namespace(machine).to_owned(), name(machine).to_owned());
        let spec = change.spec(machine, session.now());
        let spec = spec
            .map_err(|problem| Failure::Other(format!("Machine {}/{} {problem}", key.0, key.1)))?;
        let instance = match change {
            // The next instance has another UID.
            Change::Restart if self.wait => instance_uid(session, machine).await?,
            _ => None,
        };
        let written = match spec {
            None => {
                writeln!(session.out, "machine.vitistack.io/{} unchanged", key.1)?;
                machine.clone()
            }
            Some(spec) => {
                let patched = read::patch_spec(&session.client, (&key.0, &key.1), spec).await?;
                // What it asks for is true once the operator says so.
                writeln!(session.out, "machine.vitistack.io/{} changed", key.1)?;
                patched
            }
        };
        session.out.flush()?;
        let generation = written
            .pointer("/metadata/generation")
            .and_then(Value::as_i64);
        Ok(Pending {
            namespace: key.0,
            name: key.1,
            generation: generation.unwrap_or_default(),
            instance,
        })
    }
}

/// A Machine that was changed.
struct Pending {
    namespace: String,
    name: String,
    generation: i64,
    /// UID of the instance that a restart ends.
    instance: Option<String>,
}

async fn instance_uid(session: &Session, machine: &Value) -> Result<Option<String>, Failure> {
    let vm = match text(machine, "/status/vmName") {
        "" => name(machine),
        vm => vm,
    };
    let found = read::find(&session.client, VMI, namespace(machine), vm).await?;
    Ok(found.map(|instance| text(&instance, "/metadata/uid").to_owned()))
}

async fn wait(
    change: Change,
    pending: &Pending,
    deadline: Instant,
    timeout: u64,
    session: &mut Session,
) -> Result<(), Failure> {
    let Pending {
        namespace, name, ..
    } = pending;
    let mut shown = String::new();
    loop {
        let state = match read::machine(&session.client, namespace, name).await {
            Ok(machine) => {
                let is_reached = change.is_reached(&machine, pending.generation)
                    && (pending.instance.is_none()
                        || instance_uid(session, &machine).await? != pending.instance);
                if is_reached {
                    session.end_progress();
                    writeln!(session.out, "machine.vitistack.io/{name} {}", change.done())?;
                    session.out.flush()?;
                    return Ok(());
                }
                let ready = condition(&machine, "Ready");
                format!("{}: {}", text(ready, "/reason"), text(ready, "/message"))
            }
            // The API server may be away for a moment.
            Err(failure @ Failure::Api { code: None, .. }) => failure.to_string(),
            Err(failure) => {
                session.end_progress();
                return Err(failure);
            }
        };
        if state != shown {
            session.progress(&format!("{name}: {state}"));
            shown = state;
        }
        if Instant::now() >= deadline {
            session.end_progress();
            return Err(Failure::Other(format!(
                "Machine {namespace}/{name} is not {} after {timeout} s: {shown}: `kubectl machine \
                 doctor {name}` names the cause",
                change.done()
            )));
        }
        sleep(POLL_INTERVAL).await;
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(Change::Start, "Stopped", Ok(Some("Running")))]
    #[case(Change::Start, "", Ok(None))]
    #[case(Change::Start, "Paused", Err("use resume"))]
    #[case(Change::Stop, "", Ok(Some("Stopped")))]
    #[case(Change::Stop, "Paused", Ok(Some("Stopped")))]
    #[case(Change::Stop, "Stopped", Ok(None))]
    #[case(Change::Pause, "Running", Ok(Some("Paused")))]
    #[case(Change::Pause, "Stopped", Err("use start first"))]
    #[case(Change::Resume, "Paused", Ok(Some("Running")))]
    #[case(Change::Resume, "Running", Ok(None))]
    #[case(Change::Resume, "Stopped", Err("use start"))]
    #[case(Change::Restart, "Stopped", Err("use start"))]
    fn a_change_writes_the_power_state_once(
        #[case] change: Change,
        #[case] state: &str,
        #[case] expected: Result<Option<&str>, &str>,
    ) {
        let machine = json!({ "spec": { "powerState": state } });
        match (change.spec(&machine, Timestamp::UNIX_EPOCH), expected) {
            (Ok(spec), Ok(expected)) => {
                let expected = expected.map(|state| json!({ "powerState": state }));
                assert_eq!(spec, expected);
            }
            (Err(problem), Err(words)) => assert!(problem.contains(words), "{problem}"),
            (found, expected) => panic!("{found:?} instead of {expected:?}"),
        }
    }

    #[test]
    fn a_restart_is_a_new_time() {
        let now = "2026-01-02T03:04:05.678Z".parse().unwrap();
        let spec = Change::Restart.spec(&json!({ "spec": {} }), now).unwrap();
        assert_eq!(
            spec,
            Some(json!({ "restartedAt": "2026-01-02T03:04:05.678000Z" }))
        );
    }

    #[test]
    fn an_older_status_does_not_count() {
        let machine = json!({ "status": {
            "observedGeneration": 1,
            "conditions": [{ "type": "Ready", "status": "True", "reason": "Running" }],
        } });
        assert!(Change::Start.is_reached(&machine, 1));
        assert!(!Change::Start.is_reached(&machine, 2));
        assert!(!Change::Stop.is_reached(&machine, 1));
    }
}
