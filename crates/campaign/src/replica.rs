//! A replica of the operator: one process after the other, each a candidate for the Lease.

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
    decision::Subject,
    ground::{Start, clock},
    wire::{Wire, Wires},
};

/// How a process ended by itself.
#[derive(Debug)]
pub struct Ended {
    /// The replica.
    pub replica: usize,
    /// Which of its processes.
    pub life: u64,
    /// The words of a panic.
    pub panic: Option<String>,
}

/// A replica.
pub struct Replica {
    /// Its number.
    pub number: usize,
    /// When its next process starts, if none runs.
    pub starts: Option<Instant>,
    life: u64,
    running: Option<(Wire, JoinHandle<()>)>,
}

struct Uncounted;

impl CallObserver for Uncounted {
    fn on_call(&self, _: &Call<'_>) {}
}

/// Ends a task when it is dropped, as the end of a process does.
struct Bound(JoinHandle<()>);

impl Drop for Bound {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Replica {
    /// A replica whose first process starts then.
    pub fn new(number: usize, starts: Instant) -> Self {
        Self {
            number,
            starts: Some(starts),
            life: 0,
            running: None,
        }
    }

    /// Which process runs, or ran last.
    pub fn life(&self) -> u64 {
        self.life
    }

    /// Starts a process.
    pub fn start(
        &mut self,
        subject: Subject,
        cluster: &Cluster,
        wires: &Wires,
        seed: u64,
        ended: mpsc::UnboundedSender<Ended>,
    ) {
        self.starts = None;
        self.life += 1;
        let (namespace, account) = subject.account();
        let client = cluster.server().client_of(namespace, account);
        let identity = format!("replica-{}_{}", self.number, self.life);
        let wire = wires.wire(client, self.number, identity.clone());
        let mut random = Random::seeded(seed ^ (self.life << 8) ^ self.number as u64);
        let clock = clock(cluster, wires);
        let transport = wire.transport();
        let (replica, life) = (self.number, self.life);
        let process = async move {
            let calls: Arc<dyn CallObserver> = Arc::new(Uncounted);
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
            let mut operator = Bound(tokio::spawn(subject.operate(start)));
            let leading = async {
                let leadership = election.acquire().await;
                leads.send_replace(true);
                leadership.lost().await;
            };
            let panic = tokio::select! {
                biased;
                ended = &mut operator.0 => Some(words(ended)),
                () = leading => None,
            };
            let _ = ended.send(Ended {
                replica,
                life,
                panic,
            });
        };
        self.running = Some((wire, tokio::spawn(process)));
    }

    /// Ends the process as a crash does, and says when the next one starts.
    pub async fn crash(&mut self, next: Instant) {
        if let Some((wire, process)) = self.running.take() {
            wire.cut_off();
            process.abort();
            let _ = process.await;
        }
        self.starts = Some(next);
    }
}

fn words(ended: Result<(), JoinError>) -> String {
    match ended {
        Ok(()) => "the operator ended by itself".to_owned(),
        Err(error) => match error.try_into_panic() {
            Ok(panic) => panic
                .downcast_ref::<String>()
                .cloned()
                .or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
                .unwrap_or_else(|| "a panic without words".to_owned()),
            Err(error) => error.to_string(),
        },
    }
}
