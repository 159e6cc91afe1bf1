//! Connection of one process, with the faults of its requests and watches.

use std::io;

use bytes::Bytes;
use futures::{StreamExt as _, future, stream};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::{BodyDataStream, BodyExt as _, Full, StreamBody, combinators::UnsyncBoxBody};
use runtime::client::{Body, Transport};
use serde_json::json;
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};
use tower::{BoxError, service_fn};

use super::{
    MAX_REQUESTS, Network, Signal,
    request::{SentRequest, is_of_lease, is_watch},
};
use crate::decision::{Effect, Fault, Trigger};

type Answer = Response<UnsyncBoxBody<Bytes, BoxError>>;

/// Connection of one process.
#[derive(Clone)]
pub struct Connection {
    pub(super) network: Network,
    pub(super) client: kube::Client,
    pub(super) replica: usize,
    pub(super) identity: String,
    pub(super) is_crashed: watch::Sender<bool>,
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
        let before = |trigger: &Trigger| matches!(trigger, Trigger::Before(_));
        if let Some(answer) = self.take_effect(&scheduled, before).await {
            return answer;
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
        let after = |trigger: &Trigger| matches!(trigger, Trigger::After(_));
        if let Some(answer) = self.take_effect(&scheduled, after).await {
            return answer;
        }
        let answer = answer.map(|body| body.map_err(BoxError::from).boxed_unsync());
        if is_watch(&uri) {
            return Ok(self.filter_watch(answer, &uri));
        }
        Ok(answer)
    }

    /// Executes the effects that are due; the answer of a fault replaces that of the API server.
    async fn take_effect(
        &self,
        scheduled: &[(Trigger, Effect)],
        is_due: impl Fn(&Trigger) -> bool,
    ) -> Option<Result<Answer, BoxError>> {
        for (_, effect) in scheduled.iter().filter(|(trigger, _)| is_due(trigger)) {
            match effect {
                Effect::Action(action) => self.network.act(action).await,
                Effect::Fault(Fault::Crash { down }) => {
                    let (replica, down) = (self.replica, *down);
                    self.crash_with(Signal::Crash { replica, down }).await;
                }
                Effect::Fault(Fault::Down { down }) => {
                    self.crash_with(Signal::Down { down: *down }).await;
                }
                Effect::Fault(Fault::Status(code)) => return Some(Ok(refusal(*code))),
                Effect::Fault(Fault::Lost) => return Some(Err(reset())),
                Effect::Fault(Fault::Silence) => future::pending().await,
                Effect::Fault(fault) => self.network.inject(*fault, self.replica),
            }
        }
        None
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
