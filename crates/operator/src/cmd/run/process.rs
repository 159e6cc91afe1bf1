//! The process: servers of probes and metrics, leader election, the operator, and their end.
//!
//! On a signal the operator finishes the writes under way, then the Lease is given up, then the
//! servers end: in under five seconds. When the Lease is lost the process ends with an error; the
//! clients' fence has kept it from writing since.

use std::{io, sync::Arc, time::Duration};

use jiff::Timestamp;
use runtime::{
    backoff::Random,
    client::{self, Call, Calls, ConnectError, Limits},
    election::{self, Candidate, Election, Fence, Leadership, Loss},
    metrics::Metrics,
    probes::{self, Health, Server},
};
use tokio::{sync::watch, task::JoinHandle, time::timeout};
use tokio_util::sync::CancellationToken;

use super::settings::Settings;
use crate::{
    cmd::signal,
    machine::{Clock, Operator, Options},
};

/// The Lease of leader election, in the operator's own namespace.
const LEASE: &str = "kubevirt-operator";

/// How long the operator is given to finish the writes under way.
const DRAIN: Duration = Duration::from_millis(4_200);

/// Why the process could not go on.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error("cannot start: {0}")]
    Runtime(io::Error),
    #[error("{0}")]
    Connect(#[from] ConnectError),
    #[error("cannot listen for metrics on METRICS_BIND_ADDRESS: {0}")]
    Metrics(io::Error),
    #[error("cannot listen for probes on HEALTH_PROBE_BIND_ADDRESS: {0}")]
    Probes(io::Error),
    #[error("cannot wait for signals: {0}")]
    Signals(io::Error),
    #[error("no longer leading: {0}")]
    Lost(Loss),
    #[error("the operator ended by itself, which it should not")]
    Ended,
}

/// Runs until a signal comes, or something fails.
pub(super) async fn run(settings: Settings) -> Result<(), Failure> {
    let metrics = Metrics::new(env!("CARGO_PKG_VERSION"));
    let health = Health::new();
    let serving = CancellationToken::new();
    let servers = serve(&settings, &metrics, &health, &serving).await?;
    let ended = operate(settings, metrics, health).await;
    serving.cancel();
    for server in servers {
        // A server that has panicked has said so already.
        let _ = server.await;
    }
    ended
}

async fn serve(
    settings: &Settings,
    metrics: &Metrics,
    health: &Health,
    token: &CancellationToken,
) -> Result<Vec<JoinHandle<()>>, Failure> {
    let metrics_server = Server::bind(settings.metrics_bind_address)
        .await
        .map_err(Failure::Metrics)?;
    let probes_server = Server::bind(settings.health_probe_bind_address)
        .await
        .map_err(Failure::Probes)?;
    for (what, server) in [("metrics", &metrics_server), ("probes", &probes_server)] {
        // With port 0 nobody else knows where.
        if let Some(Ok(address)) = server.as_ref().map(Server::local_addr) {
            tracing::info!(%address, "Serving {what}");
        }
    }
    let metrics_server =
        metrics_server.map(|server| server.serve(probes::metrics(metrics.clone()), token.clone()));
    let probes_server =
        probes_server.map(|server| server.serve(probes::health(health.clone()), token.clone()));
    Ok(metrics_server
        .map(tokio::spawn)
        .into_iter()
        .chain(probes_server.map(tokio::spawn))
        .collect())
}

async fn operate(settings: Settings, metrics: Metrics, health: Health) -> Result<(), Failure> {
    let mut random = Random::from_entropy();
    let clock: Clock = Arc::new(Timestamp::now);
    let config = client::connect(&settings.kubeconfig).await?;
    let calls = Arc::new(Told {
        metrics: metrics.clone(),
        health: health.clone(),
    });
    let election = settings
        .leader_election
        .then(|| {
            let client = client::layered(
                client::transport(&config)?,
                Fence::open(),
                Limits::UNLIMITED,
                Arc::clone(&calls) as _,
            );
            let candidate = Candidate {
                namespace: settings.namespace.clone(),
                name: LEASE.to_owned(),
                identity: election::identity(&host(), &mut random),
            };
            Ok::<_, Failure>(Election::new(
                client,
                candidate,
                Arc::clone(&clock),
                random.fork(),
            ))
        })
        .transpose()?;
    let fence = election.as_ref().map_or_else(Fence::open, Election::fence);
    let limits = Limits::rate(settings.client_qps, settings.client_burst);
    let client = client::layered(client::transport(&config)?, fence, limits, calls);
    let (leads, receiver) = watch::channel(election.is_none());
    health.set_standby(election.is_some());
    metrics.set_leader(election.is_none());
    let stop = CancellationToken::new();
    let operator = Operator {
        client,
        options: Options {
            namespaces: settings.watch_namespaces.into_iter().collect(),
            reconcile_interval: settings.reconcile_interval,
            concurrency: settings.max_concurrent_reconciles,
            seed: random.next(),
        },
        clock,
        metrics: metrics.clone(),
        health: health.clone(),
        leads: receiver,
    };
    let mut operator = tokio::spawn(operator.run(stop.clone()));
    let signal = signal();
    tokio::pin!(signal);

    let leadership = match election {
        None => None,
        Some(election) => tokio::select! {
            biased;
            signalled = &mut signal => {
                stop.cancel();
                drain(operator).await;
                return signalled.map_err(Failure::Signals);
            }
            _ = &mut operator => return Err(Failure::Ended),
            leadership = election.win() => {
                health.set_standby(false);
                metrics.set_leader(true);
                // The operator holds the other end for as long as it runs.
                let _ = leads.send(true);
                Some(leadership)
            }
        },
    };
    let ended = tokio::select! {
        biased;
        loss = lost(leadership.as_ref()) => Err(Failure::Lost(loss)),
        signalled = &mut signal => signalled.map_err(Failure::Signals),
        _ = &mut operator => return Err(Failure::Ended),
    };
    stop.cancel();
    // When the Lease is lost the fence refuses its writes: there is nothing to wait for.
    ended?;
    tracing::info!("Ending");
    drain(operator).await;
    if let Some(leadership) = leadership
        && let Err(error) = leadership.release().await
    {
        tracing::warn!("the Lease was not given up: {error}");
    }
    Ok(())
}

/// Ends when leadership does; never, if there is no election.
async fn lost(leadership: Option<&Leadership>) -> Loss {
    match leadership {
        Some(leadership) => leadership.lost().await,
        None => std::future::pending().await,
    }
}

async fn drain(operator: JoinHandle<()>) {
    let abort = operator.abort_handle();
    if timeout(DRAIN, operator).await.is_err() {
        abort.abort();
    }
}

/// The name of the pod or host, for people who look at the Lease.
fn host() -> String {
    std::env::var("HOSTNAME")
        .ok()
        .or_else(|| std::fs::read_to_string("/proc/sys/kernel/hostname").ok())
        .map(|name| name.trim().to_owned())
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| LEASE.to_owned())
}

/// Every call to the API server counts, and shows whether it can be reached.
struct Told {
    metrics: Metrics,
    health: Health,
}

impl Calls for Told {
    fn called(&self, call: &Call<'_>) {
        let code = match call.outcome {
            client::Outcome::Status(code) => Some(code.as_u16()),
            client::Outcome::Timeout | client::Outcome::Error => None,
        };
        self.metrics
            .api_request(call.verb.as_str(), call.resource, code);
        match code {
            Some(_) => self.health.api_answered(),
            None => self.health.api_failed(&call.outcome.to_string()),
        }
    }
}
