//! KubeVirt operator: controller around `plan::kubevirt::plan`.
//!
//! Guaranteed: only the actions of the plan are executed; nothing is written while this process does not
//! lead; an empty plan sends no request.

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
use controller::{Controller, Dependencies};
use jiff::Timestamp;
use kube::Client;
use report::Report;
use runtime::{events, probes::Health, tls::Certificate};

use crate::metrics::InstallationMetrics;
pub use strategies::StrategyFile;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Wall clock.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

#[derive(Clone, Debug, Default)]
pub struct Options {
    pub operator: plan::kubevirt::target::Operator,
    /// Install strategies from files; others are read from the cluster.
    pub strategies: Vec<StrategyFile>,
    /// Certificate that the webhook serves; the operator replaces it by that of the Secret.
    pub webhook: Option<Certificate>,
    /// Seed of the random generator, which is not used for keys.
    pub seed: u64,
}

/// KubeVirt operator, ready to run.
pub struct Operator {
    /// Client, fenced by leadership.
    pub client: Client,
    pub options: Options,
    pub clock: Clock,
    pub metrics: InstallationMetrics,
    pub health: Health,
    /// Whether this process leads.
    pub leads: watch::Receiver<bool>,
}

impl Operator {
    /// Operator without leader election, for tests and the sandbox.
    pub fn alone(client: Client, options: Options, clock: Clock) -> Self {
        let (leads, receiver) = watch::channel(true);
        // Leadership never changes.
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

    /// Reconciles until the token is cancelled. Returns when the writes in flight are done, within five
    /// seconds.
    pub async fn run(self, token: CancellationToken) {
        let clock = Arc::clone(&self.clock);
        let (recorder, publisher) = events::channel(install::MANAGER, move || clock());
        let deps = Dependencies {
            client: self.client.clone(),
            clock: self.clock,
            report: Report::new(self.metrics, recorder),
            health: self.health,
            leads: self.leads,
        };
        let controller = Controller::new(deps, self.options);
        futures::join!(
            controller.run(token.clone()),
            publisher.run(self.client, token)
        );
    }
}
