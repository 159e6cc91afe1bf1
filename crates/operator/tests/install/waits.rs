//! Bounded waits of a story: exact on virtual time, generous where time is real.

use std::time::Duration;

use serde_json::Value;
use tokio::time::{sleep, timeout};

use crate::{ground::Ground, stories::objects};

/// Factor by which the operator's deadlines are shorter where time is real.
const SPEED: u32 = 10;

impl Ground {
    /// A cluster with an operator whose deadlines are short where time is real: for stories in which a
    /// deadline passes.
    pub(crate) async fn begin_with_short_deadlines() -> Self {
        let mut ground = Self::without_operator(|_| {}).await;
        if ground.cluster.is_real() {
            ground.options.operator.speed = SPEED;
        }
        ground.start_operator();
        ground
    }

    /// Restarts the operator with short deadlines where time is real.
    pub(crate) async fn shorten_deadlines(&mut self) {
        if self.cluster.is_real() {
            self.stop_operator().await;
            self.options.operator.speed = SPEED;
            self.start_operator();
        }
    }

    /// Waits until an object is as it should be: for so many seconds, or longer where time is real.
    pub(crate) async fn until_within(
        &self,
        seconds: u64,
        kind: &str,
        name: &str,
        is_so: impl Fn(&Value) -> bool,
    ) -> Value {
        let patience = self.cluster.patience_of(seconds);
        let is_so = |found: Option<&Value>| found.is_some_and(&is_so);
        match objects::follow(&self.api(kind), name, patience, is_so).await {
            Ok(found) => found.unwrap_or_default(),
            Err(last) => panic!("{kind} {name} within {seconds} s: {last}"),
        }
    }

    /// Waits until the KubeVirt resource has an Event, by reason and message: for so many seconds, or
    /// longer where time is real.
    pub(crate) async fn until_event(&self, seconds: u64, is_it: impl Fn(&str, &str) -> bool) {
        let written = async {
            loop {
                let events = self.events().await;
                if events
                    .iter()
                    .any(|(reason, message)| is_it(reason, message))
                {
                    return;
                }
                sleep(Duration::from_secs(1)).await;
            }
        };
        let patience = self.cluster.patience_of(seconds);
        if timeout(patience, written).await.is_err() {
            let events = self.events().await;
            panic!("no such Event within {seconds} s: {events:#?}");
        }
    }
}
