//! Machine operator: controller around `plan::machine::plan` and `plan::network::plan`.
//!
//! Guaranteed: only the actions of these plans are executed; nothing is written while this process does
//! not lead; an empty plan sends no request.

#[cfg(test)]
pub(crate) mod answers;
mod caches;
mod clusters;
mod config_status;
mod controller;
mod definitions;
mod digest_key;
mod execute;
mod home;
mod kubeconfig;
mod orphans;
mod packed;
pub(crate) mod paths;
pub mod preview;
mod reachability;
mod references;
mod refusal;
mod report;
mod secrets;
mod slim;
mod supervisor;
mod sweep;
mod watched_secret;
mod watches;
mod webhook;
mod withdraw;

use std::sync::Arc;

pub use controller::Options;
use controller::{Controller, Dependencies, Site};
pub use digest_key::KeySecret;
use jiff::Timestamp;
use kube::Client;
pub use kubeconfig::{Connector, connector};
use report::Report;
use runtime::{client::Limits, election::Fence, events, probes::Health};
pub use supervisor::RemoteAccess;
use supervisor::Shared;

use crate::metrics::Metrics;
use tokio::{sync::watch, time::Instant};
use tokio_util::sync::CancellationToken;
pub use webhook::{CacheQueries, Webhook};

/// Wall clock.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Monotonic clock for planning times.
pub type Stopwatch = Arc<dyn Fn() -> Instant + Send + Sync>;

/// Machine operator, ready to run.
pub struct Operator {
    /// Client for reconciles, fenced by leadership.
    pub client: Client,
    /// Client for the live reads of webhooks: not fenced, and with its own rate limit, so that reviews do
    /// not slow down reconciles.
    pub lookups: Client,
    /// Access to other clusters with virtual machines.
    pub remote: RemoteAccess,
    pub options: Options,
    pub clock: Clock,
    pub stopwatch: Stopwatch,
    pub metrics: Metrics,
    pub health: Health,
    /// Whether this process leads.
    pub leads: watch::Receiver<bool>,
    /// Queries of webhooks to the caches.
    pub queries: CacheQueries,
}

impl Operator {
    /// Operator without leader election, for tests and the sandbox.
    pub fn alone(client: Client, options: Options, clock: Clock) -> Self {
        let (leads, receiver) = watch::channel(true);
        // Leadership never changes.
        drop(leads);
        Self {
            lookups: client.clone(),
            client,
            remote: RemoteAccess::new(Fence::open(), Limits::UNLIMITED),
            options,
            clock,
            stopwatch: Arc::new(Instant::now),
            metrics: Metrics::new(env!("CARGO_PKG_VERSION")),
            health: Health::new(),
            leads: receiver,
            queries: CacheQueries::default(),
        }
    }

    /// Admission webhook that uses the caches of this operator while it runs.
    pub fn webhook(&self) -> Webhook {
        Webhook::of(self)
    }

    /// Reconciles until the token is cancelled. Returns when the writes in flight are done, within five
    /// seconds.
    pub async fn run(self, token: CancellationToken) {
        let clock = Arc::clone(&self.clock);
        let (recorder, publisher) = events::channel(api::labels::MANAGER, move || clock());
        let (configs, clusters) = watch::channel(Arc::default());
        let shared = Shared {
            client: self.client.clone(),
            access: self.remote,
            options: self.options.clone(),
            clock: Arc::clone(&self.clock),
            stopwatch: Arc::clone(&self.stopwatch),
            metrics: self.metrics.clone(),
            recorder: recorder.clone(),
            leads: self.leads.clone(),
            configs: clusters,
        };
        let deps = Dependencies {
            client: self.client.clone(),
            site: Site::Local { configs },
            clock: self.clock,
            stopwatch: self.stopwatch,
            report: Report::new(self.metrics, recorder),
            health: self.health,
            leads: self.leads,
        };
        let controller = Controller::new(deps, self.queries, self.options);
        futures::join!(
            controller.run(token.clone()),
            supervisor::run(shared, token.clone()),
            publisher.run(self.client, token)
        );
    }
}
