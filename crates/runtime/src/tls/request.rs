//! Bounded reading of a request and its response.

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

use super::{
    Handler, MAX_BODY_BYTES, MAX_CONCURRENT_REQUESTS, MAX_SMALL_BODY_BYTES, READ_TIMEOUT,
    RESPONSE_TIMEOUT,
};

/// Permits that all requests of a server share.
#[derive(Clone)]
pub(super) struct Permits {
    requests: Arc<Semaphore>,
    /// For a body above [`MAX_SMALL_BODY_BYTES`].
    large: Arc<Semaphore>,
}

impl Default for Permits {
    fn default() -> Self {
        Self {
            requests: Arc::new(Semaphore::new(MAX_CONCURRENT_REQUESTS)),
            large: Arc::new(Semaphore::new(1)),
        }
    }
}

/// Reads the body, then calls the handler.
pub(super) async fn answer(
    request: Request<Incoming>,
    permits: Permits,
    handler: Handler,
) -> Response<Full<Bytes>> {
    if request.body().size_hint().lower() > MAX_BODY_BYTES as u64 {
        return ReadError::TooLarge.response();
    }
    let Ok(_permit) = permits.requests.acquire().await else {
        return ReadError::ShuttingDown.response();
    };
    let (head, body) = request.into_parts();
    let read = timeout(READ_TIMEOUT, read(body, permits.large)).await;
    let (body, _large) = match read.unwrap_or(Err(ReadError::Timeout)) {
        Ok(read) => read,
        Err(error) => return error.response(),
    };
    timeout(RESPONSE_TIMEOUT, handler(Request::from_parts(head, body)))
        .await
        .unwrap_or_else(|_| refusal(StatusCode::GATEWAY_TIMEOUT, "no answer in time\n"))
}

/// Reads a body, with the permit that a large one needs. Frames are copied into one buffer: a body
/// that arrives byte by byte would otherwise take many times its length.
async fn read(
    mut body: Incoming,
    large: Arc<Semaphore>,
) -> Result<(Bytes, Option<OwnedSemaphorePermit>), ReadError> {
    let mut bytes = Vec::new();
    let mut permit = None;
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|_| ReadError::Incomplete)?.into_data() else {
            continue;
        };
        let length = bytes.len().saturating_add(data.len());
        if length > MAX_BODY_BYTES {
            return Err(ReadError::TooLarge);
        }
        if length > MAX_SMALL_BODY_BYTES && permit.is_none() {
            let acquired = Arc::clone(&large).acquire_owned().await;
            permit = Some(acquired.map_err(|_| ReadError::ShuttingDown)?);
        }
        bytes.extend_from_slice(&data);
    }
    Ok((bytes.into(), permit))
}

/// Why a body was not read.
enum ReadError {
    TooLarge,
    Incomplete,
    Timeout,
    ShuttingDown,
}

impl ReadError {
    fn response(&self) -> Response<Full<Bytes>> {
        match self {
            Self::TooLarge => refusal(
                StatusCode::PAYLOAD_TOO_LARGE,
                format!("the body is longer than {MAX_BODY_BYTES} bytes\n"),
            ),
            Self::Incomplete => refusal(StatusCode::BAD_REQUEST, "the body ended early\n"),
            Self::Timeout => refusal(StatusCode::REQUEST_TIMEOUT, "the body took too long\n"),
            Self::ShuttingDown => refusal(StatusCode::SERVICE_UNAVAILABLE, "shutting down\n"),
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
