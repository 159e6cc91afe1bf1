//! Process of the Machine operator.

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
    cmd::process::{DRAIN_TIMEOUT, Endpoint, Failure, Process, listen, serve},
    machine::{CacheQueries, KeySecret, Operator, Options, RemoteAccess},
    webhook_certificate::CertificateController,
};

/// Lease of leader election, in the operator's namespace.
const LEASE: &str = "kubevirt-operator";

/// Time that the webhook is served after the signal: API servers still connect until every node has
/// removed the endpoint.
const WEBHOOK_GRACE_PERIOD: Duration = Duration::from_secs(3);

pub(super) async fn run(settings: Settings) -> Result<(), Failure> {
    let metrics = Metrics::new(env!("CARGO_PKG_VERSION"));
    let exposed = metrics.clone();
    let health = Health::new();
    let served = [
        Endpoint {
            what: "metrics",
            setting: "METRICS_BIND_ADDRESS",
            address: settings.metrics_bind_address,
            pages: probes::metrics(move || exposed.expose()),
        },
        Endpoint {
            what: "probes",
            setting: "HEALTH_PROBE_BIND_ADDRESS",
            address: settings.health_probe_bind_address,
            pages: probes::health(health.clone()),
        },
    ];
    let servers = serve(served).await?;
    let ended = operate(settings, metrics, health).await;
    servers.stop().await;
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
    let limits = Limits::rate(settings.client_qps, settings.client_burst);
    let process = Process {
        config: client::connect(&settings.common.kubeconfig).await?,
        lease: settings
            .common
            .leader_election
            .then(|| (settings.namespace.clone(), LEASE)),
        limits,
        metrics: metrics.clone(),
        health: health.clone(),
    };
    let mut served = None;
    let run = process.run(|start| {
        let controller = CertificateController {
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
            remote: RemoteAccess::new(start.fence, limits),
            options: Options {
                namespaces: settings.watch_namespaces.into_iter().collect(),
                clone_source_namespaces: settings.clone_source_namespaces,
                passed_on: settings.passed_on,
                provider: settings.machine_provider,
                kubevirt_config: settings.kubevirt_config,
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
            queries: CacheQueries::default(),
        };
        let stop = start.stop;
        let controller = listener.map(|listener| {
            // With port 0 the system chooses the port.
            if let Ok(address) = listener.local_addr() {
                tracing::info!(%address, "Serving the webhook");
            }
            let (handler, stop) = (operator.webhook().handler(), stop.clone());
            // A task of its own: the Lease is released before it stops.
            served = Some(tokio::spawn(serve_webhook(
                listener.into_listener(),
                certificate,
                handler,
                stop.clone(),
            )));
            controller.run(stop)
        });
        async move {
            futures::join!(operator.run(stop), OptionFuture::from(controller));
        }
    });
    run.await?;
    if let Some(served) = served {
        // The task completes, or a panic has aborted the process.
        let _ = served.await;
    }
    Ok(())
}

/// Serves the webhook until the grace period after the token is cancelled.
async fn serve_webhook(
    listener: TcpListener,
    certificate: Certificate,
    handler: Handler,
    stop: CancellationToken,
) {
    let token = CancellationToken::new();
    let ends = async {
        stop.cancelled().await;
        sleep(WEBHOOK_GRACE_PERIOD).await;
        token.cancel();
        // For answers in flight.
        sleep(DRAIN_TIMEOUT.saturating_sub(WEBHOOK_GRACE_PERIOD)).await;
    };
    tokio::select! {
        () = tls::serve(listener, certificate, handler, token.clone()) => {}
        () = ends => {}
    }
}
