//! Leader election on a Lease, by client-go's rules.
//!
//! Of all processes with the same Lease at most one leads:
//! - The holder renews the Lease every two seconds. Others take it when they have not seen it change
//!   for fifteen seconds, by their own monotonic clock; the times that are written in the Lease are
//!   for people.
//! - The Lease is taken and renewed by replacing the version that was read, so of two who try one
//!   fails.
//! - A leader that cannot renew for ten seconds stops leading, five seconds before anybody else may
//!   take over. It need not notice: its [`Fence`] falls by the clock. See there for what that
//!   promises to a process that was stopped.
//! - Leadership that was lost is lost for good: the process has to end. [`Leadership::lost`] tells.
//! - On the way out the Lease is [released](Leadership::release), so that a successor need not wait
//!   for it to expire.
//!
//! Stricter than client-go: a leader that sees another holder stops at once; a Lease that somebody
//! deletes is respected until its holder must have noticed.
//!
//! Every call is timed out. Election wants a client of its own, so that load cannot starve it.

mod decide;
mod fence;
mod lock;

use std::{fmt, sync::Arc, time::Duration};

use jiff::Timestamp;
use tokio::{
    sync::watch,
    task::JoinHandle,
    time::{Instant, sleep, sleep_until, timeout, timeout_at},
};
use tokio_util::sync::CancellationToken;

use self::{
    decide::{Observed, Step, decide},
    lock::Lock,
};
pub use self::{fence::Fence, lock::LockError};
use crate::backoff::Random;

/// How long others respect a Lease that does not change.
pub const LEASE_DURATION: Duration = Duration::from_secs(15);
/// How long the holder leads without having renewed.
pub const RENEW_DEADLINE: Duration = Duration::from_secs(10);
/// How often the Lease is renewed, and looked at by others.
pub const RETRY_PERIOD: Duration = Duration::from_secs(2);
/// How long giving up the Lease may take: it only spares the successor a wait.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(2);

/// Tells the time that is written into the Lease, for people.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Who wants which Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The namespace of the Lease.
    pub namespace: String,
    /// The name of the Lease.
    pub name: String,
    /// The name of this process, which no other may have: see [`identity`].
    pub identity: String,
}

/// A name for this process: its Pod's or host's, and something that differs from process to
/// process, because a container that is restarted keeps the name of its Pod.
pub fn identity(host: &str, random: &mut Random) -> String {
    format!("{host}_{:016x}", random.next())
}

/// Why a process does not lead any more.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Loss {
    /// The Lease was not renewed in time.
    #[error("the Lease could not be renewed within {} s", RENEW_DEADLINE.as_secs())]
    NotRenewed,
    /// Somebody else has the Lease.
    #[error("the Lease was taken by {by}")]
    Taken {
        /// Who.
        by: String,
    },
}

/// A candidate that does not lead yet.
pub struct Election {
    lock: Lock,
    clock: Clock,
    random: Random,
    fence: Fence,
    observed: Observed,
    reported: Reported,
}

/// How an attempt to get or to keep the Lease ended.
enum Attempt {
    /// The Lease is ours by a request that was sent then.
    Held { sent: Instant },
    /// Somebody else has it.
    Waiting,
    /// It was ours.
    Lost(Loss),
}

impl Election {
    /// A candidate. `client` had better be used for nothing else.
    pub fn new(client: kube::Client, candidate: Candidate, clock: Clock, random: Random) -> Self {
        Self {
            lock: Lock::new(client, candidate),
            clock,
            random,
            fence: Fence::not_yet(),
            observed: Observed::default(),
            reported: Reported::default(),
        }
    }

    /// Holds while this process leads: not yet.
    pub fn fence(&self) -> Fence {
        self.fence.clone()
    }

    /// Waits until this process leads. Whatever goes wrong is logged, with what to do about it, and
    /// tried again. Must be called inside a tokio runtime: the Lease is renewed there from then on.
    pub async fn acquire(mut self) -> Leadership {
        let lease = self.lock.name();
        tracing::info!(%lease, identity = self.lock.me(), "waiting for the Lease");
        loop {
            match self.attempt(None).await {
                // The process may have been stopped between asking and being answered.
                Ok(Attempt::Held { sent }) if self.fence.extend(sent + RENEW_DEADLINE) => {
                    tracing::info!(%lease, identity = self.lock.me(), "leading");
                    return Leadership::of(self, sent);
                }
                Ok(Attempt::Held { .. }) => {}
                Ok(Attempt::Waiting | Attempt::Lost(_)) => {
                    self.reported.holder(&lease, self.observed.holder());
                }
                Err(error) => self.reported.error(&lease, &error),
            }
            // Spread, so that candidates do not all come at once.
            let pause = self.random.between(RETRY_PERIOD, RETRY_PERIOD * 6 / 5);
            sleep(pause).await;
        }
    }

