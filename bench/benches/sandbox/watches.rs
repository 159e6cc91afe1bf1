//! Watches that read during writes.

use std::{
    cell::RefCell,
    rc::Rc,
    time::{Duration, Instant},
};

use http::Request;
use http_body_util::BodyExt as _;
use kube::{Client, client::Body};
use tokio::task::LocalSet;

use crate::load::{Load, NAMESPACES, Write};

/// Scope of a watch.
#[derive(Clone, Copy, PartialEq)]
pub enum Reach {
    /// The objects of one namespace, as most controllers' caches do: a write is read by a
    /// twentieth of the watches.
    Namespace,
    /// All objects: a write is read by every watch.
    Everything,
}

impl Reach {
    /// Number of the first write: repeating an earlier write would change nothing and cause no event.
    fn first_turn(self) -> usize {
        match self {
            Self::Namespace => 1_000_000,
            Self::Everything => 2_000_000,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Namespace => "each watches one of 20 namespaces",
            Self::Everything => "each watches all",
        }
    }
}

/// Results of a measurement.
pub struct Figures {
    pub writes_per_second: f64,
    pub events_per_second: f64,
    /// Latency from the start of a write to the receipt of its event.
    pub median: Duration,
    /// The 99th percentile of the same.
    pub slow: Duration,
}

/// Watches that are open.
pub struct Watches;

impl Watches {
    /// Opens watches, writes, and waits until every watch has read what it should.
    pub async fn run(load: &Load, reach: Reach, watches: usize, writes: usize) -> Figures {
        let first = reach.first_turn();
        let started: Rc<RefCell<Vec<Instant>>> = Rc::default();
        let delays: Rc<RefCell<Vec<Duration>>> = Rc::default();
        let local = LocalSet::new();
        let mut readers = Vec::new();
        for number in 0..watches {
            let own = number % NAMESPACES;
            let (path, expected) = match reach {
                Reach::Everything => ("/api/v1/configmaps".to_owned(), writes),
                Reach::Namespace => (
                    format!("/api/v1/namespaces/load-{own}/configmaps"),
                    (0..writes)
                        .filter(|write| write % NAMESPACES == own)
                        .count(),
                ),
            };
            // A watch that is answered delivers all later writes.
            let body = open(&load.client, &path).await;
            let reader = read(body, first, expected, started.clone(), delays.clone());
            readers.push(local.spawn_local(reader));
        }
        let elapsed = local
            .run_until(async {
                let start = Instant::now();
                for write in 0..writes {
                    started.borrow_mut().push(Instant::now());
                    load.write_one(Write::Replace, write, first + write).await;
                }
                let elapsed = start.elapsed();
                for reader in readers {
                    reader.await.expect("a watch reads to its end");
                }
                elapsed
            })
            .await;
        let mut delays = delays.take();
        delays.sort_unstable();
        let at = |part: usize| {
            delays
                .get(delays.len() * part / 100)
                .copied()
                .unwrap_or_default()
        };
        Figures {
            writes_per_second: writes as f64 / elapsed.as_secs_f64(),
            events_per_second: delays.len() as f64 / elapsed.as_secs_f64(),
            median: at(50),
            slow: at(99),
        }
    }
}

async fn open(client: &Client, path: &str) -> Body {
    let query = "watch=true&sendInitialEvents=false&resourceVersionMatch=NotOlderThan";
    let request = Request::get(format!("{path}?{query}"))
        .body(Body::empty())
        .expect("the request is one");
    let response = client.send(request).await.expect("there is an answer");
    response.into_body()
}

async fn read(
    mut body: Body,
    first: usize,
    expected: usize,
    started: Rc<RefCell<Vec<Instant>>>,
    delays: Rc<RefCell<Vec<Duration>>>,
) {
    let mut received = 0;
    while received < expected {
        let frame = body.frame().await.expect("the watch continues");
        let Ok(data) = frame.expect("the watch is whole").into_data() else {
            continue;
        };
        let now = Instant::now();
        for line in data
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
        {
            let started = started.borrow()[turn(line) - first - 1];
            delays.borrow_mut().push(now - started);
            received += 1;
        }
    }
}

/// The turn in an event.
fn turn(line: &[u8]) -> usize {
    const KEY: &[u8] = br#""turn":""#;
    let at = line
        .windows(KEY.len())
        .position(|window| window == KEY)
        .expect("an event has a turn")
        + KEY.len();
    line[at..]
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .fold(0, |number, digit| number * 10 + usize::from(digit - b'0'))
}
