//! The wire between the operator's replicas and the API server: every request is numbered and
//! recorded, and faults happen where the script says.

use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use futures::{StreamExt as _, future, stream};
use http::{Method, Request, Response};
use http_body::Frame;
use http_body_util::{BodyDataStream, BodyExt as _, Full, StreamBody, combinators::UnsyncBoxBody};
use runtime::client::{Body, Transport};
use sandbox::ApiServer;
use serde_json::{Value, json};
use tokio::{
    sync::{mpsc, watch},
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;
use tower::{BoxError, service_fn};

use crate::{
    decision::{Fault, What, When},
    user::User,
};

type Answer = Response<UnsyncBoxBody<Bytes, BoxError>>;

/// Requests of a run that are answered. An operator that repeats one without letting time pass would
/// keep a run from ending.
pub const MOST_REQUESTS: u32 = 20_000;

/// A request that reached the API server.
#[derive(Clone, Debug)]
pub struct Sent {
    /// Its number; none for watches and the Lease.
    pub index: Option<u32>,
    /// When it was sent.
    pub at: Instant,
    /// Who sent it.
    pub identity: String,
    /// The method.
    pub method: Method,
    /// Path and query.
    pub uri: String,
    /// What it carried.
    pub body: Value,
    /// The code of the answer.
    pub status: u16,
    /// The store's revision before it.
    pub before: u64,
    /// The store's revision after it.
    pub after: u64,
}

impl Sent {
    /// Whether it is about the Lease.
    pub fn is_of_lease(&self) -> bool {
        is_of_lease(&self.uri)
    }

    /// Whether it may change something.
    pub fn is_write(&self) -> bool {
        self.method != Method::GET
    }

    /// Whether the API server did what it was asked.
    pub fn succeeded(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// The path without the query.
    pub fn path(&self) -> &str {
        self.uri
            .split_once('?')
            .map_or(self.uri.as_str(), |(path, _)| path)
    }

    /// The resource's plural and the key of the object: `namespace/name`, or the name alone.
    /// For the creation of an object the name is in the body.
    pub fn target(&self) -> Option<(String, String)> {
        let parts: Vec<_> = self
            .path()
            .split('/')
            .filter(|part| !part.is_empty())
            .collect();
        let (["api", _, rest @ ..] | ["apis", _, _, rest @ ..]) = parts.as_slice() else {
            return None;
        };
        let (namespace, rest) = match rest {
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (Some(*namespace), rest),
            rest => (None, rest),
        };
        let (resource, rest) = rest.split_first()?;
        let name = match rest.first() {
            Some(name) => (*name).to_owned(),
            None => self.body["metadata"]["name"].as_str()?.to_owned(),
        };
        let key = match namespace {
            Some(namespace) => format!("{namespace}/{name}"),
            None => name,
        };
        Some(((*resource).to_owned(), key))
    }

    /// Whether it is about a part of an object, such as its status.
    pub fn is_of_part(&self) -> bool {
        self.path().ends_with("/status") || self.path().contains("/subresources.")
    }
}

fn is_of_lease(uri: &str) -> bool {
    uri.contains("/leases")
}

fn is_watch(uri: &str) -> bool {
    uri.contains("watch=true") || uri.contains("watch=1")
}

/// What a wire tells the director of the run.
#[derive(Debug)]
pub enum Signal {
    /// A replica dies, and nothing runs in its place for so long.
    Crash {
        /// Which.
        replica: usize,
        /// How long.
        down: Duration,
    },
    /// All replicas die.
    Down {
        /// How long nothing runs.
        down: Duration,
    },
}

#[derive(Default)]
struct State {
    next: u32,
    armed: BTreeMap<u32, Vec<(When, What)>>,
    sent: Vec<Sent>,
    acted: Vec<Acted>,
    stale: BTreeMap<&'static str, Instant>,
    all_stale: Option<Instant>,
    no_bookmarks: Option<Instant>,
    outage: Option<(u16, Instant)>,
    partition: Option<(Option<usize>, Instant)>,
    clock: i64,
}

/// Something that somebody did, and where in the history it was.
#[derive(Clone, Debug)]
pub struct Acted {
    /// What.
    pub action: crate::decision::Action,
    /// When.
    pub at: Instant,
    /// The store's revision before it.
    pub before: u64,
    /// The store's revision after it.
    pub after: u64,
    /// What the API server refused.
    pub refused: Option<String>,
}

/// The faults of a run. Clones are the same.
#[derive(Clone)]
pub struct Wires {
    state: Arc<Mutex<State>>,
    /// Ends the watches that are open. A watch channel would wake them in random order.
    cut: Arc<Mutex<CancellationToken>>,
    signals: mpsc::UnboundedSender<Signal>,
    server: ApiServer,
    user: User,
}

impl Wires {
    /// Wires on which the decisions that name a request happen.
    pub fn new(
        server: ApiServer,
        user: User,
        decisions: impl Iterator<Item = (When, What)>,
        signals: mpsc::UnboundedSender<Signal>,
    ) -> Self {
        let mut state = State::default();
        for (when, what) in decisions {
            if let When::Before(index) | When::After(index) = when {
                state.armed.entry(index).or_default().push((when, what));
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

    /// How many requests had a number.
    pub fn count(&self) -> u32 {
        self.state().next
    }

    /// Every request that reached the API server.
    pub fn sent(&self) -> Vec<Sent> {
        self.state().sent.clone()
    }

    /// Everything that somebody did.
    pub fn acted(&self) -> Vec<Acted> {
        self.state().acted.clone()
    }

    /// By how many seconds the operator's clock is wrong.
    pub fn clock(&self) -> i64 {
        self.state().clock
    }

    /// Nothing fails any more.
    pub fn heal(&self) {
        let mut state = self.state();
        *state = State {
            next: state.next,
            sent: std::mem::take(&mut state.sent),
            acted: std::mem::take(&mut state.acted),
            ..State::default()
        };
    }

    /// Has somebody act.
    pub async fn act(&self, action: &crate::decision::Action) {
        let before = self.server.revision();
        let refused = self.user.act(action).await.err();
        let acted = Acted {
            action: action.clone(),
            at: Instant::now(),
            before,
            after: self.server.revision(),
            refused,
        };
        self.state().acted.push(acted);
    }

    /// Has a fault happen that is not about one request.
    pub fn strike(&self, fault: Fault, replica: usize) {
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

    /// The wire of one process, which ends with it.
    pub fn wire(&self, client: kube::Client, replica: usize, identity: String) -> Wire {
        Wire {
            wires: self.clone(),
            client,
            replica,
            identity,
            is_dead: watch::Sender::new(false),
        }
    }
}

/// The wire of one process.
#[derive(Clone)]
pub struct Wire {
    wires: Wires,
    client: kube::Client,
    replica: usize,
    identity: String,
    is_dead: watch::Sender<bool>,
}

impl Wire {
    /// Nothing that this process sends arrives any more.
    pub fn cut_off(&self) {
        self.is_dead.send_replace(true);
    }

    /// The way to the API server over this wire.
    pub fn transport(&self) -> Transport {
        let wire = self.clone();
        let carry = service_fn(move |request: Request<Body>| {
            let wire = wire.clone();
            async move { wire.carry(request).await }
        });
        Transport::new(carry, self.client.default_namespace().to_owned())
    }

    async fn hang_if_dead(&self) {
        if *self.is_dead.borrow() {
            future::pending::<()>().await;
        }
    }

    async fn die(&self, signal: Signal) {
        self.cut_off();
        let _ = self.wires.signals.send(signal);
        future::pending::<()>().await;
    }

    async fn carry(&self, request: Request<Body>) -> Result<Answer, BoxError> {
        self.hang_if_dead().await;
        let uri = request.uri().to_string();
        let (index, armed) = self.number(&uri);
        if index.is_some_and(|index| index >= MOST_REQUESTS) {
            future::pending::<()>().await;
        }
        if let Some(failed) = self.outage(&uri) {
            return failed;
        }
        for (when, what) in &armed {
            if !matches!(when, When::Before(_)) {
                continue;
            }
            match what {
                What::Action(action) => self.wires.act(action).await,
                What::Fault(Fault::Crash { down }) => {
                    let (replica, down) = (self.replica, *down);
                    self.die(Signal::Crash { replica, down }).await;
                }
                What::Fault(Fault::Down { down }) => {
                    self.die(Signal::Down { down: *down }).await;
                }
                What::Fault(Fault::Status(code)) => return Ok(refusal(*code)),
                What::Fault(Fault::Lost) => return Err(reset()),
                What::Fault(Fault::Silence) => future::pending().await,
                What::Fault(fault) => self.wires.strike(*fault, self.replica),
            }
        }
        let (parts, body) = request.into_parts();
        let bytes = body.collect().await?.to_bytes();
        self.hang_if_dead().await;
        let mut sent = Sent {
            index,
            at: Instant::now(),
            identity: self.identity.clone(),
            method: parts.method.clone(),
            uri: uri.clone(),
            body: serde_json::from_slice(&bytes).unwrap_or_default(),
            status: 0,
            before: self.wires.server.revision(),
            after: 0,
        };
        let request = Request::from_parts(parts, bytes.into());
        let answer = self.client.send(request).await.map_err(BoxError::from)?;
        sent.status = answer.status().as_u16();
        sent.after = self.wires.server.revision();
        self.wires.state().sent.push(sent);
        self.hang_if_dead().await;
        for (when, what) in &armed {
            if !matches!(when, When::After(_)) {
                continue;
            }
            match what {
                What::Action(action) => self.wires.act(action).await,
                What::Fault(Fault::Crash { down }) => {
                    let (replica, down) = (self.replica, *down);
                    self.die(Signal::Crash { replica, down }).await;
                }
                What::Fault(Fault::Down { down }) => {
                    self.die(Signal::Down { down: *down }).await;
                }
                What::Fault(Fault::Status(code)) => return Ok(refusal(*code)),
                What::Fault(Fault::Lost) => return Err(reset()),
                What::Fault(Fault::Silence) => future::pending().await,
                What::Fault(fault) => self.wires.strike(*fault, self.replica),
            }
        }
        let answer = answer.map(|body| body.map_err(BoxError::from).boxed_unsync());
        if is_watch(&uri) {
            return Ok(self.gated(answer, &uri));
        }
        Ok(answer)
    }

    fn number(&self, uri: &str) -> (Option<u32>, Vec<(When, What)>) {
        if is_watch(uri) || is_of_lease(uri) {
            return (None, Vec::new());
        }
        let mut state = self.wires.state();
        let index = state.next;
        state.next += 1;
        (Some(index), state.armed.remove(&index).unwrap_or_default())
    }

    fn outage(&self, uri: &str) -> Option<Result<Answer, BoxError>> {
        let now = Instant::now();
        let mut state = self.wires.state();
        if let Some((of, until)) = &mut state.partition
            && now < *until
            && is_of_lease(uri)
            && *of.get_or_insert(self.replica) == self.replica
        {
            return Some(Err(reset()));
        }
        match state.outage {
            Some((0, until)) if now < until => {
                Some(Err(io::Error::from(io::ErrorKind::ConnectionRefused).into()))
            }
            Some((code, until)) if now < until => Some(Ok(refusal(code))),
            _ => None,
        }
    }

    /// A watch that can be cut, held up, and robbed of its bookmarks.
    fn gated(&self, answer: Answer, uri: &str) -> Answer {
        let path = uri.split('?').next().unwrap_or_default();
        let resource = path.rsplit('/').next().unwrap_or_default().to_owned();
        let wires = self.wires.clone();
        let cut = self.wires.open_watches();
        answer.map(|body| {
            let data = BodyDataStream::new(body);
            let gate = stream::unfold(data, move |mut data| {
                let (wires, resource) = (wires.clone(), resource.clone());
                async move {
                    let piece = data.next().await?;
                    loop {
                        let until = wires.stale_until(&resource);
                        if until <= Instant::now() {
                            break;
                        }
                        sleep_until(until).await;
                    }
                    let piece = piece.map(|piece| Frame::data(wires.without_bookmarks(piece)));
                    Some((piece, data))
                }
            });
            let end = Box::pin(cut.cancelled_owned());
            StreamBody::new(gate.take_until(end)).boxed_unsync()
        })
    }
}

impl Wires {
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

fn reset() -> BoxError {
    io::Error::from(io::ErrorKind::ConnectionReset).into()
}

fn refusal(code: u16) -> Answer {
    let reason = match code {
        409 => "Conflict",
        429 => "TooManyRequests",
        500 => "InternalError",
        503 => "ServiceUnavailable",
        504 => "Timeout",
        _ => "",
    };
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "injected by the campaign", "reason": reason, "code": code,
    });
    let body = Full::from(body.to_string()).map_err(|never| match never {});
    let mut answer = Response::new(body.boxed_unsync());
    *answer.status_mut() = http::StatusCode::from_u16(code).unwrap_or_default();
    let headers = answer.headers_mut();
    headers.insert(
        "content-type",
        http::HeaderValue::from_static("application/json"),
    );
    if code == 429 {
        headers.insert("retry-after", http::HeaderValue::from_static("1"));
    }
    answer
}
