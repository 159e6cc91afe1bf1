//! The line between the operator and the API server, and what can happen on it.

use std::{
    io,
    sync::{Arc, Mutex},
};

use futures::{StreamExt as _, future};
use http::{Method, Request, Response};
use http_body::Frame;
use http_body_util::{BodyDataStream, BodyExt as _, Full, StreamBody, combinators::UnsyncBoxBody};
use runtime::client::{Body, Transport};
use tokio::sync::watch;
use tower::{BoxError, ServiceExt as _, service_fn};

type Answer = Response<UnsyncBoxBody<bytes::Bytes, BoxError>>;
type Rule = dyn Fn(&Method, &str) -> Option<Fault> + Send + Sync;

/// What happens to a request.
#[derive(Clone, Copy)]
pub(crate) enum Fault {
    /// Nobody listens.
    Refused,
    /// It is carried out, and its answer gets lost.
    AnswerLost,
    /// The API server refuses it with this code.
    Status(u16),
    /// The API server refuses it as invalid, with this message.
    Invalid(&'static str),
    /// The API server has no time, and wishes to be left alone for so many seconds.
    Busy(u32),
}

/// A line that can be cut. Clones are the same line.
#[derive(Clone)]
pub(crate) struct Line {
    rule: Arc<Mutex<Option<Arc<Rule>>>>,
    /// The resource that cannot be watched.
    unwatched: Arc<Mutex<Option<&'static str>>>,
    writes: watch::Sender<u32>,
    /// How many writes reach the API server before the process on this end is gone.
    lives: Arc<Mutex<Option<u32>>>,
    /// How many writes have been sent since then, answered or not.
    sent: Arc<Mutex<u32>>,
    cut: watch::Sender<()>,
}

impl Line {
    pub(crate) fn new() -> Self {
        Self {
            rule: Arc::default(),
            unwatched: Arc::default(),
            writes: watch::Sender::new(0),
            lives: Arc::default(),
            sent: Arc::default(),
            cut: watch::Sender::new(()),
        }
    }

    /// From now on requests fail as `rule` says, by method and path.
    pub(crate) fn fail(
        &self,
        rule: impl Fn(&Method, &str) -> Option<Fault> + Send + Sync + 'static,
    ) {
        *self.rule.lock().unwrap() = Some(Arc::new(rule));
    }

    /// From now on no event of a resource arrives. It can still be read and listed.
    pub(crate) fn fail_watches_of(&self, resource: &'static str) {
        *self.unwatched.lock().unwrap() = Some(resource);
        self.cut();
    }

    /// Nothing fails any more.
    pub(crate) fn mend(&self) {
        *self.rule.lock().unwrap() = None;
        *self.unwatched.lock().unwrap() = None;
        *self.lives.lock().unwrap() = None;
    }

    /// Ends all answers that are under way: watches.
    pub(crate) fn cut(&self) {
        self.cut.send_replace(());
    }

    /// The answer to the write number `count` from now, and to all that is asked after it, never
    /// arrives.
    pub(crate) fn die_after(&self, count: u32) {
        self.writes.send_replace(0);
        *self.sent.lock().unwrap() = 0;
        *self.lives.lock().unwrap() = Some(count);
    }

    /// How many writes have reached the API server.
    pub(crate) fn writes(&self) -> u32 {
        *self.writes.borrow()
    }

    /// Waits until so many writes have reached the API server.
    pub(crate) async fn until_writes(&self, count: u32) {
        let mut writes = self.writes.subscribe();
        // The sender lives as long as this line.
        let _ = writes.wait_for(|writes| *writes >= count).await;
    }

    /// The same way to the API server, by this line.
    pub(crate) fn over(&self, transport: Transport) -> Transport {
        let line = self.clone();
        let namespace = transport.namespace().to_owned();
        let carry = service_fn(move |request: Request<Body>| {
            let (line, transport) = (line.clone(), transport.clone());
            async move { line.carry(transport, request).await }
        });
        Transport::new(carry, namespace)
    }

    async fn carry(&self, to: Transport, request: Request<Body>) -> Result<Answer, BoxError> {
        let is_write = request.method() != Method::GET;
        let rule = self.rule.lock().unwrap().clone();
        let fault = rule.and_then(|rule| rule(request.method(), request.uri().path()));
        let unwatched = *self.unwatched.lock().unwrap();
        let is_watch = request
            .uri()
            .query()
            .is_some_and(|query| query.contains("watch="));
        if is_watch && unwatched.is_some_and(|resource| request.uri().path().ends_with(resource)) {
            return Ok(refusal(503, 1, "told to fail"));
        }
        match fault {
            Some(Fault::Refused) => {
                return Err(io::Error::from(io::ErrorKind::ConnectionRefused).into());
            }
            Some(Fault::AnswerLost) => {
                to.oneshot(request).await?;
                return Err(io::Error::from(io::ErrorKind::ConnectionReset).into());
            }
            Some(Fault::Status(code)) => return Ok(refusal(code, 1, "told to fail")),
            Some(Fault::Invalid(message)) => return Ok(refusal(422, 1, message)),
            Some(Fault::Busy(seconds)) => return Ok(refusal(429, seconds, "told to fail")),
            None => {}
        }
        self.hang_if_dead().await;
        if is_write && !self.may_send() {
            future::pending::<()>().await;
        }
        let answer = to.oneshot(request).await?;
        if is_write {
            self.writes.send_modify(|writes| *writes += 1);
            self.hang_if_dead().await;
        }
        Ok(self.breakable(answer))
    }

    /// Whether one more write reaches the API server, of those that are on their way beside each
    /// other.
    fn may_send(&self) -> bool {
        let Some(lives) = *self.lives.lock().unwrap() else {
            return true;
        };
        let mut sent = self.sent.lock().unwrap();
        *sent += 1;
        *sent <= lives
    }

    async fn hang_if_dead(&self) {
        let lives = *self.lives.lock().unwrap();
        let writes = self.writes();
        if lives.is_some_and(|lives| writes >= lives) {
            future::pending::<()>().await;
        }
    }

    fn breakable(&self, answer: Answer) -> Answer {
        let mut cut = self.cut.subscribe();
        answer.map(|body| {
            let data = BodyDataStream::new(body).map(|data| data.map(Frame::data));
            let end = async move {
                // The sender lives as long as this line.
                let _ = cut.changed().await;
            };
            StreamBody::new(data.take_until(Box::pin(end))).boxed_unsync()
        })
    }
}

fn refusal(code: u16, retry_after: u32, message: &str) -> Answer {
    let body = serde_json::json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
        "message": message, "reason": "",
    });
    let body = Full::from(body.to_string()).map_err(|never| match never {});
    Response::builder()
        .status(code)
        .header("content-type", "application/json")
        .header("retry-after", retry_after)
        .body(body.boxed_unsync())
        .unwrap()
}
