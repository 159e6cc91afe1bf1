//! Control loop: waits for the inputs of one controller and passes them to it, one at a time.
//!
//! A [`Controller`] decides; [`run`] waits. Each turn starts the requests that are due and then takes
//! one input. If several are ready, the order is: shutdown, change of leadership, answer to a write,
//! answer to a read, watch event, query of another task, timer.
//!
//! - One future owns the watches, the caches and the requests in flight, so nothing needs a lock.
//! - The order is fixed and the clock is tokio's: with paused time and a seed, a run repeats exactly.
//! - Nothing is polled: the loop sleeps until an input or the controller's next timer.
//! - At shutdown, writes in flight get [`DRAIN_TIMEOUT`] to finish, and reads are dropped.

use std::{collections::BTreeMap, time::Duration};

use futures::{
    FutureExt as _, StreamExt as _,
    future::{BoxFuture, OptionFuture},
    stream::{BoxStream, FuturesUnordered, SelectAll, Stream},
};
use tokio::{
    sync::{mpsc, watch},
    time::{Instant, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;

/// Time that writes in flight get to finish at shutdown.
pub const DRAIN_TIMEOUT: Duration = Duration::from_secs(4);

pub const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(10);

/// State and decisions of a control loop. No method waits.
pub trait Controller {
    /// Name in logs, such as `Machine controller`.
    const NAME: &'static str;

    /// Whether [`on_heartbeat`](Self::on_heartbeat) is called periodically.
    const HAS_HEARTBEAT: bool = false;

    /// Key of a watch.
    type Watched: Ord + Clone + Send + 'static;
    type WatchEvent: Send + 'static;
    /// Answer to a request.
    type Completed: Send + 'static;
    /// Query of another task; [`std::convert::Infallible`] if there are none.
    type Query;

    /// Sources of the controller's inputs.
    fn inputs(&mut self) -> &mut Inputs<Self>;

    /// Changes of leadership, if the controller depends on it.
    fn leadership(&self) -> Option<watch::Receiver<bool>> {
        None
    }

    /// Starts the requests that are due. Returns the time of the next timer.
    fn start_due(&mut self, now: Instant) -> Option<Instant>;

    fn on_event(&mut self, watched: Self::Watched, event: Self::WatchEvent);

    fn on_completed(&mut self, completed: Self::Completed);

    fn on_query(&mut self, query: Self::Query);

    fn on_leadership_change(&mut self) {}

    fn on_heartbeat(&mut self, _now: Instant) {}
}

/// Sources of a controller's inputs.
pub struct Inputs<C: Controller + ?Sized> {
    pub watches: Watches<C::Watched, C::WatchEvent>,
    pub in_flight: InFlight<C::Completed>,
    queries: Option<mpsc::Receiver<C::Query>>,
}

impl<C: Controller + ?Sized> Default for Inputs<C> {
    fn default() -> Self {
        Self {
            watches: Watches::default(),
            in_flight: InFlight::default(),
            queries: None,
        }
    }
}

impl<C: Controller + ?Sized> Inputs<C> {
    /// Inputs with queries of other tasks.
    pub fn with_queries(queries: mpsc::Receiver<C::Query>) -> Self {
        Self {
            queries: Some(queries),
            ..Self::default()
        }
    }

    fn queued_query(&mut self) -> Option<C::Query> {
        self.queries.as_mut()?.try_recv().ok()
    }
}

/// Watches by key.
pub struct Watches<K, E> {
    streams: SelectAll<BoxStream<'static, (K, E)>>,
    tokens: BTreeMap<K, CancellationToken>,
}

impl<K, E> Default for Watches<K, E> {
    fn default() -> Self {
        Self {
            streams: SelectAll::new(),
            tokens: BTreeMap::new(),
        }
    }
}

impl<K: Ord + Clone + Send + 'static, E: Send + 'static> Watches<K, E> {
    pub fn start(&mut self, watched: K, events: impl Stream<Item = E> + Send + 'static) {
        let token = CancellationToken::new();
        let key = watched.clone();
        let events = events
            .map(move |event| (key.clone(), event))
            .take_until(token.clone().cancelled_owned());
        self.streams.push(events.boxed());
        self.tokens.insert(watched, token);
    }

    /// Ends a watch; no event of it follows. Returns whether there was one.
    pub fn stop(&mut self, watched: &K) -> bool {
        let token = self.tokens.remove(watched);
        if let Some(token) = &token {
            token.cancel();
        }
        token.is_some()
    }

    pub fn contains(&self, watched: &K) -> bool {
        self.tokens.contains_key(watched)
    }

    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.tokens.keys()
    }
}

/// Requests in flight.
pub struct InFlight<T> {
    writes: FuturesUnordered<BoxFuture<'static, T>>,
    reads: FuturesUnordered<BoxFuture<'static, T>>,
}

impl<T> Default for InFlight<T> {
    fn default() -> Self {
        Self {
            writes: FuturesUnordered::new(),
            reads: FuturesUnordered::new(),
        }
    }
}

impl<T: Send + 'static> InFlight<T> {
    /// Starts a write, or a read that a write follows. It is finished at shutdown.
    pub fn push_write(&self, request: impl Future<Output = T> + Send + 'static) {
        self.writes.push(request.boxed());
    }

    /// Starts a read, which is dropped at shutdown.
    pub fn push_read(&self, request: impl Future<Output = T> + Send + 'static) {
        self.reads.push(request.boxed());
    }

    pub fn writes(&self) -> usize {
        self.writes.len()
    }

    pub fn reads(&self) -> usize {
        self.reads.len()
    }

    pub fn is_empty(&self) -> bool {
        self.writes.is_empty() && self.reads.is_empty()
    }

    async fn next(&mut self) -> Option<T> {
        tokio::select! {
            biased;
            Some(completed) = self.writes.next() => Some(completed),
            Some(completed) = self.reads.next() => Some(completed),
            else => None,
        }
    }
}

