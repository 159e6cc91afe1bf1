//! The process of the Machine operator.

use runtime::{
    client::{self, Limits},
    metrics::Metrics,
    probes::{self, Health},
};
use tokio_util::sync::CancellationToken;

use super::settings::Settings;
use crate::{
    cmd::process::{Failure, Process, Served, serve},
    machine::{Operator, Options, Questions},
};

/// The Lease of leader election, in the operator's own namespace.
const LEASE: &str = "kubevirt-operator";

/// Runs until a signal comes, or something fails.
pub(super) async fn run(settings: Settings) -> Result<(), Failure> {
    let metrics = Metrics::new(env!("CARGO_PKG_VERSION"));
    let health = Health::new();
    let serving = CancellationToken::new();
    let served = [
        Served {
            what: "metrics",
            setting: "METRICS_BIND_ADDRESS",
            address: settings.metrics_bind_address,
            pages: probes::metrics(metrics.clone()),
        },
        Served {
            what: "probes",
            setting: "HEALTH_PROBE_BIND_ADDRESS",
            address: settings.health_probe_bind_address,
            pages: probes::health(health.clone()),
        },
    ];
    let servers = serve(served, &serving).await?;
    let ended = operate(settings, metrics, health).await;
    serving.cancel();
    for server in servers {
        // A server that has panicked has said so already.
        let _ = server.await;
    }
    ended
}

async fn operate(settings: Settings, metrics: Metrics, health: Health) -> Result<(), Failure> {
    let process = Process {
        config: client::connect(&settings.kubeconfig).await?,
        lease: settings
            .leader_election
            .then(|| (settings.namespace.clone(), LEASE)),
        limits: Limits::rate(settings.client_qps, settings.client_burst),
        figures: metrics.clone(),
        health: health.clone(),
    };
    let run = process.run(|start| {
        let operator = Operator {
            client: start.client,
            options: Options {
                namespaces: settings.watch_namespaces.into_iter().collect(),
                reconcile_interval: settings.reconcile_interval,
                concurrency: settings.max_concurrent_reconciles,
                seed: start.seed,
            },
            clock: start.clock,
            metrics,
            health,
            leads: start.leads,
            questions: Questions::default(),
        };
        operator.run(start.stop)
    });
    run.await
}
