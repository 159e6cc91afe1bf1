//! Process of the KubeVirt operator.

use std::sync::Arc;

use futures::future::OptionFuture;
use runtime::{
    client::{self, Limits},
    probes::{self, Health, Pages},
    tls::{self, Certificate},
};

use super::settings::Settings;
use crate::metrics::InstallationMetrics;
use crate::{
    cmd::process::{Endpoint, Failure, Process, listen, serve},
    kubevirt::{Operator, Options, StrategyFile, webhook::Webhook},
};

/// Lease of leader election, in the operator's namespace. KubeVirt's virt-operator uses the same one, so
/// that only one of them is active.
const LEASE: &str = "virt-operator";

pub(super) async fn run(settings: Settings, strategies: Vec<StrategyFile>) -> Result<(), Failure> {
    let config = client::connect(&settings.common.kubeconfig).await?;
    let host = config.cluster_url.authority().map(ToString::to_string);
    let metrics = InstallationMetrics::new(env!("CARGO_PKG_VERSION"), &host.unwrap_or_default());
    let health = Health::new();
    let served = [Endpoint {
        what: "metrics and probes",
        setting: "METRICS_BIND_ADDRESS",
        address: settings.metrics_bind_address,
        pages: pages(metrics.clone(), health.clone()),
    }];
    let servers = serve(served).await?;
    let address = settings.webhook_bind_address;
    let listener = listen("the webhook", "WEBHOOK_BIND_ADDRESS", address).await?;
    let certificate = Certificate::fallback()?;
    let process = Process {
        config,
        lease: settings
            .common
            .leader_election
            .then(|| (settings.operator.namespace.clone(), LEASE)),
        limits: Limits::rate(settings.client_qps, settings.client_burst),
        metrics: metrics.clone(),
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
    servers.stop().await;
    ended
}

/// `/metrics`, `/healthz` and `/readyz` on one port, as in KubeVirt's virt-operator.
fn pages(metrics: InstallationMetrics, health: Health) -> Pages {
    let health = probes::health(health);
    let metrics = probes::metrics(move || metrics.expose());
    Arc::new(move |path| health(path).or_else(|| metrics(path)))
}
