//! The KubeVirt operator: a thin shell around `plan::kubevirt::plan`.
//!
//! Guaranteed: what is written is what that function asked for; nothing is written while this
//! process does not lead; when there is nothing to do, no request is made.

#[cfg(test)]
mod answers;
mod caches;
mod certificates;
mod controller;
mod definition;
mod execute;
pub mod file;
mod kinds;
pub mod preview;
mod report;
mod resources;
mod slim;
mod strategies;
mod watches;
pub mod webhook;

use std::sync::Arc;

use api::kubevirt::install;
use controller::{Controller, Tools};
use jiff::Timestamp;
use kube::Client;
use report::Report;
use runtime::{events, probes::Health, tls::Certificate};

use crate::metrics::InstallationMetrics;
pub use strategies::Given;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Tells what time it is.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// How the operator goes about its work.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Who and where the operator is.
    pub operator: plan::kubevirt::target::Operator,
    /// Strategies that need not be looked for in the cluster.
    pub strategies: Vec<Given>,
    /// What the webhook answers with; the operator replaces it by what is in the Secret.
    pub webhook: Option<Certificate>,
    /// Where all randomness comes from, but for keys.
    pub seed: u64,
}

/// The operator, ready to run.
pub struct Operator {
    /// Speaks to the API server. Writes through it must fail when this process does not lead.
    pub client: Client,
    /// How it goes about its work.
    pub options: Options,
    /// Tells what time it is.
    pub clock: Clock,
    /// What it counts.
    pub metrics: InstallationMetrics,
    /// What it says of its health.
    pub health: Health,
    /// Whether this process leads.
    pub leads: watch::Receiver<bool>,
}

impl Operator {
    /// An operator that leads, for tests and for the sandbox.
    pub fn alone(client: Client, options: Options, clock: Clock) -> Self {
        let (leads, receiver) = watch::channel(true);
        // Nobody is to tell it otherwise.
        drop(leads);
        Self {
            client,
            options,
            clock,
            metrics: InstallationMetrics::new(env!("CARGO_PKG_VERSION"), ""),
            health: Health::new(),
            leads: receiver,
        }
    }

    /// Keeps the installation until the token is cancelled. Returns when the writes under way are
    /// done, within five seconds.
    pub async fn run(self, token: CancellationToken) {
        let clock = Arc::clone(&self.clock);
        let (recorder, publisher) = events::channel(install::MANAGER, move || clock());
        let tools = Tools {
            client: self.client.clone(),
            clock: self.clock,
            report: Report::new(self.metrics, recorder),
            health: self.health,
            leads: self.leads,
        };
        let controller = Controller::new(tools, self.options);
        futures::join!(
            controller.run(token.clone()),
            publisher.run(self.client, token)
        );
    }
}
