//! The process of the Machine operator.

use std::{sync::Arc, time::Duration};

use futures::future::OptionFuture;
use runtime::{
    client::{self, Limits},
    probes::{self, Health},
    tls::{self, Certificate, Handler},
};
use tokio::{
    net::TcpListener,
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;

use super::settings::Settings;
use crate::metrics::Metrics;
use crate::{
    cmd::process::{DRAIN, Failure, Process, Served, listen, serve},
    machine::{KeySecret, Operator, Options, Questions},
    webhook_certificate::Keeper,
};

/// The Lease of leader election, in the operator's own namespace.
const LEASE: &str = "kubevirt-operator";

/// How long the webhook goes on once the process is to end: until every node has heard that its pod
/// ends, API servers are still sent here.
const LINGER: Duration = Duration::from_secs(3);

/// Runs until a signal comes, or something fails.
pub(super) async fn run(settings: Settings) -> Result<(), Failure> {
    let metrics = Metrics::new(env!("CARGO_PKG_VERSION"));
    let exposed = metrics.clone();
    let health = Health::new();
    let served = [
        Served {
            what: "metrics",
            setting: "METRICS_BIND_ADDRESS",
            address: settings.metrics_bind_address,
            pages: probes::metrics(move || exposed.expose()),
        },
        Served {
            what: "probes",
            setting: "HEALTH_PROBE_BIND_ADDRESS",
            address: settings.health_probe_bind_address,
            pages: probes::health(health.clone()),
        },
    ];
    let servers = serve(served).await?;
    let ended = operate(settings, metrics, health).await;
    servers.end().await;
    ended
}

async fn operate(settings: Settings, metrics: Metrics, health: Health) -> Result<(), Failure> {
    let listener = listen(
        "the webhook",
        "WEBHOOK_BIND_ADDRESS",
        settings.webhook.address,
    )
    .await?;
    let certificate = Certificate::fallback()?;
    let process = Process {
        config: client::connect(&settings.common.kubeconfig).await?,
        lease: settings
            .common
            .leader_election
            .then(|| (settings.namespace.clone(), LEASE)),
        limits: Limits::rate(settings.client_qps, settings.client_burst),
        figures: metrics.clone(),
        health: health.clone(),
    };
    let mut served = None;
    let run = process.run(|start| {
        let keeper = Keeper {
            open: start.open.clone(),
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
            lookups: start.open,
            options: Options {
                namespaces: settings.watch_namespaces.into_iter().collect(),
                clone_source_namespaces: settings.clone_source_namespaces,
                reconcile_interval: settings.reconcile_interval,
                concurrency: settings.max_concurrent_reconciles,
                watch_secrets: settings.watch_secrets,
                key_secret: Some(KeySecret {
                    namespace: settings.namespace.clone(),
                    draw: runtime::certificates::random_bytes,
                }),
                seed: start.seed,
            },
            clock: start.clock,
            stopwatch: Arc::new(Instant::now),
            metrics,
            health,
            leads: start.leads,
            questions: Questions::default(),
        };
        let stop = start.stop;
        let keeper = listener.map(|listener| {
            // With port 0 nobody else knows where.
            if let Ok(address) = listener.local_addr() {
                tracing::info!(%address, "Serving the webhook");
            }
            let (handler, stop) = (operator.webhook().handler(), stop.clone());
            // The Lease is not held for it.
            served = Some(tokio::spawn(serve_webhook(
                listener.into_listener(),
                certificate,
                handler,
                stop.clone(),
            )));
            keeper.run(stop)
        });
        async move {
            futures::join!(operator.run(stop), OptionFuture::from(keeper));
        }
    });
    run.await?;
    if let Some(served) = served {
        // It ends by itself, or a panic has ended the process: no handler's is contained.
        let _ = served.await;
    }
    Ok(())
}

/// Serves the webhook until a while after the token is cancelled.
async fn serve_webhook(
    listener: TcpListener,
    certificate: Certificate,
    handler: Handler,
    stop: CancellationToken,
) {
    let token = CancellationToken::new();
    let ends = async {
        stop.cancelled().await;
        sleep(LINGER).await;
        token.cancel();
        // For the answers that were begun.
        sleep(DRAIN.saturating_sub(LINGER)).await;
    };
    tokio::select! {
        () = tls::serve(listener, certificate, handler, token.clone()) => {}
        () = ends => {}
    }
}
