//! The process of the Machine operator.

use std::sync::Arc;

use futures::future::OptionFuture;
use runtime::{
    client::{self, Limits},
    metrics::Metrics,
    probes::{self, Health, Server},
    tls::{self, Certificate},
};
use tokio_util::sync::CancellationToken;

use super::settings::Settings;
use crate::{
    cmd::process::{Failure, Process, Served, serve},
    machine::{Operator, Options, Questions},
    webhook::Keeper,
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
    let listener = Server::bind(settings.webhook.address).await;
    let listener = listener.map_err(|error| Failure::Listen {
        what: "the webhook",
        setting: "WEBHOOK_BIND_ADDRESS",
        error,
    })?;
    let certificate = Certificate::fallback()?;
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
        let keeper = Keeper {
            open: start.open,
            client: start.client.clone(),
            names: settings.webhook.names(&settings.namespace),
            certificates: settings.webhook.certificates,
            certificate: certificate.clone(),
            clock: Arc::clone(&start.clock),
            metrics: metrics.clone(),
            health: health.clone(),
            leads: start.leads.clone(),
            seed: start.seed,
        };
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
        let stop = start.stop;
        let webhook = listener.map(|listener| {
            // With port 0 nobody else knows where.
            if let Ok(address) = listener.local_addr() {
                tracing::info!(%address, "Serving the webhook");
            }
            let (handler, token) = (operator.webhook().handler(), stop.clone());
            let served = tls::serve(listener.into_listener(), certificate, handler, token);
            futures::future::join(served, keeper.run(stop.clone()))
        });
        async move {
            futures::join!(operator.run(stop), OptionFuture::from(webhook));
        }
    });
    run.await
}
