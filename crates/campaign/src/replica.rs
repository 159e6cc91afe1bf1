//! Replica of an operator: consecutive processes, each a candidate for the Lease.

use std::sync::Arc;

use runtime::{
    backoff::Random,
    client::{Call, CallObserver, Limits, layered},
    election::{Candidate, Election, Fence},
};
use sandbox::Cluster;
use tokio::{
    sync::{mpsc, watch},
    task::{JoinError, JoinHandle},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use crate::{
    cluster::{Start, clock},
    decision::Subject,
    network::{Connection, Network},
};

/// Exit of a process that was not requested.
#[derive(Debug)]
pub struct ProcessExit {
    pub replica: usize,
    /// Number of the replica's process.
    pub life: u64,
    /// The panic, unless the process lost its Lease.
    pub panic: Option<String>,
}

pub struct Replica {
    pub number: usize,
    /// Start of the next process, if none runs.
    pub starts: Option<Instant>,
    life: u64,
    running: Option<(Connection, JoinHandle<()>)>,
}

struct NoObserver;

impl CallObserver for NoObserver {
    fn on_call(&self, _: &Call<'_>) {}
}

/// Aborts a task when it is dropped, as the exit of a process does.
struct AbortOnDrop(JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Replica {
    /// A replica whose first process starts at `starts`.
    pub fn new(number: usize, starts: Instant) -> Self {
        Self {
            number,
            starts: Some(starts),
            life: 0,
            running: None,
        }
    }

    /// Number of the current or last process.
    pub fn life(&self) -> u64 {
        self.life
    }

    /// Starts a process.
    pub fn start(
        &mut self,
        subject: Subject,
        cluster: &Cluster,
        network: &Network,
        seed: u64,
        ended: mpsc::UnboundedSender<ProcessExit>,
    ) {
        self.starts = None;
        self.life += 1;
        let (namespace, account) = subject.account();
        let client = cluster.server().client_of(namespace, account);
        let identity = format!("replica-{}_{}", self.number, self.life);
        let connection = network.connection(client, self.number, identity.clone());
        let mut random = Random::seeded(seed ^ (self.life << 8) ^ self.number as u64);
        let clock = clock(cluster, network);
        let transport = connection.transport();
        let (replica, life) = (self.number, self.life);
        let process = async move {
            let calls: Arc<dyn CallObserver> = Arc::new(NoObserver);
            let client = |fence| {
                layered(
                    transport.clone(),
                    fence,
                    Limits::UNLIMITED,
                    Arc::clone(&calls),
                )
            };
            let candidate = Candidate {
                namespace: namespace.to_owned(),
                name: subject.lease().to_owned(),
                identity,
            };
            let own = client(Fence::open());
            let election = Election::new(own, candidate, clock.clone(), random.fork());
            let (leads, receiver) = watch::channel(false);
            let start = Start {
                client: client(election.fence()),
                open: client(Fence::open()),
                clock,
                leads: receiver,
                seed: random.next(),
                stop: CancellationToken::new(),
            };
            let mut operator = AbortOnDrop(tokio::spawn(subject.operate(start)));
            let leading = async {
                let leadership = election.acquire().await;
                leads.send_replace(true);
                leadership.lost().await;
            };
            let panic = tokio::select! {
                biased;
                ended = &mut operator.0 => Some(exit_reason(ended)),
                () = leading => None,
            };
            let _ = ended.send(ProcessExit {
                replica,
                life,
                panic,
            });
        };
        self.running = Some((connection, tokio::spawn(process)));
    }

    /// Crashes the process and schedules the next one.
    pub async fn crash(&mut self, next: Instant) {
        if let Some((connection, process)) = self.running.take() {
            connection.crash();
            process.abort();
            let _ = process.await;
        }
        self.starts = Some(next);
    }
}

fn exit_reason(ended: Result<(), JoinError>) -> String {
    match ended {
        Ok(()) => "the operator exited without a request".to_owned(),
        Err(error) => match error.try_into_panic() {
            Ok(panic) => panic
                .downcast_ref::<String>()
                .cloned()
                .or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
                .unwrap_or_else(|| "a panic without a message".to_owned()),
            Err(error) => error.to_string(),
        },
    }
}
