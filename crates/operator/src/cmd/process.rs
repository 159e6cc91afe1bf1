//! Process of an operator: leader election, clients, and shutdown.
//!
//! On a signal the operator finishes the writes in flight, then the Lease is released, then the servers
//! stop: within five seconds. If the Lease is lost, the process exits with an error; the fence in the
//! clients prevents writes from then on.

use std::{io, sync::Arc, time::Duration};

use jiff::Timestamp;
use kube::{Client, Config};
use runtime::{
    backoff::Random,
    client::{self, Call, CallObserver, ConnectError, Limits},
    election::{self, Candidate, Election, Fence, Leadership, Loss},
    probes::{BindAddress, Health, Pages, Server},
    tls::CertificateError,
};
use tokio::{sync::watch, task::JoinHandle, time::timeout};
use tokio_util::sync::CancellationToken;

use super::signal;
use crate::metrics::{InstallationMetrics, Metrics};

/// Time that the operator gets to finish the writes in flight.
pub(crate) const DRAIN_TIMEOUT: Duration = Duration::from_millis(4_200);

pub(crate) type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Fatal error of a process.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("cannot start: {0}")]
    Runtime(io::Error),
    #[error("{0}")]
    Connect(#[from] ConnectError),
    #[error("cannot listen for {what} on {setting}: {error}")]
    Listen {
        what: &'static str,
        setting: &'static str,
        error: io::Error,
    },
    #[error("cannot serve the webhook: {0}")]
    Webhook(#[from] CertificateError),
    #[error("cannot wait for signals: {0}")]
    Signals(io::Error),
    #[error("no longer leading: {0}")]
    Lost(Loss),
    #[error("the operator stopped unexpectedly")]
    Ended,
}

/// Metrics that every operator process has.
pub(crate) trait ProcessMetrics: Clone + Send + Sync + 'static {
    fn set_leader(&self, leads: bool);

    /// Counts a request to the API server; `code` is none if it was not answered.
    fn api_request(&self, call: &Call<'_>, code: Option<u16>);
}

impl ProcessMetrics for Metrics {
    fn set_leader(&self, leads: bool) {
        self.set_leader(leads);
    }

    fn api_request(&self, call: &Call<'_>, code: Option<u16>) {
        self.api_request(call.verb.as_str(), call.resource, code, call.duration);
    }
}

impl ProcessMetrics for InstallationMetrics {
    fn set_leader(&self, leads: bool) {
        self.set_leader(leads);
    }

    fn api_request(&self, call: &Call<'_>, code: Option<u16>) {
        self.api_request(call.verb.as_str(), call.resource, code, call.duration);
    }
}

/// Runs a process until it exits.
pub(crate) fn block_on(process: impl Future<Output = Result<(), Failure>>) -> super::Outcome {
    let ended = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(Failure::Runtime)
        .and_then(|runtime| runtime.block_on(process));
    match ended {
        Ok(()) => super::Outcome::Fine,
        Err(failure) => {
            tracing::error!("{failure}");
            super::Outcome::Problems
        }
    }
}

/// HTTP endpoint.
pub(crate) struct Endpoint {
    /// Name for the log.
    pub(crate) what: &'static str,
    /// Setting with the address.
    pub(crate) setting: &'static str,
    pub(crate) address: BindAddress,
    pub(crate) pages: Pages,
}

/// Binds the address of a setting; none if it is turned off.
pub(crate) async fn listen(
    what: &'static str,
    setting: &'static str,
    address: BindAddress,
) -> Result<Option<Server>, Failure> {
    let server = Server::bind(address).await;
    server.map_err(|error| Failure::Listen {
        what,
        setting,
        error,
    })
}

/// Running HTTP servers.
pub(crate) struct Servers {
    tasks: Vec<JoinHandle<()>>,
    token: CancellationToken,
}

impl Servers {
    pub(crate) async fn stop(self) {
        self.token.cancel();
        for task in self.tasks {
            // The task completes, or a panic has aborted the process.
            let _ = task.await;
        }
    }
}

pub(crate) async fn serve<const N: usize>(endpoints: [Endpoint; N]) -> Result<Servers, Failure> {
    let mut bound = Vec::new();
    for endpoint in endpoints {
        let Endpoint {
            what,
            setting,
            address,
            pages,
        } = endpoint;
        let server = listen(what, setting, address).await?;
        bound.extend(server.map(|server| (what, server, pages)));
    }
    let token = CancellationToken::new();
    let tasks = bound.into_iter().map(|(what, server, pages)| {
        // With port 0 the system chooses the port.
        if let Ok(address) = server.local_addr() {
            tracing::info!(%address, "Serving {what}");
        }
        tokio::spawn(server.serve(pages, token.clone()))
    });
    Ok(Servers {
        tasks: tasks.collect(),
        token,
    })
}

/// Operator process with leader election.
pub(crate) struct Process<F> {
    pub(crate) config: Config,
    /// Namespace and name of the Lease; none disables leader election.
    pub(crate) lease: Option<(String, &'static str)>,
    pub(crate) limits: Limits,
    pub(crate) metrics: F,
    pub(crate) health: Health,
}

/// Dependencies that an operator is started with.
pub(crate) struct StartContext {
    /// Client that is fenced while this process does not lead.
    pub(crate) client: Client,
    /// Client without fence.
    pub(crate) open: Client,
    pub(crate) clock: Clock,
    pub(crate) leads: watch::Receiver<bool>,
    /// Fence of that client.
    pub(crate) fence: Fence,
    /// Seed of the random generator.
    pub(crate) seed: u64,
    pub(crate) stop: CancellationToken,
}

impl<F: ProcessMetrics> Process<F> {
    /// Runs the operator that `start` returns until a signal or a failure.
    pub(crate) async fn run<O>(self, start: impl FnOnce(StartContext) -> O) -> Result<(), Failure>
    where
        O: Future<Output = ()> + Send + 'static,
    {
        let Self {
            config,
            lease,
            limits,
            metrics,
            health,
        } = self;
        let mut random = Random::from_entropy();
        let clock: Clock = Arc::new(Timestamp::now);
        let calls = Arc::new(CallReporter {
            metrics: metrics.clone(),
            health: health.clone(),
        });
        let election = lease
            .map(|(namespace, name)| {
                let client = client::layered(
                    client::transport(&config)?,
                    Fence::open(),
                    Limits::UNLIMITED,
                    Arc::clone(&calls) as _,
                );
                let candidate = Candidate {
                    namespace,
                    name: name.to_owned(),
                    identity: election::identity(&host(name), &mut random),
                };
                let election = Election::new(client, candidate, Arc::clone(&clock), random.fork());
                Ok::<_, Failure>(election)
            })
            .transpose()?;
        let fence = election.as_ref().map_or_else(Fence::open, Election::fence);
        let transport = client::transport(&config)?;
        let open = Fence::open();
        let open = client::layered(transport.clone(), open, limits, Arc::clone(&calls) as _);
        let client = client::layered(transport, fence.clone(), limits, calls);
        let (leads, receiver) = watch::channel(election.is_none());
        health.set_standby(election.is_some());
        metrics.set_leader(election.is_none());
        let stop = CancellationToken::new();
        let operator = start(StartContext {
            client,
            open,
            clock,
            leads: receiver,
            fence,
            seed: random.next(),
            stop: stop.clone(),
        });
        let mut operator = tokio::spawn(operator);
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
                leadership = election.acquire() => {
                    health.set_standby(false);
                    metrics.set_leader(true);
                    // The operator has the receiver while it runs.
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
        // After a lost Lease the fence refuses all writes: there is nothing to drain.
        ended?;
        tracing::info!("Shutting down: finishing the writes in flight");
        drain(operator).await;
        if let Some(leadership) = leadership
            && let Err(error) = leadership.release().await
        {
            tracing::warn!(
                "cannot release the Lease, so the next leader waits until it expires: {error}"
            );
        }
        Ok(())
    }
}

/// Waits for the loss of leadership; forever without leader election.
async fn lost(leadership: Option<&Leadership>) -> Loss {
    match leadership {
        Some(leadership) => leadership.lost().await,
        None => std::future::pending().await,
    }
}

async fn drain(operator: JoinHandle<()>) {
    let abort = operator.abort_handle();
    if timeout(DRAIN_TIMEOUT, operator).await.is_err() {
        abort.abort();
    }
}

/// Name of the pod or host, for the holder identity of the Lease.
fn host(name: &str) -> String {
    std::env::var("HOSTNAME")
        .ok()
        .or_else(|| std::fs::read_to_string("/proc/sys/kernel/hostname").ok())
        .map(|name| name.trim().to_owned())
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| name.to_owned())
}

/// Reports calls to the API server to metrics and probes.
struct CallReporter<F> {
    metrics: F,
    health: Health,
}

impl<F: ProcessMetrics> CallObserver for CallReporter<F> {
    fn on_call(&self, call: &Call<'_>) {
        let code = match call.outcome {
            client::CallOutcome::Status(code) => Some(code.as_u16()),
            client::CallOutcome::Timeout | client::CallOutcome::Error => None,
        };
        self.metrics.api_request(call, code);
        match code {
            Some(_) => self.health.api_answered(),
            None => self.health.api_failed(&call.outcome.to_string()),
        }
    }
}
