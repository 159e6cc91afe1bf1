//! What is common to the processes of operators: leader election, the clients, and the end.
//!
//! On a signal the operator finishes the writes under way, then the Lease is given up, then the
//! servers end: in under five seconds. When the Lease is lost the process ends with an error; the
//! clients' fence has kept it from writing since.

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

/// How long the operator is given to finish the writes under way.
pub(crate) const DRAIN: Duration = Duration::from_millis(4_200);

/// Tells what time it is.
pub(crate) type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Why a process could not go on.
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
    #[error("the operator ended by itself, which it should not")]
    Ended,
}

/// What a process counts, whatever its operator does.
pub(crate) trait Figures: Clone + Send + Sync + 'static {
    /// Whether this process is the one that acts.
    fn set_leader(&self, leads: bool);

    /// A call to the API server was answered with `code`, or not at all.
    fn api_request(&self, call: &Call<'_>, code: Option<u16>);
}

impl Figures for Metrics {
    fn set_leader(&self, leads: bool) {
        self.set_leader(leads);
    }

    fn api_request(&self, call: &Call<'_>, code: Option<u16>) {
        self.api_request(call.verb.as_str(), call.resource, code, call.duration);
    }
}

impl Figures for InstallationMetrics {
    fn set_leader(&self, leads: bool) {
        self.set_leader(leads);
    }

    fn api_request(&self, call: &Call<'_>, code: Option<u16>) {
        self.api_request(call.verb.as_str(), call.resource, code, call.duration);
    }
}

/// Runs a process to its end.
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

/// Something that is served.
pub(crate) struct Served {
    /// What, for the log.
    pub(crate) what: &'static str,
    /// The setting that says where.
    pub(crate) setting: &'static str,
    /// Where.
    pub(crate) address: BindAddress,
    /// The answers.
    pub(crate) pages: Pages,
}

/// Listens where a setting says, unless that is nowhere.
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

/// What is being served.
pub(crate) struct Servers {
    tasks: Vec<JoinHandle<()>>,
    token: CancellationToken,
}

impl Servers {
    /// Ends all of them.
    pub(crate) async fn end(self) {
        self.token.cancel();
        for task in self.tasks {
            // It ends by itself, or a panic has ended the process.
            let _ = task.await;
        }
    }
}

/// Serves all of it.
pub(crate) async fn serve<const N: usize>(all: [Served; N]) -> Result<Servers, Failure> {
    let mut bound = Vec::new();
    for served in all {
        let Served {
            what,
            setting,
            address,
            pages,
        } = served;
        let server = listen(what, setting, address).await?;
        bound.extend(server.map(|server| (what, server, pages)));
    }
    let token = CancellationToken::new();
    let tasks = bound.into_iter().map(|(what, server, pages)| {
        // With port 0 nobody else knows where.
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

/// A process that acts while it leads.
pub(crate) struct Process<F> {
    /// The cluster.
    pub(crate) config: Config,
    /// The Lease of leader election and its namespace; None acts without.
    pub(crate) lease: Option<(String, &'static str)>,
    /// How fast calls may follow each other.
    pub(crate) limits: Limits,
    /// What is counted.
    pub(crate) figures: F,
    /// What is said of its health.
    pub(crate) health: Health,
}

/// What an operator is started with.
pub(crate) struct Start {
    /// Speaks to the API server while this process leads.
    pub(crate) client: Client,
    /// Speaks to the API server whether it leads or not.
    pub(crate) open: Client,
    /// Tells what time it is.
    pub(crate) clock: Clock,
    /// Whether this process leads.
    pub(crate) leads: watch::Receiver<bool>,
    /// Where all randomness comes from.
    pub(crate) seed: u64,
    /// When to end.
    pub(crate) stop: CancellationToken,
}

impl<F: Figures> Process<F> {
    /// Runs what `start` begins, until a signal comes or something fails.
    pub(crate) async fn run<O>(self, start: impl FnOnce(Start) -> O) -> Result<(), Failure>
    where
        O: Future<Output = ()> + Send + 'static,
    {
        let Self {
            config,
            lease,
            limits,
            figures,
            health,
        } = self;
        let mut random = Random::from_entropy();
        let clock: Clock = Arc::new(Timestamp::now);
        let calls = Arc::new(Told {
            figures: figures.clone(),
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
        let client = client::layered(transport, fence, limits, calls);
        let (leads, receiver) = watch::channel(election.is_none());
        health.set_standby(election.is_some());
        figures.set_leader(election.is_none());
        let stop = CancellationToken::new();
        let operator = start(Start {
            client,
            open,
            clock,
            leads: receiver,
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
                    figures.set_leader(true);
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
fn host(name: &str) -> String {
    std::env::var("HOSTNAME")
        .ok()
        .or_else(|| std::fs::read_to_string("/proc/sys/kernel/hostname").ok())
        .map(|name| name.trim().to_owned())
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| name.to_owned())
}

/// Every call to the API server counts, and shows whether it can be reached.
struct Told<F> {
    figures: F,
    health: Health,
}

impl<F: Figures> CallObserver for Told<F> {
    fn on_call(&self, call: &Call<'_>) {
        let code = match call.outcome {
            client::CallOutcome::Status(code) => Some(code.as_u16()),
            client::CallOutcome::Timeout | client::CallOutcome::Error => None,
        };
        self.figures.api_request(call, code);
        match code {
            Some(_) => self.health.api_answered(),
            None => self.health.api_failed(&call.outcome.to_string()),
        }
    }
}
