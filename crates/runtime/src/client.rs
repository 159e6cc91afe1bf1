//! Client of an API server: every call has a timeout, a rate limit, a fence and an observer.
//!
//! [`layered`] wraps any [`Transport`] and returns an ordinary `kube::Client`.
//!
//! - **Timeout.** A call without a complete answer within [`Limits::timeout`] fails. Of a watch only
//!   the start is timed; the transport closes silent connections (see [`connect`]).
//! - **Rate limit.** Calls wait for a token in order. Watches do not wait: they are few and long, and
//!   nothing works without them. The wait does not count towards the timeout.
//! - **Fence.** A process that is not the leader sends no write. The [`Fence`] is checked twice: before
//!   the call, and when the transport polls the body in order to send it. So a write that waited for
//!   the rate limit or a connection, or whose process was stopped meanwhile, is not sent, not even its
//!   head. Reads are not fenced. What remains is the time between the second check and the arrival at
//!   the API server; for it the fence closes five seconds before another process may lead.
//! - **Observer.** A [`CallObserver`] is called once for every call, when its outcome is known.
//! - **No retries.** The caller gets every failure, plans again, and learns from [`retry_after`] how
//!   long the API server asks it to wait.
//!
//! Errors name the verb and the path of a call, never its content.

mod body;
mod call;
mod connect;
mod inline;
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
    connect::{ConnectError, connect, connect_to, transport},
    inline::{KubeconfigRefused, connect_inline},
    retry_after::{MAX_RETRY_AFTER, retry_after},
    transport::Transport,
};
use self::{call::Target, limit::Bucket, transport::Answer};
use crate::election::Fence;

/// Limits of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// `None`: no rate limit.
    pub rate: Option<Rate>,
    pub timeout: Duration,
}

/// Rate limit, as client-go's QPS and burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    pub qps: NonZeroU32,
    pub burst: NonZeroU32,
}

impl Limits {
    /// Default timeout of a call.
    pub const TIMEOUT: Duration = Duration::from_secs(15);

    /// No rate limit: for leader election, which must not wait.
    pub const UNLIMITED: Self = Self {
        rate: None,
        timeout: Self::TIMEOUT,
    };

    pub const fn rate(qps: NonZeroU32, burst: NonZeroU32) -> Self {
        Self {
            rate: Some(Rate { qps, burst }),
            timeout: Self::TIMEOUT,
        }
    }
}

/// A client over `transport` with these limits, fence and observer. Must be called inside a tokio
/// runtime.
pub fn layered(
    transport: impl Into<Transport>,
    fence: Fence,
    limits: Limits,
    observer: Arc<dyn CallObserver>,
) -> kube::Client {
    let transport = transport.into();
    let namespace = transport.namespace().to_owned();
    let layers = Arc::new(Layers {
        transport,
        fence,
        bucket: limits.rate.map(Bucket::full),
        timeout: limits.timeout,
        observer,
    });
    let service = tower::service_fn(move |request| -> BoxFuture<'static, _> {
        let layers = layers.clone();
        Box::pin(async move { layers.call(request).await })
    });
    kube::Client::new(service, namespace)
}

/// Whether the fence refused the call because this process is not the leader. It was not sent.
pub fn is_fenced(error: &kube::Error) -> bool {
    causes(error).any(<dyn Error>::is::<Fenced>)
}

/// Whether the call timed out. It may have been executed.
pub fn is_timeout(error: &kube::Error) -> bool {
    causes(error).any(<dyn Error>::is::<TimedOut>)
}

fn causes<'e>(error: &'e (dyn Error + 'static)) -> impl Iterator<Item = &'e (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| error.source())
}

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

/// Adds the call and the causes, which the transport's own message lacks.
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
    observer: Arc<dyn CallObserver>,
}

impl Layers {
    async fn call(&self, request: Request<kube::client::Body>) -> Result<Answer, BoxError> {
        let target = Target::of(request.method(), request.uri());
        let is_watch = target.verb == Verb::Watch;
        if let Some(bucket) = &self.bucket
            && !is_watch
        {
            bucket.acquire().await;
        }
        let (verb, path) = (target.verb.as_str(), request.uri().path().to_owned());
        let fence = is_write(request.method()).then(|| self.fence.clone());
        if fence.as_ref().is_some_and(|fence| !fence.allows_writes()) {
            return Err(Fenced.into());
        }

        let (parts, body) = request.into_parts();
        let (body, refused) = Body::new(body, fence);
        let start = Instant::now();
        let exchange = self.exchange(Request::from_parts(parts, body), is_watch);
        let answer = tokio::time::timeout(self.timeout, exchange).await;
        // A transport may turn a failing body into a response of its own.
        if refused.get() {
            return Err(Fenced.into());
        }
        let outcome = match &answer {
            Ok(Ok(answer)) => CallOutcome::Status(answer.status()),
            Ok(Err(_)) => CallOutcome::Error,
            Err(_) => CallOutcome::Timeout,
        };
        self.observer.on_call(&Call {
            verb: target.verb,
            resource: &target.resource,
            outcome,
            duration: start.elapsed(),
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

    /// Sends the request and reads the whole answer, of a watch only its head.
    async fn exchange(&self, request: Request<Body>, is_watch: bool) -> Result<Answer, BoxError> {
        let answer = self.transport.clone().oneshot(request).await?;
        if is_watch {
            return Ok(answer);
        }
        let (parts, body) = answer.into_parts();
        let body = body.collect().await?.to_bytes();
        let body = retry_after::copy_to_status(&parts, body);
        let body = Full::new(body).map_err(|never| match never {});
        Ok(Response::from_parts(parts, body.boxed_unsync()))
    }
}

fn is_write(method: &Method) -> bool {
    !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}

#[cfg(test)]
mod tests;