enum Input<C: Controller> {
    LeadershipChange,
    Completed(C::Completed),
    Event(C::Watched, C::WatchEvent),
    Query(C::Query),
    Timer,
}

/// Runs a controller until the token is cancelled, then finishes the writes in flight.
pub async fn run<C: Controller>(mut controller: C, token: CancellationToken) {
    let mut leadership = controller.leadership();
    let mut heartbeat = C::HAS_HEARTBEAT.then(Instant::now);
    loop {
        // One query per turn, so that neither queries nor writes starve.
        if let Some(query) = controller.inputs().queued_query() {
            controller.on_query(query);
        }
        let now = Instant::now();
        let timer = controller.start_due(now);
        if heartbeat.is_some_and(|at| at <= now) {
            controller.on_heartbeat(now);
            heartbeat = Some(now + HEARTBEAT_INTERVAL);
        }
        let timer = timer.into_iter().chain(heartbeat).min();
        match next_input(controller.inputs(), leadership.as_mut(), timer, &token).await {
            None => break,
            Some(Input::LeadershipChange) => controller.on_leadership_change(),
            Some(Input::Completed(completed)) => controller.on_completed(completed),
            Some(Input::Event(watched, event)) => controller.on_event(watched, event),
            Some(Input::Query(query)) => controller.on_query(query),
            Some(Input::Timer) => {}
        }
    }
    let writes = &mut controller.inputs().in_flight.writes;
    // The next leader observes their effects.
    let drained = timeout(DRAIN_TIMEOUT, async {
        while writes.next().await.is_some() {}
    });
    if drained.await.is_err() {
        tracing::warn!(
            "stopping the {} with writes in flight: the API server did not answer them within {} s",
            C::NAME,
            DRAIN_TIMEOUT.as_secs()
        );
    }
}

/// The next input; none at shutdown.
async fn next_input<C: Controller>(
    inputs: &mut Inputs<C>,
    leadership: Option<&mut watch::Receiver<bool>>,
    timer: Option<Instant>,
    token: &CancellationToken,
) -> Option<Input<C>> {
    let Inputs {
        watches,
        in_flight,
        queries,
    } = inputs;
    let leadership = OptionFuture::from(leadership.map(watch::Receiver::changed));
    let query = OptionFuture::from(queries.as_mut().map(mpsc::Receiver::recv));
    let timer = OptionFuture::from(timer.map(sleep_until));
    let input = tokio::select! {
        biased;
        () = token.cancelled() => return None,
        Some(Ok(())) = leadership => Input::LeadershipChange,
        Some(completed) = in_flight.next() => Input::Completed(completed),
        Some((watched, event)) = watches.streams.next() => Input::Event(watched, event),
        Some(Some(query)) = query => Input::Query(query),
        Some(()) = timer => Input::Timer,
    };
    Some(input)
}

#[cfg(test)]
mod tests;
