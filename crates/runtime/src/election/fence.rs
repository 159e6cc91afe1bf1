//! Fence: whether this process may write now.

use std::sync::{Arc, PoisonError, RwLock};

use tokio::time::Instant;

/// Whether this process may write now. Cheap to clone and to check; all clones are one fence.
///
/// The fence of an election allows writes while the last renewal of the Lease is younger than the
/// renew deadline. The age counts from *before* the renewal was sent, so the fence closes five seconds
/// before another process may acquire the Lease. It closes by the clock, also in a process that was
/// stopped, and never opens again.
///
/// The clock is the node's monotonic one: setting the time does not change it, and it advances while
/// the process is stopped. On Linux it stands still while the whole node is suspended, so a node that
/// resumes may allow writes for up to ten seconds too long. Preconditions on UIDs and
/// resourceVersions protect these writes.
#[derive(Clone, Debug)]
pub struct Fence {
    state: Arc<RwLock<State>>,
}

#[derive(Clone, Copy, Debug)]
enum State {
    AlwaysOpen,
    NotYetOpen,
    OpenUntil(Instant),
    Closed,
}

impl Fence {
    /// A fence that always allows writes: without leader election.
    pub fn open() -> Self {
        Self::from(State::AlwaysOpen)
    }

    /// A fence that allows no writes until it is [extended](Self::extend).
    pub(crate) fn closed() -> Self {
        Self::from(State::NotYetOpen)
    }

    fn from(state: State) -> Self {
        Self {
            state: Arc::new(RwLock::new(state)),
        }
    }

    pub fn allows_writes(&self) -> bool {
        match *self.state.read().unwrap_or_else(PoisonError::into_inner) {
            State::AlwaysOpen => true,
            State::OpenUntil(end) => Instant::now() < end,
            State::NotYetOpen | State::Closed => false,
        }
    }

    /// Allows writes until `end`, unless the fence was closed. Returns whether it allows them.
    pub(crate) fn extend(&self, end: Instant) -> bool {
        let now = Instant::now();
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        *state = match *state {
            State::OpenUntil(old) if old <= now => State::Closed,
            State::NotYetOpen | State::OpenUntil(_) if now < end => State::OpenUntil(end),
            other => other,
        };
        matches!(*state, State::AlwaysOpen | State::OpenUntil(_))
    }

    /// Forbids writes for good.
    pub(crate) fn close(&self) {
        *self.state.write().unwrap_or_else(PoisonError::into_inner) = State::Closed;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::advance;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn an_open_fence_always_allows_writes() {
        let fence = Fence::open();
        advance(1000 * SECOND).await;
        assert!(fence.allows_writes());
    }

    #[tokio::test(start_paused = true)]
    async fn an_extended_fence_closes_by_the_clock() {
        let fence = Fence::closed();
        assert!(!fence.allows_writes());
        assert!(fence.extend(Instant::now() + 10 * SECOND));
        let clone = fence.clone();
        advance(9 * SECOND).await;
        assert!(clone.allows_writes());
        advance(SECOND).await;
        assert!(!clone.allows_writes());
    }

    #[tokio::test(start_paused = true)]
    async fn a_closed_fence_stays_closed() {
        let late = Fence::closed();
        late.extend(Instant::now() + SECOND);
        advance(2 * SECOND).await;
        assert!(!late.extend(Instant::now() + 10 * SECOND));
        assert!(!late.allows_writes());

        let revoked = Fence::closed();
        revoked.extend(Instant::now() + 10 * SECOND);
        revoked.close();
        assert!(!revoked.extend(Instant::now() + 10 * SECOND));
        assert!(!revoked.allows_writes());
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_acquired_too_long_ago_does_not_open_the_fence() {
        let (fence, sent) = (Fence::closed(), Instant::now());
        advance(60 * SECOND).await;
        assert!(!fence.extend(sent + 10 * SECOND));
        assert!(!fence.allows_writes());
        assert!(fence.extend(Instant::now() + 10 * SECOND));
        assert!(fence.allows_writes());
    }
}
