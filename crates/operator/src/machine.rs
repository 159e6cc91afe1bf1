//! The Machine operator: a thin shell around `plan::machine::plan` and `plan::network::plan`.
//!
//! Guaranteed: what is written is what those functions asked for; nothing is written while this
//! process does not lead; when there is nothing to do, no request is made.

#[cfg(test)]
pub(crate) mod answers;
mod caches;
mod controller;
mod digest_key;
mod execute;
mod orphans;
mod packed;
mod paths;
pub mod preview;
mod references;
mod refusal;
mod report;
mod secrets;
mod slim;
mod watched_secret;
mod watches;
mod webhook;
mod withdraw;

use std::sync::Arc;

pub use controller::Options;
use controller::{Controller, Tools};
pub use digest_key::KeySecret;
use jiff::Timestamp;
use kube::Client;
use report::Report;
use runtime::{events, probes::Health};

use crate::metrics::Metrics;
use tokio::{sync::watch, time::Instant};
use tokio_util::sync::CancellationToken;
pub use webhook::{Questions, Webhook};

/// Tells what time it is.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Measures how long something takes.
pub type Stopwatch = Arc<dyn Fn() -> Instant + Send + Sync>;

/// The operator, ready to run.
pub struct Operator {
    /// Speaks to the API server. Writes through it must fail when this process does not lead.
    pub client: Client,
    /// Speaks to the API server for its webhooks, whether this process leads or not, and at a rate of
    /// its own: whoever asks them must not hold up the operator.
    pub lookups: Client,
    /// How it goes about its work.
    pub options: Options,
    /// Tells what time it is.
    pub clock: Clock,
    /// Measures how long it computes.
    pub stopwatch: Stopwatch,
    /// What it counts.
    pub metrics: Metrics,
    /// What it says of its health.
    pub health: Health,
    /// Whether this process leads.
    pub leads: watch::Receiver<bool>,
    /// What its webhooks ask it.
    pub questions: Questions,
}

impl Operator {
    /// An operator that leads, for tests and for the sandbox.
    pub fn alone(client: Client, options: Options, clock: Clock) -> Self {
        let (leads, receiver) = watch::channel(true);
        // Nobody is to tell it otherwise.
        drop(leads);
        Self {
            lookups: client.clone(),
            client,
            options,
            clock,
            stopwatch: Arc::new(Instant::now),
            metrics: Metrics::new(env!("CARGO_PKG_VERSION")),
            health: Health::new(),
            leads: receiver,
            questions: Questions::default(),
        }
    }

    /// What answers the API server's questions about changes, for as long as this operator runs.
    pub fn webhook(&self) -> Webhook {
        Webhook::of(self)
    }

    /// Keeps Machines and NetworkConfigurations until the token is cancelled. Returns when the
    /// writes under way are done, within five seconds.
    pub async fn run(self, token: CancellationToken) {
        let clock = Arc::clone(&self.clock);
        let (recorder, publisher) = events::channel(api::labels::MANAGER, move || clock());
        let tools = Tools {
            client: self.client.clone(),
            clock: self.clock,
            stopwatch: self.stopwatch,
            report: Report::new(self.metrics, recorder),
            health: self.health,
            leads: self.leads,
            questions: self.questions,
        };
        let controller = Controller::new(tools, self.options);
        futures::join!(
            controller.run(token.clone()),
            publisher.run(self.client, token)
        );
    }
}