    /// Does what there is to do. What is known of the Lease is trusted for one write only.
    async fn attempt(&mut self, renewed: Option<Instant>) -> Result<Attempt, LockError> {
        let mut conflicts = 0;
        loop {
            let step = decide(&self.observed, self.lock.me(), renewed, Instant::now());
            self.observed.forget();
            let (sent, now) = (Instant::now(), (self.clock)());
            let written = match step {
                Step::Read => {
                    let lease = self.lock.read().await?;
                    self.observed.saw(lease, Instant::now());
                    continue;
                }
                Step::Wait => return Ok(Attempt::Waiting),
                Step::Lost(loss) => return Ok(Attempt::Lost(loss)),
                Step::Create => self.lock.create(now).await,
                Step::Take(lease) => self.lock.take(lease, now).await,
                Step::Renew(lease) => self.lock.renew(lease, now).await,
            };
            match written {
                Ok(lease) => {
                    self.observed.saw(Some(lease), Instant::now());
                    return Ok(Attempt::Held { sent });
                }
                // Once, to see at once who was faster: it may have been ourselves, by a request that
                // we gave up waiting for.
                Err(error) if error.is_conflict() && conflicts == 0 => conflicts += 1,
                Err(error) => return Err(error),
            }
        }
    }

    /// Renews the Lease until it is lost, or until `stop`.
    async fn keep(&mut self, mut renewed: Instant, stop: &CancellationToken) -> Option<Loss> {
        let lease = self.lock.name();
        loop {
            let deadline = renewed + RENEW_DEADLINE;
            let next = (Instant::now() + RETRY_PERIOD).min(deadline);
            let attempt = async {
                sleep_until(next).await;
                timeout_at(deadline, self.attempt(Some(renewed))).await
            };
            let attempt = tokio::select! {
                biased;
                () = stop.cancelled() => return None,
                attempt = attempt => attempt,
            };
            match attempt {
                Ok(Ok(Attempt::Held { sent })) if self.fence.extend(sent + RENEW_DEADLINE) => {
                    renewed = sent;
                    self.reported.nothing();
                }
                Ok(Ok(Attempt::Held { .. })) | Err(_) => return Some(Loss::NotRenewed),
                Ok(Ok(Attempt::Lost(loss))) => return Some(loss),
                Ok(Ok(Attempt::Waiting)) => {}
                Ok(Err(error)) => self.reported.error(&lease, &error),
            }
        }
    }
}

impl fmt::Debug for Election {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Election")
            .field("lease", &self.lock.name())
            .field("identity", &self.lock.me())
            .finish_non_exhaustive()
    }
}

/// This process leads, or did. The Lease is renewed in a task of its own, however busy the caller
/// is. Without [`release`](Self::release) it is given up to expire: the fence falls at once, and a
/// successor has to wait.
#[derive(Debug)]
pub struct Leadership {
    fence: Fence,
    told: watch::Receiver<Option<Loss>>,
    stop: CancellationToken,
    task: JoinHandle<Option<Election>>,
}

impl Leadership {
    fn of(mut election: Election, renewed: Instant) -> Self {
        let (tell, told) = watch::channel(None);
        let stop = CancellationToken::new();
        let fence = election.fence();
        let stopped = stop.clone();
        let task = tokio::spawn(async move {
            let Some(loss) = election.keep(renewed, &stopped).await else {
                return Some(election);
            };
            election.fence.fall();
            tracing::error!(lease = %election.lock.name(), reason = %loss, "no longer leading");
            tell.send_replace(Some(loss));
            None
        });
        Self {
            fence,
            told,
            stop,
            task,
        }
    }

    /// Holds while this process leads.
    pub fn fence(&self) -> Fence {
        self.fence.clone()
    }

    /// Waits until this process does not lead any more, for good. By then the fence has fallen.
    pub async fn lost(&self) -> Loss {
        let mut told = self.told.clone();
        let loss = told.wait_for(Option::is_some).await;
        // Nobody renews any more if the task is gone.
        loss.ok()
            .and_then(|loss| loss.clone())
            .unwrap_or(Loss::NotRenewed)
    }

    /// Gives up the Lease, so that a successor can take it at once. To be called when no write is
    /// under way any more; the fence falls before anything is given up. An error means that a
    /// successor has to wait until the Lease expires.
    pub async fn release(mut self) -> Result<(), LockError> {
        self.fence.fall();
        self.stop.cancel();
        let Ok(Some(election)) = (&mut self.task).await else {
            return Ok(());
        };
        let lease = election.lock.name();
        let now = (election.clock)();
        let released = timeout(RELEASE_TIMEOUT, election.lock.release(now)).await;
        let released =
            released.unwrap_or_else(|_| Err(election.lock.too_slow("release", RELEASE_TIMEOUT)));
        match &released {
            Ok(()) => tracing::info!(%lease, "the Lease is released"),
            Err(error) => tracing::warn!(%lease, %error, "the Lease will have to expire"),
        }
        released
    }
}

impl Drop for Leadership {
    fn drop(&mut self) {
        self.fence.fall();
        self.task.abort();
    }
}

/// What was logged last: what lasts is logged once.
#[derive(Debug, Default)]
struct Reported {
    last: Option<String>,
}

impl Reported {
    fn holder(&mut self, lease: &str, holder: Option<&str>) {
        let holder = holder.unwrap_or_default();
        if self.is_new(format!("held by {holder}")) {
            tracing::info!(%lease, %holder, "another process leads");
        }
    }

    fn error(&mut self, lease: &str, error: &LockError) {
        let error = error.to_string();
        if self.is_new(error.clone()) {
            tracing::warn!(%lease, %error, "leader election is being retried");
        }
    }

    fn nothing(&mut self) {
        self.last = None;
    }

    fn is_new(&mut self, text: String) -> bool {
        let new = self.last.as_ref() != Some(&text);
        self.last = Some(text);
        new
    }
}
