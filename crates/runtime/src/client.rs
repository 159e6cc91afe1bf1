//! The client: every call is timed, counted, limited and fenced.
//!
//! [`layered`] puts this round any [`Transport`]; what comes out is an ordinary `kube::Client`.
//!
//! - **Timed.** A call that has not been answered whole within [`Limits::timeout`] fails. Of a
//!   watch only the beginning is timed; that it goes on is seen to by the transport, which gives up
//!   a silent connection (see [`connect`]).
//! - **Limited.** Calls wait in line for a token, first come, first served. Watches do not wait:
//!   they are few, long, and without them nothing else makes sense. Waiting does not count towards
//!   the timeout.
//! - **Fenced.** No write begins when this process no longer leads. The [`Fence`] is asked twice:
//!   before the call, and when the transport takes the body of the request in order to send it. So a
//!   write that waited for its turn or for a connection, or whose process was stopped meanwhile, is
//!   not sent. Of a refused request nothing is sent, not even its head. Reads are not fenced. What
//!   is left is the instant between that second look and the kernel's taking the bytes, and the
//!   time on the wire; for these the fence falls five seconds before anybody else may take over.
//! - **Counted.** [`CallObserver`] is told of every call that was made, once, when its outcome is known.
//! - **Never repeated.** What failed is reported to the caller, who plans anew, and learns from
//!   [`retry_after`] how long the server wishes to be left alone.
//!
//! Errors name the verb and the path of a call, never what it carried.

mod body;
mod call;
mod connect;
mod limit;
mod retry_after;
mod transport;

use std::{error::Error, num::NonZeroU32, sync::Arc, time::Duration};

use futures::future::BoxFuture;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use tokio::time::Instant;
use tower::{BoxError, ServiceExt};

pub(crate) use self::retry_after::from_headers;
pub use self::{
    body::Body,
    call::{Call, CallCounter, CallObserver, CallOutcome, Verb},
    connect::{ConnectError, connect, transport},
    retry_after::{MAX_RETRY_AFTER, retry_after},
    transport::Transport,
};
use self::{call::Target, limit::Bucket, transport::Answer};
use crate::election::Fence;

/// What a client may ask of the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How fast calls may follow each other; `None`: no limit.
    pub rate: Option<Rate>,
    /// How long a call may take.
    pub timeout: Duration,
}

/// A rate of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Calls a second in the long run.
    pub qps: NonZeroU32,
    /// Calls that may be made at once after a time of rest.
    pub burst: NonZeroU32,
}

impl Limits {
    /// How long a call may take unless something else is said.
    pub const TIMEOUT: Duration = Duration::from_secs(15);

    /// No limit of the rate: for leader election, which must not wait.
    pub const UNLIMITED: Self = Self {
        rate: None,
        timeout: Self::TIMEOUT,
    };

    /// So many calls a second, and so many at once.
    pub const fn rate(qps: NonZeroU32, burst: NonZeroU32) -> Self {
        Self {
            rate: Some(Rate { qps, burst }),
            timeout: Self::TIMEOUT,
        }
    }
}

/// A client over `transport` whose calls are timed, counted, limited and fenced. Must be called
/// inside a tokio runtime.
pub fn layered(
    transport: impl Into<Transport>,
    fence: Fence,
    limits: Limits,
    calls: Arc<dyn CallObserver>,
) -> kube::Client {
    let transport = transport.into();
    let namespace = transport.namespace().to_owned();
    let layers = Arc::new(Layers {
        transport,
        fence,
        bucket: limits.rate.map(Bucket::full),
        timeout: limits.timeout,
        calls,
    });
    let service = tower::service_fn(move |request| -> BoxFuture<'static, _> {
        let layers = layers.clone();
        Box::pin(async move { layers.call(request).await })
    });
    kube::Client::new(service, namespace)
}

/// Whether a call was refused because this process does not lead. Such a call was not made.
pub fn is_fenced(error: &kube::Error) -> bool {
    causes(error).any(<dyn Error>::is::<Fenced>)
}

/// Whether a call was not answered in time. Whether it was carried out is unknown.
pub fn is_timeout(error: &kube::Error) -> bool {
    causes(error).any(<dyn Error>::is::<TimedOut>)
}

fn causes<'e>(error: &'e (dyn Error + 'static)) -> impl Iterator<Item = &'e (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| error.source())
}

/// A write was refused because this process does not lead (any more).
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("not sent: this process does not hold the leader election lease")]
struct Fenced;

#[derive(Debug, thiserror::Error)]
#[error("{verb} {path}: no answer from the API server within {} s", .after.as_secs_f64())]
struct TimedOut {
    verb: &'static str,
    path: String,
    after: Duration,
}

/// The transport's own words do not say what was called, and keep the cause to themselves.
#[derive(Debug, thiserror::Error)]
#[error("{verb} {path}: {}", chain(&**.source))]
struct Failed {
    verb: &'static str,
    path: String,
    source: BoxError,
}

fn chain(error: &(dyn Error + 'static)) -> String {
    let causes: Vec<_> = causes(error).map(ToString::to_string).collect();
    causes.join(": ")
}

struct Layers {
    transport: Transport,
    fence: Fence,
    bucket: Option<Bucket>,
    timeout: Duration,
    calls: Arc<dyn CallObserver>,
}

impl Layers {
    async fn call(&self, request: Request<kube::client::Body>) -> Result<Answer, BoxError> {
        let target = Target::of(request.method(), request.uri());
        let is_watch = target.verb == Verb::Watch;
        if let Some(bucket) = &self.bucket
            && !is_watch
        {
            bucket.take().await;
        }
        let (verb, path) = (target.verb.as_str(), request.uri().path().to_owned());
        let fence = is_write(request.method()).then(|| self.fence.clone());
        if fence.as_ref().is_some_and(|fence| !fence.allows_writes()) {
            return Err(Fenced.into());
        }

        let (parts, body) = request.into_parts();
        let (body, refused) = Body::new(body, fence);
        let began = Instant::now();
        let exchange = self.exchange(Request::from_parts(parts, body), is_watch);
        let answer = tokio::time::timeout(self.timeout, exchange).await;
        // A transport may turn a body that fails into an answer of its own.
        if refused.get() {
            return Err(Fenced.into());
        }
        let outcome = match &answer {
            Ok(Ok(answer)) => CallOutcome::Status(answer.status()),
            Ok(Err(_)) => CallOutcome::Error,
            Err(_) => CallOutcome::Timeout,
        };
        self.calls.on_call(&Call {
            verb: target.verb,
            resource: &target.resource,
            outcome,
            duration: began.elapsed(),
        });
        match answer {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(source)) => Err(Failed { verb, path, source }.into()),
            Err(_) => Err(TimedOut {
                verb,
                path,
                after: self.timeout,
            }
            .into()),
        }
    }

    /// The answer: of a watch its head, of all else the whole.
    async fn exchange(&self, request: Request<Body>, is_watch: bool) -> Result<Answer, BoxError> {
        let answer = self.transport.clone().oneshot(request).await?;
        if is_watch {
            return Ok(answer);
        }
        let (parts, body) = answer.into_parts();
        let whole = body.collect().await?.to_bytes();
        let whole = retry_after::kept(&parts, whole);
        let whole = Full::new(whole).map_err(|never| match never {});
        Ok(Response::from_parts(parts, whole.boxed_unsync()))
    }
}

fn is_write(method: &Method) -> bool {
    !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}

#[cfg(test)]
mod tests;
