//! Fault injection between the operator and the API server.

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

type ApiResponse = Response<UnsyncBoxBody<bytes::Bytes, BoxError>>;
type Rule = dyn Fn(&Method, &str) -> Option<Fault> + Send + Sync;

/// Fault of a request.
#[derive(Clone, Copy)]
pub(crate) enum Fault {
    /// Connection refused.
    Refused,
    /// The API server executes it, and the response gets lost.
    ResponseLost,
    /// The API server refuses it with this status code.
    Status(u16),
    /// The API server refuses it as invalid, with this message.
    Invalid(&'static str),
    /// The API server answers 429 with a Retry-After of so many seconds.
    TooManyRequests(u32),
}

/// Layer around a transport that makes requests fail. Clones share their state.
#[derive(Clone)]
pub(crate) struct FaultInjector {
    rule: Arc<Mutex<Option<Arc<Rule>>>>,
    /// Plural of the resource whose watches fail.
    unwatched: Arc<Mutex<Option<&'static str>>>,
    writes: watch::Sender<u32>,
    /// Writes that reach the API server before all requests hang.
    write_limit: Arc<Mutex<Option<u32>>>,
    /// Writes sent since the limit was set, answered or not.
    sent: Arc<Mutex<u32>>,
    disconnect: watch::Sender<()>,
}

impl FaultInjector {
    pub(crate) fn new() -> Self {
        Self {
            rule: Arc::default(),
            unwatched: Arc::default(),
            writes: watch::Sender::new(0),
            write_limit: Arc::default(),
            sent: Arc::default(),
            disconnect: watch::Sender::new(()),
        }
    }

    /// Makes requests fail for which `rule` returns a fault, by method and path.
    pub(crate) fn inject(
        &self,
        rule: impl Fn(&Method, &str) -> Option<Fault> + Send + Sync + 'static,
    ) {
        *self.rule.lock().unwrap() = Some(Arc::new(rule));
    }

    /// Makes watches of a resource fail. It can still be read and listed.
    pub(crate) fn block_watches_of(&self, resource: &'static str) {
        *self.unwatched.lock().unwrap() = Some(resource);
        self.drop_connections();
    }

    /// Removes all faults.
    pub(crate) fn clear(&self) {
        *self.rule.lock().unwrap() = None;
        *self.unwatched.lock().unwrap() = None;
        *self.write_limit.lock().unwrap() = None;
    }

    /// Ends all open responses, which are watches.
    pub(crate) fn drop_connections(&self) {
        self.disconnect.send_replace(());
    }

    /// Makes the response to the write number `count`, and to all requests after it, never arrive, as if
    /// the process had crashed.
    pub(crate) fn hang_after_writes(&self, count: u32) {
        self.writes.send_replace(0);
        *self.sent.lock().unwrap() = 0;
        *self.write_limit.lock().unwrap() = Some(count);
    }

    /// Number of writes that have reached the API server.
    pub(crate) fn writes(&self) -> u32 {
        *self.writes.borrow()
    }

    /// Waits until so many writes have reached the API server.
    pub(crate) async fn until_writes(&self, count: u32) {
        let mut writes = self.writes.subscribe();
        // The sender lives as long as `self`.
        let _ = writes.wait_for(|writes| *writes >= count).await;
    }

    /// Wraps a transport.
    pub(crate) fn wrap(&self, transport: Transport) -> Transport {
        let faults = self.clone();
        let namespace = transport.namespace().to_owned();
        let service = service_fn(move |request: Request<Body>| {
            let (faults, transport) = (faults.clone(), transport.clone());
            async move { faults.forward(transport, request).await }
        });
        Transport::new(service, namespace)
    }

    async fn forward(
        &self,
        to: Transport,
        request: Request<Body>,
    ) -> Result<ApiResponse, BoxError> {
        let is_write = request.method() != Method::GET;
        let rule = self.rule.lock().unwrap().clone();
        let fault = rule.and_then(|rule| rule(request.method(), request.uri().path()));
        let unwatched = *self.unwatched.lock().unwrap();
        let is_watch = request
            .uri()
            .query()
            .is_some_and(|query| query.contains("watch="));
        if is_watch && unwatched.is_some_and(|resource| request.uri().path().ends_with(resource)) {
            return Ok(refusal(503, 1, "injected fault"));
        }
        match fault {
            Some(Fault::Refused) => {
                return Err(io::Error::from(io::ErrorKind::ConnectionRefused).into());
            }
            Some(Fault::ResponseLost) => {
                to.oneshot(request).await?;
                return Err(io::Error::from(io::ErrorKind::ConnectionReset).into());
            }
            Some(Fault::Status(code)) => return Ok(refusal(code, 1, "injected fault")),
            Some(Fault::Invalid(message)) => return Ok(refusal(422, 1, message)),
            Some(Fault::TooManyRequests(seconds)) => {
                return Ok(refusal(429, seconds, "injected fault"));
            }
            None => {}
        }
        self.hang_if_limit_reached().await;
        if is_write && !self.may_send() {
            future::pending::<()>().await;
        }
        let response = to.oneshot(request).await?;
        if is_write {
            self.writes.send_modify(|writes| *writes += 1);
            self.hang_if_limit_reached().await;
        }
        Ok(self.disconnectable(response))
    }

    /// Whether one more write may reach the API server, counting concurrent ones.
    fn may_send(&self) -> bool {
        let Some(limit) = *self.write_limit.lock().unwrap() else {
            return true;
        };
        let mut sent = self.sent.lock().unwrap();
        *sent += 1;
        *sent <= limit
    }

    async fn hang_if_limit_reached(&self) {
        let limit = *self.write_limit.lock().unwrap();
        let writes = self.writes();
        if limit.is_some_and(|limit| writes >= limit) {
            future::pending::<()>().await;
        }
    }

    fn disconnectable(&self, response: ApiResponse) -> ApiResponse {
        let mut disconnect = self.disconnect.subscribe();
        response.map(|body| {
            let data = BodyDataStream::new(body).map(|data| data.map(Frame::data));
            let end = async move {
                // The sender lives as long as `self`.
                let _ = disconnect.changed().await;
            };
            StreamBody::new(data.take_until(Box::pin(end))).boxed_unsync()
        })
    }
}

fn refusal(code: u16, retry_after: u32, message: &str) -> ApiResponse {
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
