use std::{
    convert::Infallible,
    future::{pending, ready},
    sync::{Arc, Mutex},
};

use futures::stream;
use tokio::{task::JoinHandle, time::sleep};

use super::*;

type Log = Arc<Mutex<Vec<String>>>;

const SECOND: Duration = Duration::from_secs(1);

/// Records its inputs.
struct Recorder {
    inputs: Inputs<Self>,
    log: Log,
    leadership: Option<watch::Receiver<bool>>,
    timer: Option<Instant>,
    /// Called by the first turn.
    at_start: Option<fn(&mut Inputs<Self>)>,
}

impl Recorder {
    fn new(log: &Log) -> Self {
        Self {
            inputs: Inputs::default(),
            log: Arc::clone(log),
            leadership: None,
            timer: None,
            at_start: None,
        }
    }

    fn record(&self, input: impl Into<String>) {
        self.log.lock().unwrap().push(input.into());
    }
}

impl Controller for Recorder {
    const NAME: &'static str = "recorder";

    type Watched = &'static str;
    type WatchEvent = u32;
    type Completed = &'static str;
    type Query = &'static str;

    fn inputs(&mut self) -> &mut Inputs<Self> {
        &mut self.inputs
    }

    fn leadership(&self) -> Option<watch::Receiver<bool>> {
        self.leadership.clone()
    }

    fn start_due(&mut self, now: Instant) -> Option<Instant> {
        if let Some(start) = self.at_start.take() {
            start(&mut self.inputs);
        }
        if self.timer.take_if(|at| *at <= now).is_some() {
            self.record("timer");
        }
        self.timer
    }

    fn on_event(&mut self, watched: &'static str, event: u32) {
        self.record(format!("{watched} {event}"));
        if event == 2 {
            assert!(self.inputs.watches.stop(&watched));
        }
    }

    fn on_completed(&mut self, completed: &'static str) {
        self.record(completed);
    }

    fn on_query(&mut self, query: &'static str) {
        self.record(query);
    }

    fn on_leadership_change(&mut self) {
        self.record("leadership");
    }
}

fn spawn(controller: Recorder) -> (JoinHandle<()>, CancellationToken) {
    let token = CancellationToken::new();
    (tokio::spawn(run(controller, token.clone())), token)
}

#[tokio::test(start_paused = true)]
async fn inputs_that_are_ready_together_come_in_a_fixed_order() {
    let log = Log::default();
    let (leads, leadership) = watch::channel(false);
    leads.send(true).unwrap();
    let (queries, receiver) = mpsc::channel(4);
    let mut controller = Recorder::new(&log);
    controller.inputs = Inputs::with_queries(receiver);
    controller.leadership = Some(leadership);
    controller.timer = Some(Instant::now() + SECOND);
    controller.at_start = Some(|inputs| {
        inputs.watches.start("pods", stream::iter([1]));
        inputs.in_flight.push_read(ready("read"));
        inputs.in_flight.push_write(ready("write"));
    });
    queries.send("queued query").await.unwrap();
    let (running, token) = spawn(controller);
    sleep(2 * SECOND).await;
    queries.send("query").await.unwrap();
    sleep(SECOND).await;
    token.cancel();
    running.await.unwrap();
    let expected = [
        "queued query",
        "leadership",
        "write",
        "read",
        "pods 1",
        "timer",
        "query",
    ];
    assert_eq!(*log.lock().unwrap(), expected);
}

#[tokio::test(start_paused = true)]
async fn a_stopped_watch_delivers_nothing_more() {
    let log = Log::default();
    let mut controller = Recorder::new(&log);
    let watches = &mut controller.inputs.watches;
    watches.start("nodes", stream::iter([1, 2, 3, 4]));
    assert!(watches.contains(&"nodes"));
    assert_eq!(watches.keys().count(), 1);
    let (running, token) = spawn(controller);
    sleep(SECOND).await;
    token.cancel();
    running.await.unwrap();
    assert_eq!(*log.lock().unwrap(), ["nodes 1", "nodes 2"]);
}

#[tokio::test(start_paused = true)]
async fn at_shutdown_writes_are_finished_and_reads_are_not() {
    let log = Log::default();
    let finished = Arc::clone(&log);
    let controller = Recorder::new(&log);
    controller.inputs.in_flight.push_write(async move {
        sleep(3 * SECOND).await;
        finished.lock().unwrap().push("finished".to_owned());
        "write"
    });
    controller.inputs.in_flight.push_read(pending());
    assert_eq!(controller.inputs.in_flight.writes(), 1);
    assert_eq!(controller.inputs.in_flight.reads(), 1);
    let (running, token) = spawn(controller);
    let began = Instant::now();
    token.cancel();
    running.await.unwrap();
    assert_eq!(began.elapsed(), 3 * SECOND);
    assert_eq!(*log.lock().unwrap(), ["finished"]);
}

#[tokio::test(start_paused = true)]
async fn an_unanswered_write_does_not_prevent_shutdown() {
    let log = Log::default();
    let controller = Recorder::new(&log);
    controller.inputs.in_flight.push_write(pending());
    let (running, token) = spawn(controller);
    let began = Instant::now();
    token.cancel();
    running.await.unwrap();
    assert_eq!(began.elapsed(), DRAIN_TIMEOUT);
}

#[tokio::test(start_paused = true)]
async fn the_heartbeat_is_periodic_without_inputs() {
    struct Alive(Inputs<Self>, Arc<Mutex<u32>>);

    impl Controller for Alive {
        const NAME: &'static str = "alive";
        const HAS_HEARTBEAT: bool = true;

        type Watched = ();
        type WatchEvent = ();
        type Completed = ();
        type Query = Infallible;

        fn inputs(&mut self) -> &mut Inputs<Self> {
            &mut self.0
        }

        fn start_due(&mut self, _now: Instant) -> Option<Instant> {
            None
        }

        fn on_event(&mut self, (): (), (): ()) {}

        fn on_completed(&mut self, (): ()) {}

        fn on_query(&mut self, query: Infallible) {
            match query {}
        }

        fn on_heartbeat(&mut self, _now: Instant) {
            *self.1.lock().unwrap() += 1;
        }
    }

    let heartbeats = Arc::default();
    let token = CancellationToken::new();
    let running = tokio::spawn(run(
        Alive(Inputs::default(), Arc::clone(&heartbeats)),
        token.clone(),
    ));
    sleep(3 * HEARTBEAT_INTERVAL + SECOND).await;
    token.cancel();
    running.await.unwrap();
    assert_eq!(*heartbeats.lock().unwrap(), 4);
}
