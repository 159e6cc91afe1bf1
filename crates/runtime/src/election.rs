//! Leader election on a Lease, by client-go's rules.
//!
//! Of all processes with the same Lease at most one leads:
//! - The leader renews the Lease every two seconds. Others acquire it when it has not changed for
//!   fifteen seconds by their own monotonic clock; the times in the Lease are for people.
//! - Acquiring and renewing replace the resourceVersion that was read, so of two attempts one fails.
//! - A leader that cannot renew for ten seconds stops leading, five seconds before another process may
//!   lead. It need not notice: its [`Fence`] closes by the clock, also in a process that was stopped.
//! - Lost leadership is final: the process has to exit. [`Leadership::lost`] waits for it.
//! - On exit the Lease is [released](Leadership::release), so that a successor need not wait for it to
//!   expire.
//!
//! Stricter than client-go: a leader that finds another holder stops immediately, and a deleted Lease
//! is respected until its holder must have noticed.
//!
//! Every call has a timeout. Election needs its own client, so that load cannot starve it.

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

/// Time after which others acquire a Lease that does not change.
pub const LEASE_DURATION: Duration = Duration::from_secs(15);
/// Time that the leader leads without a renewal.
pub const RENEW_DEADLINE: Duration = Duration::from_secs(10);
/// Interval of renewals, and of reads by others.
pub const RETRY_PERIOD: Duration = Duration::from_secs(2);
/// Short, since a release only saves the successor a wait.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(2);

/// Wall clock for the times in the Lease.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// A candidate for a Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Namespace of the Lease.
    pub namespace: String,
    /// Name of the Lease.
    pub name: String,
    /// Unique name of this process: see [`identity`].
    pub identity: String,
}

/// Unique name of this process: that of its Pod or host and a random part, since a restarted container
/// keeps the name of its Pod.
pub fn identity(host: &str, random: &mut Random) -> String {
    format!("{host}_{:016x}", random.next())
}

/// Why a process lost its leadership.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Loss {
    #[error("the Lease could not be renewed within {} s", RENEW_DEADLINE.as_secs())]
    NotRenewed,
    #[error("{holder} has acquired the Lease")]
    AcquiredByOther { holder: String },
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

/// Outcome of an attempt to acquire or renew the Lease.
enum Attempt {
    /// This process leads, by a request that was sent then.
    Leading { sent: Instant },
    /// Another process leads.
    Waiting,
    /// This process led before.
    Lost(Loss),
}

impl Election {
    /// A candidate. `client` should be used for nothing else.
    pub fn new(client: kube::Client, candidate: Candidate, clock: Clock, random: Random) -> Self {
        Self {
            lock: Lock::new(client, candidate),
            clock,
            random,
            fence: Fence::closed(),
            observed: Observed::default(),
            reported: Reported::default(),
        }
    }

    /// Allows writes once and while this process leads.
    pub fn fence(&self) -> Fence {
        self.fence.clone()
    }

    /// Waits until this process leads. Failures are logged with their remedy and retried. Must be
    /// called inside a tokio runtime, which then renews the Lease.
    pub async fn acquire(mut self) -> Leadership {
        let lease = self.lock.name();
        tracing::info!(%lease, identity = self.lock.identity(), "waiting to acquire the Lease {lease}");
        loop {
            match self.attempt(None).await {
                // The process may have been stopped between request and answer.
                Ok(Attempt::Leading { sent }) if self.fence.extend(sent + RENEW_DEADLINE) => {
                    tracing::info!(%lease, identity = self.lock.identity(), "acquired the Lease {lease}: this process is the leader");
                    return Leadership::of(self, sent);
                }
                Ok(Attempt::Leading { .. }) => {}
                Ok(Attempt::Waiting | Attempt::Lost(_)) => {
                    self.reported.holder(&lease, self.observed.holder());
                }
                Err(error) => self.reported.error(&lease, &error),
            }
            // Jitter, so that candidates do not all retry at once.
            let pause = self.random.between(RETRY_PERIOD, RETRY_PERIOD * 6 / 5);
            sleep(pause).await;
        }
    }

