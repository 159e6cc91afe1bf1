//! Waits with a timeout: exact in virtual time, generous in real time.

use std::time::Duration;

use plan::kubevirt::target::Speed;
use serde_json::Value;
use tokio::time::{sleep, timeout};

use crate::{harness::objects, scenario::InstallScenario};

/// Factor by which the operator's deadlines are shorter in real time.
const SPEED: Speed = Speed::times(10);

impl InstallScenario {
    /// Starts the operator with short deadlines in real time, for scenarios in which a deadline passes.
    pub(crate) async fn start_with_short_deadlines() -> Self {
        let mut scenario = Self::without_operator(|_| {}).await;
        if scenario.cluster.is_real() {
            scenario.options.operator.speed = SPEED;
        }
        scenario.start_operator();
        scenario
    }

    /// Restarts the operator with short deadlines in real time.
    pub(crate) async fn shorten_deadlines(&mut self) {
        if self.cluster.is_real() {
            self.stop_operator().await;
            self.options.operator.speed = SPEED;
            self.start_operator();
        }
    }

    /// Waits until an object satisfies `matches`: for so many seconds, or longer in real time.
    pub(crate) async fn until_within(
        &self,
        seconds: u64,
        kind: &str,
        name: &str,
        matches: impl Fn(&Value) -> bool,
    ) -> Value {
        let limit = self.cluster.timeout_of(seconds);
        let matches = |found: Option<&Value>| found.is_some_and(&matches);
        match objects::wait_for(&self.api(kind), name, limit, matches).await {
            Ok(found) => found.unwrap_or_default(),
            Err(last) => panic!("{kind} {name} within {seconds} s: {last}"),
        }
    }

    /// Waits until the KubeVirt resource has an Event, by reason and message: for so many seconds, or longer
    /// in real time.
    pub(crate) async fn until_event(&self, seconds: u64, is_expected: impl Fn(&str, &str) -> bool) {
        let written = async {
            loop {
                let events = self.events().await;
                if events
                    .iter()
                    .any(|(reason, message)| is_expected(reason, message))
                {
                    return;
                }
                sleep(Duration::from_secs(1)).await;
            }
        };
        let limit = self.cluster.timeout_of(seconds);
        if timeout(limit, written).await.is_err() {
            let events = self.events().await;
            panic!("no such Event within {seconds} s: {events:#?}");
        }
    }
}
