//! What a scenario observes: waits for objects, Events, and requests of the operator.

use std::{fmt::Write as _, time::Duration};

use serde_json::Value;
use tokio::time::{sleep, timeout};

use super::{Scenario, condition};
use crate::harness::objects;

impl Scenario {
    /// Waits until an object satisfies `matches`.
    pub(crate) async fn until(
        &self,
        kind: &str,
        name: &str,
        matches: impl Fn(&Value) -> bool,
    ) -> Value {
        let found = self
            .wait_for(kind, name, "match", |found| found.is_some_and(&matches))
            .await;
        found.unwrap_or_default()
    }

    /// Waits until an object is deleted.
    pub(crate) async fn until_gone(&self, kind: &str, name: &str) {
        self.wait_for(kind, name, "get deleted", |found| found.is_none())
            .await;
    }

    /// Waits until the operator sends a request, by verb and resource. Resets the counter of requests.
    pub(crate) async fn until_request(&self, verb: &str, resource: &str) {
        let is_expected = |(sent, of, _): &(&str, String, _)| *sent == verb && of == resource;
        let sent = async {
            while !self.calls.take().keys().any(is_expected) {
                sleep(Duration::from_millis(50)).await;
            }
        };
        let waited = timeout(self.cluster.timeout(), sent).await;
        assert!(waited.is_ok(), "the operator does not {verb} {resource}");
    }

    async fn wait_for(
        &self,
        kind: &str,
        name: &str,
        what: &str,
        matches: impl Fn(Option<&Value>) -> bool,
    ) -> Option<Value> {
        match objects::wait_for(&self.api(kind), name, self.cluster.timeout(), matches).await {
            Ok(found) => found,
            Err(last) => panic!(
                "{kind} {name} did not {what}: {last}\n{}",
                self.describe_events().await
            ),
        }
    }

    /// Waits until a Machine is in a phase.
    pub(crate) async fn until_phase(&self, name: &str, phase: &str) -> Value {
        self.until("Machine", name, |machine| {
            machine["status"]["phase"] == phase
        })
        .await
    }

    /// Waits until a condition of a Machine has a status.
    pub(crate) async fn until_condition(&self, name: &str, type_: &str, status: &str) -> Value {
        let machine = self
            .until("Machine", name, |machine| {
                condition(machine, type_)["status"] == status
            })
            .await;
        condition(&machine, type_).clone()
    }

    /// Waits until the condition Ready of a Machine has a reason.
    pub(crate) async fn until_reason(&self, name: &str, reason: &str) -> Value {
        self.until("Machine", name, |machine| {
            condition(machine, "Ready")["reason"] == reason
        })
        .await
    }

    /// Sleeps; in real time for a few seconds at most.
    pub(crate) async fn wait(&self, seconds: u64) {
        self.cluster.wait(seconds).await;
    }

    /// Sleeps until all retries and delays are over: an hour, or a few seconds in real time.
    pub(crate) async fn wait_long(&self) {
        self.wait(3600).await;
    }

    /// Waits until `count` writes of the operator have reached the API server.
    pub(crate) async fn until_writes(&self, count: u32) {
        let limit = self.cluster.timeout();
        let waited = timeout(limit, self.faults.until_writes(count)).await;
        assert!(
            waited.is_ok(),
            "the operator made {} of {count} writes in {limit:?}\n{}",
            self.faults.writes(),
            self.describe_events().await
        );
    }

    /// Reason and message of a Machine's Events, in order.
    pub(crate) async fn events(&self, machine: &str) -> Vec<(String, String)> {
        let mut events = self.list("Event").await;
        events.retain(|event| {
            event["involvedObject"]["kind"] == "Machine"
                && event["involvedObject"]["name"] == machine
        });
        events.sort_by_key(crate::recording::version);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        events
            .iter()
            .map(|event| (text(&event["reason"]), text(&event["message"])))
            .collect()
    }

    /// Reasons of a Machine's Events in order of their creation, once the operator has written them all.
    pub(crate) async fn reasons(&self, machine: &str) -> Vec<String> {
        sleep(self.event_delay()).await;
        let events = self.events(machine).await;
        events.into_iter().map(|(reason, _)| reason).collect()
    }

    /// Whether a Machine has an Event of this reason. Waits for it, as Events are written after the status.
    pub(crate) async fn has_event(&self, machine: &str, reason: &str) -> bool {
        let written = async {
            while !self
                .events(machine)
                .await
                .iter()
                .any(|(found, _)| found == reason)
            {
                sleep(Duration::from_millis(200)).await;
            }
        };
        timeout(self.event_delay(), written).await.is_ok()
    }

    /// Upper bound of the time from a status write to its Event.
    fn event_delay(&self) -> Duration {
        Duration::from_secs(if self.cluster.is_real() { 5 } else { 2 })
    }

    /// Number of writes to a resource that the operator has sent; for "" to all resources except Events.
    pub(crate) fn writes(&self, resource: &str) -> u64 {
        let counts = self.calls.snapshot();
        let writes = counts.iter().filter(|((verb, of, _), _)| {
            !["get", "list", "watch"].contains(verb)
                && (of == resource || resource.is_empty() && of != "events")
        });
        writes.map(|(_, count)| count).sum()
    }

    /// Events of all Machines, for the message of a failed scenario.
    async fn describe_events(&self) -> String {
        let mut text = String::new();
        for machine in self.list("Machine").await {
            let name = machine["metadata"]["name"].as_str().unwrap_or_default();
            for (reason, message) in self.events(name).await {
                let _ = writeln!(text, "{name}: {reason}: {message}");
            }
        }
        text
    }
}
