//! The process of the KubeVirt operator.

use std::sync::Arc;

use futures::future::OptionFuture;
use runtime::{
    client::{self, Limits},
    metrics::InstallationMetrics,
    probes::{self, Health, Pages, Server},
    tls::{self, Certificate},
};
use tokio_util::sync::CancellationToken;

use super::settings::Settings;
use crate::{
    cmd::process::{Failure, Process, Served, serve},
    kubevirt::{Given, Operator, Options, webhook::Webhook},
};

/// The Lease of leader election, in the operator's own namespace. It is KubeVirt's own, so that
/// never more than one operator acts.
const LEASE: &str = "virt-operator";

/// Runs until a signal comes, or something fails.
pub(super) async fn run(settings: Settings, strategies: Vec<Given>) -> Result<(), Failure> {
    let config = client::connect(&settings.kubeconfig).await?;
    let host = config.cluster_url.authority().map(ToString::to_string);
    let metrics = InstallationMetrics::new(env!("CARGO_PKG_VERSION"), &host.unwrap_or_default());
    let health = Health::new();
    let serving = CancellationToken::new();
    let served = [Served {
        what: "metrics and probes",
        setting: "METRICS_BIND_ADDRESS",
        address: settings.metrics_bind_address,
        pages: pages(metrics.clone(), health.clone()),
    }];
    let servers = serve(served, &serving).await?;
    let address = settings.webhook_bind_address;
    let listener = Server::bind(address).await;
    let listener = listener.map_err(|error| Failure::Listen {
        what: "the webhook",
        setting: "WEBHOOK_BIND_ADDRESS",
        error,
    })?;
    let certificate = Certificate::fallback()?;
    let process = Process {
        config,
        lease: settings
            .leader_election
            .then(|| (settings.operator.namespace.clone(), LEASE)),
        limits: Limits::rate(settings.client_qps, settings.client_burst),
        figures: metrics.clone(),
        health: health.clone(),
    };
    let run = process.run(|start| {
        let webhook = Webhook::new(start.open, settings.operator.clone());
        let webhook = listener.map(|listener| {
            let listener = listener.into_listener();
            let (certificate, token) = (certificate.clone(), start.stop.clone());
            tls::serve(listener, certificate, webhook.handler(), token)
        });
        let operator = Operator {
            client: start.client,
            options: Options {
                operator: settings.operator,
                strategies,
                webhook: Some(certificate.clone()),
                seed: start.seed,
            },
            clock: start.clock,
            metrics,
            health,
            leads: start.leads,
        };
        async move {
            let webhook = OptionFuture::from(webhook);
            futures::join!(operator.run(start.stop), webhook);
        }
    });
    let ended = run.await;
    serving.cancel();
    for server in servers {
        // It ends by itself, or a panic has ended the process.
        let _ = server.await;
    }
    ended
}

/// `/metrics`, `/healthz` and `/readyz` on one port, as KubeVirt's own operator has them.
fn pages(metrics: InstallationMetrics, health: Health) -> Pages {
    let health = probes::health(health);
    let metrics = probes::exposed(move || metrics.expose());
    Arc::new(move |path| health(path).or_else(|| metrics(path)))
}
