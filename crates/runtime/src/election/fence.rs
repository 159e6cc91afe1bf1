//! Whether this process leads now.

use std::sync::{Arc, PoisonError, RwLock};

use tokio::time::Instant;

/// Whether this process may write now. Cheap to clone and to ask; all clones are one fence.
///
/// The fence of an election holds from the moment the Lease is won, for as long as it was last
/// renewed less than the renew deadline ago. The time runs from *before* the renewal was sent, so it
/// is over five seconds before anybody else may take the Lease. Nobody has to notice anything for
/// the fence to fall: it falls by the clock, also in a process that was stopped. Once it has fallen
/// it stays down.
///
/// The clock is the machine's monotonic one: setting the time does not move it, and it runs on while
/// the process is stopped. While a whole machine sleeps it stands still on Linux; a node that is
/// suspended and wakes may therefore believe for up to ten seconds that it leads. Preconditions on
/// uids and resource versions protect what is written then.
#[derive(Clone, Debug)]
pub struct Fence {
    state: Arc<RwLock<State>>,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Open,
    NotYet,
    Until(Instant),
    Fallen,
}

impl Fence {
    /// A fence that always holds: without leader election.
    pub fn open() -> Self {
        Self::from(State::Open)
    }

    /// A fence that does not hold before it is [extended](Self::extend).
    pub(crate) fn not_yet() -> Self {
        Self::from(State::NotYet)
    }

    fn from(state: State) -> Self {
        Self {
            state: Arc::new(RwLock::new(state)),
        }
    }

    /// Whether this process may write now.
    pub fn allows_writes(&self) -> bool {
        match *self.state.read().unwrap_or_else(PoisonError::into_inner) {
            State::Open => true,
            State::Until(end) => Instant::now() < end,
            State::NotYet | State::Fallen => false,
        }
    }

    /// Makes it hold until `end`, unless it has fallen. Returns whether it holds.
    pub(crate) fn extend(&self, end: Instant) -> bool {
        let now = Instant::now();
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        *state = match *state {
            State::Until(old) if old <= now => State::Fallen,
            State::NotYet | State::Until(_) if now < end => State::Until(end),
            other => other,
        };
        matches!(*state, State::Open | State::Until(_))
    }

    /// Lets it fall.
    pub(crate) fn fall(&self) {
        *self.state.write().unwrap_or_else(PoisonError::into_inner) = State::Fallen;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::advance;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn an_open_fence_always_holds() {
        let fence = Fence::open();
        advance(1000 * SECOND).await;
        assert!(fence.allows_writes());
    }

    #[tokio::test(start_paused = true)]
    async fn it_holds_once_extended_and_falls_by_the_clock() {
        let fence = Fence::not_yet();
        assert!(!fence.allows_writes());
        assert!(fence.extend(Instant::now() + 10 * SECOND));
        let clone = fence.clone();
        advance(9 * SECOND).await;
        assert!(clone.allows_writes());
        advance(SECOND).await;
        assert!(!clone.allows_writes());
    }

    #[tokio::test(start_paused = true)]
    async fn a_fallen_fence_stays_down() {
        let late = Fence::not_yet();
        late.extend(Instant::now() + SECOND);
        advance(2 * SECOND).await;
        assert!(!late.extend(Instant::now() + 10 * SECOND));
        assert!(!late.allows_writes());

        let told = Fence::not_yet();
        told.extend(Instant::now() + 10 * SECOND);
        told.fall();
        assert!(!told.extend(Instant::now() + 10 * SECOND));
        assert!(!told.allows_writes());
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_that_was_won_too_long_ago_has_to_be_won_again() {
        let (fence, asked) = (Fence::not_yet(), Instant::now());
        advance(60 * SECOND).await;
        assert!(!fence.extend(asked + 10 * SECOND));
        assert!(!fence.allows_writes());
        assert!(fence.extend(Instant::now() + 10 * SECOND));
        assert!(fence.allows_writes());
    }
}
