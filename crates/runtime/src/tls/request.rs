//! A request, from its head to its answer.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body::Body as _;
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use tokio::{sync::Semaphore, time::timeout};

use super::{ANSWER, BODY, Handler, PATIENCE};

/// Reads the body, then asks the handler.
pub(super) async fn answer(
    request: Request<Incoming>,
    requests: Arc<Semaphore>,
    handler: Handler,
) -> Response<Full<Bytes>> {
    if request.body().size_hint().lower() > BODY as u64 {
        return too_large();
    }
    let Ok(_place) = requests.acquire().await else {
        return refusal(StatusCode::SERVICE_UNAVAILABLE, "shutting down\n");
    };
    let (head, body) = request.into_parts();
    let body = match timeout(PATIENCE, Limited::new(body, BODY).collect()).await {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(error)) if error.is::<LengthLimitError>() => return too_large(),
        Ok(Err(_)) => return refusal(StatusCode::BAD_REQUEST, "the body ended early\n"),
        Err(_) => return refusal(StatusCode::REQUEST_TIMEOUT, "the body took too long\n"),
    };
    timeout(ANSWER, handler(Request::from_parts(head, body)))
        .await
        .unwrap_or_else(|_| refusal(StatusCode::GATEWAY_TIMEOUT, "no answer in time\n"))
}

fn too_large() -> Response<Full<Bytes>> {
    refusal(
        StatusCode::PAYLOAD_TOO_LARGE,
        "the body is longer than 3145728 bytes\n",
    )
}

fn refusal(status: StatusCode, body: &'static str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(body));
    *response.status_mut() = status;
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, plain);
    response
}