    /// Acquires or renews the Lease if possible. An observed Lease is used for one write only.
    async fn attempt(&mut self, renewed: Option<Instant>) -> Result<Attempt, LockError> {
        let mut conflicts = 0;
        loop {
            let step = decide(
                &self.observed,
                self.lock.identity(),
                renewed,
                Instant::now(),
            );
            self.observed.forget();
            let (sent, now) = (Instant::now(), (self.clock)());
            let written = match step {
                Step::Read => {
                    let lease = self.lock.read().await?;
                    self.observed.observe(lease, Instant::now());
                    continue;
                }
                Step::Wait => return Ok(Attempt::Waiting),
                Step::Lost(loss) => return Ok(Attempt::Lost(loss)),
                Step::Create => self.lock.create(now).await,
                Step::Acquire(lease) => self.lock.acquire(lease, now).await,
                Step::Renew(lease) => self.lock.renew(lease, now).await,
            };
            match written {
                Ok(lease) => {
                    self.observed.observe(Some(lease), Instant::now());
                    return Ok(Attempt::Leading { sent });
                }
                // Once, to find out who was faster: it may have been this process, by a request that
                // timed out.
                Err(error) if error.is_conflict() && conflicts == 0 => conflicts += 1,
                Err(error) => return Err(error),
            }
        }
    }

    /// Renews the Lease until leadership is lost, or until `stop`.
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
                Ok(Ok(Attempt::Leading { sent })) if self.fence.extend(sent + RENEW_DEADLINE) => {
                    renewed = sent;
                    self.reported.reset();
                }
                Ok(Ok(Attempt::Leading { .. })) | Err(_) => return Some(Loss::NotRenewed),
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
            .field("identity", &self.lock.identity())
            .finish_non_exhaustive()
    }
}

/// Leadership of this process, possibly lost by now. A separate task renews the Lease, however busy
/// the caller is. Dropping it without [`release`](Self::release) closes the fence immediately and
/// leaves the Lease to expire.
#[derive(Debug)]
pub struct Leadership {
    fence: Fence,
    loss: watch::Receiver<Option<Loss>>,
    stop: CancellationToken,
    task: JoinHandle<Option<Election>>,
}

impl Leadership {
    fn of(mut election: Election, renewed: Instant) -> Self {
        let (sender, loss) = watch::channel(None);
        let stop = CancellationToken::new();
        let fence = election.fence();
        let stopped = stop.clone();
        let task = tokio::spawn(async move {
            let Some(loss) = election.keep(renewed, &stopped).await else {
                return Some(election);
            };
            election.fence.close();
            let lease = election.lock.name();
            tracing::error!(
                %lease,
                reason = %loss,
                "lost the Lease {lease}: this process is no longer the leader"
            );
            sender.send_replace(Some(loss));
            None
        });
        Self {
            fence,
            loss,
            stop,
            task,
        }
    }

    /// Allows writes while this process leads.
    pub fn fence(&self) -> Fence {
        self.fence.clone()
    }

    /// Waits until leadership is lost, which is final. The fence is closed by then.
    pub async fn lost(&self) -> Loss {
        let mut loss = self.loss.clone();
        let loss = loss.wait_for(Option::is_some).await;
        // Without the task nothing renews the Lease.
        loss.ok()
            .and_then(|loss| loss.clone())
            .unwrap_or(Loss::NotRenewed)
    }

    /// Releases the Lease, so that a successor can acquire it immediately. Call it when no write is in
    /// flight; the fence closes first. After an error a successor has to wait until the Lease expires.
    pub async fn release(mut self) -> Result<(), LockError> {
        self.fence.close();
        self.stop.cancel();
        let Ok(Some(election)) = (&mut self.task).await else {
            return Ok(());
        };
        let lease = election.lock.name();
        let now = (election.clock)();
        let released = timeout(RELEASE_TIMEOUT, election.lock.release(now)).await;
        let released =
            released.unwrap_or_else(|_| Err(election.lock.timed_out("release", RELEASE_TIMEOUT)));
        match &released {
            Ok(()) => tracing::info!(%lease, "released the Lease {lease}"),
            Err(error) => {
                tracing::warn!(
                    %lease,
                    %error,
                    "could not release the Lease {lease}: a successor has to wait until it expires"
                );
            }
        }
        released
    }
}

impl Drop for Leadership {
    fn drop(&mut self) {
        self.fence.close();
        self.task.abort();
    }
}

/// The last log message: one that repeats is not logged again.
#[derive(Debug, Default)]
struct Reported {
    last: Option<String>,
}

impl Reported {
    fn holder(&mut self, lease: &str, holder: Option<&str>) {
        let holder = holder.unwrap_or_default();
        if self.is_new(format!("led by {holder}")) {
            tracing::info!(%lease, %holder, "another process is the leader: {holder}");
        }
    }

    fn error(&mut self, lease: &str, error: &LockError) {
        let error = error.to_string();
        if self.is_new(error.clone()) {
            tracing::warn!(%lease, %error, "leader election failed and is retried");
        }
    }

    fn reset(&mut self) {
        self.last = None;
    }

    fn is_new(&mut self, text: String) -> bool {
        let new = self.last.as_ref() != Some(&text);
        self.last = Some(text);
        new
    }
}
