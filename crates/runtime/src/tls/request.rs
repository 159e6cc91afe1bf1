//! A request, from its head to its answer.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body::Body as _;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

use super::{ANSWER, BODY, Handler, PATIENCE, REQUESTS, SHORT};

/// What all requests of a server share.
#[derive(Clone)]
pub(super) struct Places {
    requests: Arc<Semaphore>,
    /// For the one that is longer than [`SHORT`].
    long: Arc<Semaphore>,
}

impl Default for Places {
    fn default() -> Self {
        Self {
            requests: Arc::new(Semaphore::new(REQUESTS)),
            long: Arc::new(Semaphore::new(1)),
        }
    }
}

/// Reads the body, then asks the handler.
pub(super) async fn answer(
    request: Request<Incoming>,
    places: Places,
    handler: Handler,
) -> Response<Full<Bytes>> {
    if request.body().size_hint().lower() > BODY as u64 {
        return Unread::Long.response();
    }
    let Ok(_place) = places.requests.acquire().await else {
        return Unread::Ending.response();
    };
    let (head, body) = request.into_parts();
    let read = timeout(PATIENCE, read(body, places.long)).await;
    let (body, _long) = match read.unwrap_or(Err(Unread::Slow)) {
        Ok(read) => read,
        Err(unread) => return unread.response(),
    };
    timeout(ANSWER, handler(Request::from_parts(head, body)))
        .await
        .unwrap_or_else(|_| refusal(StatusCode::GATEWAY_TIMEOUT, "no answer in time\n"))
}

/// Reads a body, and keeps the place that a long one needs. The parts of a body are not kept as they
/// come: one that comes byte by byte would take many times its length.
async fn read(
    mut body: Incoming,
    long: Arc<Semaphore>,
) -> Result<(Bytes, Option<OwnedSemaphorePermit>), Unread> {
    let mut bytes = Vec::new();
    let mut place = None;
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|_| Unread::Broken)?.into_data() else {
            continue;
        };
        let length = bytes.len().saturating_add(data.len());
        if length > BODY {
            return Err(Unread::Long);
        }
        if length > SHORT && place.is_none() {
            let taken = Arc::clone(&long).acquire_owned().await;
            place = Some(taken.map_err(|_| Unread::Ending)?);
        }
        bytes.extend_from_slice(&data);
    }
    Ok((bytes.into(), place))
}

/// Why a request was not read.
enum Unread {
    Long,
    Broken,
    Slow,
    Ending,
}

impl Unread {
    fn response(&self) -> Response<Full<Bytes>> {
        match self {
            Self::Long => refusal(
                StatusCode::PAYLOAD_TOO_LARGE,
                format!("the body is longer than {BODY} bytes\n"),
            ),
            Self::Broken => refusal(StatusCode::BAD_REQUEST, "the body ended early\n"),
            Self::Slow => refusal(StatusCode::REQUEST_TIMEOUT, "the body took too long\n"),
            Self::Ending => refusal(StatusCode::SERVICE_UNAVAILABLE, "shutting down\n"),
        }
    }
}

fn refusal(status: StatusCode, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, plain);
    response
}
