//! Network between the operator's replicas and the API server: numbers and records every request, and
//! injects the faults of the script.

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
    decision::{Effect, Fault, Trigger},
    user::User,
};

type Answer = Response<UnsyncBoxBody<Bytes, BoxError>>;

/// Further requests of a run get no answer: an operator that repeats a request without a delay would
/// keep the run from ending.
pub const MAX_REQUESTS: u32 = 20_000;

/// A request that reached the API server.
#[derive(Clone, Debug)]
pub struct SentRequest {
    /// `None` for watches and Lease requests.
    pub index: Option<u32>,
    pub at: Instant,
    /// Identity of the process that sent it.
    pub identity: String,
    pub method: Method,
    /// Path and query.
    pub uri: String,
    pub body: Value,
    /// Status code of the answer.
    pub status: u16,
    /// Revision of the store before it.
    pub before: u64,
    /// Revision of the store after it.
    pub after: u64,
}

impl SentRequest {
    pub fn is_of_lease(&self) -> bool {
        is_of_lease(&self.uri)
    }

    pub fn is_write(&self) -> bool {
        self.method != Method::GET
    }

    pub fn succeeded(&self) -> bool {
        (200..300).contains(&self.status)
    }

    pub fn path(&self) -> &str {
        self.uri
            .split_once('?')
            .map_or(self.uri.as_str(), |(path, _)| path)
    }

    /// Plural of the resource and key of the object: `namespace/name`, or the name alone. The name of
    /// a new object is in the body.
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

    /// Whether it is for a subresource, such as the status.
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
    pub action: crate::decision::Action,
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

    /// All actions of users.
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
    pub async fn act(&self, action: &crate::decision::Action) {
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
}

/// Connection of one process.
#[derive(Clone)]
pub struct Connection {
    network: Network,
    client: kube::Client,
    replica: usize,
    identity: String,
    is_crashed: watch::Sender<bool>,
}

impl Connection {
    /// Drops everything that this process sends from now on.
    pub fn crash(&self) {
        self.is_crashed.send_replace(true);
    }

    /// Transport over this connection.
    pub fn transport(&self) -> Transport {
        let connection = self.clone();
        let service = service_fn(move |request: Request<Body>| {
            let connection = connection.clone();
            async move { connection.send(request).await }
        });
        Transport::new(service, self.client.default_namespace().to_owned())
    }

    async fn hang_if_crashed(&self) {
        if *self.is_crashed.borrow() {
            future::pending::<()>().await;
        }
    }

    async fn crash_with(&self, signal: Signal) {
        self.crash();
        let _ = self.network.signals.send(signal);
        future::pending::<()>().await;
    }

    async fn send(&self, request: Request<Body>) -> Result<Answer, BoxError> {
        self.hang_if_crashed().await;
        let uri = request.uri().to_string();
        let (index, scheduled) = self.number(&uri);
        if index.is_some_and(|index| index >= MAX_REQUESTS) {
            future::pending::<()>().await;
        }
        if let Some(failed) = self.outage(&uri) {
            return failed;
        }
        for (trigger, effect) in &scheduled {
            if !matches!(trigger, Trigger::Before(_)) {
                continue;
            }
            match effect {
                Effect::Action(action) => self.network.act(action).await,
                Effect::Fault(Fault::Crash { down }) => {
                    let (replica, down) = (self.replica, *down);
                    self.crash_with(Signal::Crash { replica, down }).await;
                }
                Effect::Fault(Fault::Down { down }) => {
                    self.crash_with(Signal::Down { down: *down }).await;
                }
                Effect::Fault(Fault::Status(code)) => return Ok(refusal(*code)),
                Effect::Fault(Fault::Lost) => return Err(reset()),
                Effect::Fault(Fault::Silence) => future::pending().await,
                Effect::Fault(fault) => self.network.inject(*fault, self.replica),
            }
        }
        let (parts, body) = request.into_parts();
        let bytes = body.collect().await?.to_bytes();
        self.hang_if_crashed().await;
        let mut sent = SentRequest {
            index,
            at: Instant::now(),
            identity: self.identity.clone(),
            method: parts.method.clone(),
            uri: uri.clone(),
            body: serde_json::from_slice(&bytes).unwrap_or_default(),
            status: 0,
            before: self.network.server.revision(),
            after: 0,
        };
        let request = Request::from_parts(parts, bytes.into());
        let answer = self.client.send(request).await.map_err(BoxError::from)?;
        sent.status = answer.status().as_u16();
        sent.after = self.network.server.revision();
        self.network.state().sent.push(sent);
        self.hang_if_crashed().await;
        for (trigger, effect) in &scheduled {
            if !matches!(trigger, Trigger::After(_)) {
                continue;
            }
            match effect {
                Effect::Action(action) => self.network.act(action).await,
                Effect::Fault(Fault::Crash { down }) => {
                    let (replica, down) = (self.replica, *down);
                    self.crash_with(Signal::Crash { replica, down }).await;
                }
                Effect::Fault(Fault::Down { down }) => {
                    self.crash_with(Signal::Down { down: *down }).await;
                }
                Effect::Fault(Fault::Status(code)) => return Ok(refusal(*code)),
                Effect::Fault(Fault::Lost) => return Err(reset()),
                Effect::Fault(Fault::Silence) => future::pending().await,
                Effect::Fault(fault) => self.network.inject(*fault, self.replica),
            }
        }
        let answer = answer.map(|body| body.map_err(BoxError::from).boxed_unsync());
        if is_watch(&uri) {
            return Ok(self.filter_watch(answer, &uri));
        }
        Ok(answer)
    }

    fn number(&self, uri: &str) -> (Option<u32>, Vec<(Trigger, Effect)>) {
        if is_watch(uri) || is_of_lease(uri) {
            return (None, Vec::new());
        }
        let mut state = self.network.state();
        let index = state.next;
        state.next += 1;
        (
            Some(index),
            state.scheduled.remove(&index).unwrap_or_default(),
        )
    }

    fn outage(&self, uri: &str) -> Option<Result<Answer, BoxError>> {
        let now = Instant::now();
        let mut state = self.network.state();
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

    /// A watch that faults can end, delay, and strip of bookmarks.
    fn filter_watch(&self, answer: Answer, uri: &str) -> Answer {
        let path = uri.split('?').next().unwrap_or_default();
        let resource = path.rsplit('/').next().unwrap_or_default().to_owned();
        let network = self.network.clone();
        let cut = self.network.open_watches();
        answer.map(|body| {
            let data = BodyDataStream::new(body);
            let gate = stream::unfold(data, move |mut data| {
                let (network, resource) = (network.clone(), resource.clone());
                async move {
                    let piece = data.next().await?;
                    loop {
                        let until = network.stale_until(&resource);
                        if until <= Instant::now() {
                            break;
                        }
                        sleep_until(until).await;
                    }
                    let piece = piece.map(|piece| Frame::data(network.without_bookmarks(piece)));
                    Some((piece, data))
                }
            });
            let end = Box::pin(cut.cancelled_owned());
            StreamBody::new(gate.take_until(end)).boxed_unsync()
        })
    }
}

impl Network {
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
