//! Network between the operator's replicas and the API server: numbers and records every request, and
//! injects the faults of the script.

mod connection;
mod request;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use sandbox::ApiServer;
use tokio::{
    sync::{mpsc, watch},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

pub use self::{connection::Connection, request::SentRequest};
use crate::{
    decision::{Action, Effect, Fault, Trigger},
    user::User,
};

/// Further requests of a run get no answer: an operator that repeats a request without a delay would
/// keep the run from ending.
pub const MAX_REQUESTS: u32 = 20_000;

/// Message of a connection to the run.
#[derive(Debug)]
pub enum Signal {
    /// A replica crashes and is down for this long.
    Crash { replica: usize, down: Duration },
    /// All replicas crash and are down for this long.
    Down { down: Duration },
}

#[derive(Default)]
struct State {
    next: u32,
    scheduled: BTreeMap<u32, Vec<(Trigger, Effect)>>,
    sent: Vec<SentRequest>,
    user_actions: Vec<UserAction>,
    stale: BTreeMap<&'static str, Instant>,
    all_stale: Option<Instant>,
    no_bookmarks: Option<Instant>,
    outage: Option<(u16, Instant)>,
    partition: Option<(Option<usize>, Instant)>,
    clock: i64,
}

/// An action of a user and its place in the history.
#[derive(Clone, Debug)]
pub struct UserAction {
    pub action: Action,
    pub at: Instant,
    /// Revision of the store before it.
    pub before: u64,
    /// Revision of the store after it.
    pub after: u64,
    /// Message of the API server's refusal.
    pub refused: Option<String>,
}

/// Network of a run, with its faults. Clones share their state.
#[derive(Clone)]
pub struct Network {
    state: Arc<Mutex<State>>,
    /// Ends the open watches. A watch channel would wake them in random order.
    cut: Arc<Mutex<CancellationToken>>,
    signals: mpsc::UnboundedSender<Signal>,
    server: ApiServer,
    user: User,
}

impl Network {
    /// A network that injects the decisions that are about a request.
    pub fn new(
        server: ApiServer,
        user: User,
        decisions: impl Iterator<Item = (Trigger, Effect)>,
        signals: mpsc::UnboundedSender<Signal>,
    ) -> Self {
        let mut state = State::default();
        for (trigger, effect) in decisions {
            if let Trigger::Before(index) | Trigger::After(index) = trigger {
                state
                    .scheduled
                    .entry(index)
                    .or_default()
                    .push((trigger, effect));
            }
        }
        Self {
            state: Arc::new(Mutex::new(state)),
            cut: Arc::default(),
            signals,
            server,
            user,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of requests, without watches and Lease requests.
    pub fn count(&self) -> u32 {
        self.state().next
    }

    /// All requests that reached the API server.
    pub fn sent(&self) -> Vec<SentRequest> {
        self.state().sent.clone()
    }

    pub fn user_actions(&self) -> Vec<UserAction> {
        self.state().user_actions.clone()
    }

    /// Offset of the operator's clock in seconds.
    pub fn clock(&self) -> i64 {
        self.state().clock
    }

    /// Ends all faults.
    pub fn heal(&self) {
        let mut state = self.state();
        *state = State {
            next: state.next,
            sent: std::mem::take(&mut state.sent),
            user_actions: std::mem::take(&mut state.user_actions),
            ..State::default()
        };
    }

    /// Executes and records an action of a user.
    pub async fn act(&self, action: &Action) {
        let before = self.server.revision();
        let refused = self.user.act(action).await.err();
        let user_action = UserAction {
            action: action.clone(),
            at: Instant::now(),
            before,
            after: self.server.revision(),
            refused,
        };
        self.state().user_actions.push(user_action);
    }

    /// Injects a fault that is not about one request.
    pub fn inject(&self, fault: Fault, replica: usize) {
        let now = Instant::now();
        match fault {
            Fault::Crash { down } => {
                let _ = self.signals.send(Signal::Crash { replica, down });
            }
            Fault::Down { down } => {
                let _ = self.signals.send(Signal::Down { down });
            }
            Fault::Stale { resource, lasts } => match resource {
                Some(resource) => {
                    self.state().stale.insert(resource, now + lasts);
                }
                None => self.state().all_stale = Some(now + lasts),
            },
            Fault::NoBookmarks { lasts } => self.state().no_bookmarks = Some(now + lasts),
            Fault::Cut => {
                self.cut_watches();
            }
            Fault::Compact => {
                self.server.compact();
                self.cut_watches();
            }
            Fault::Outage { code, lasts } => {
                self.state().outage = Some((code, now + lasts));
                self.cut_watches();
            }
            Fault::Partition { lasts } => self.state().partition = Some((None, now + lasts)),
            Fault::Clock { by } => self.state().clock = by,
            // About one request only.
            Fault::Lost | Fault::Silence | Fault::Status(_) => {}
        }
    }

    /// Connection of one process, which ends with it.
    pub fn connection(&self, client: kube::Client, replica: usize, identity: String) -> Connection {
        Connection {
            network: self.clone(),
            client,
            replica,
            identity,
            is_crashed: watch::Sender::new(false),
        }
    }

    fn open_watches(&self) -> CancellationToken {
        let cut = self.cut.lock().unwrap_or_else(PoisonError::into_inner);
        cut.clone()
    }

    fn cut_watches(&self) {
        let mut cut = self.cut.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *cut).cancel();
    }

    fn stale_until(&self, resource: &str) -> Instant {
        let state = self.state();
        let one = state.stale.get(resource).copied();
        let until = one.into_iter().chain(state.all_stale).max();
        until.unwrap_or_else(Instant::now)
    }

    fn without_bookmarks(&self, piece: Bytes) -> Bytes {
        let is_withheld = self
            .state()
            .no_bookmarks
            .is_some_and(|until| Instant::now() < until);
        if !is_withheld {
            return piece;
        }
        let lines = piece.split_inclusive(|byte| *byte == b'\n');
        let kept = lines.filter(|line| !line.starts_with(br#"{"type":"BOOKMARK""#));
        kept.flatten().copied().collect()
    }
}
