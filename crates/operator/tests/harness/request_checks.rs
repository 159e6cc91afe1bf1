//! Checks of every request that an operator sends.

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Uri, header::CONTENT_TYPE};
use http_body_util::BodyExt as _;
use kube::{Client, client::Body};
use tower::{BoxError, service_fn};

/// Wraps a client: it panics at a write that contains a null which it must not contain ([`plan::null`]).
pub(crate) fn reject_null(client: Client) -> Client {
    let namespace = client.default_namespace().to_owned();
    let service = service_fn(move |request: Request<Body>| {
        let client = client.clone();
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await?.to_bytes();
            check(&parts.method, &parts.uri, &parts.headers, &body);
            let request = Request::from_parts(parts, Body::from(body.to_vec()));
            client.send(request).await.map_err(BoxError::from)
        }
    });
    Client::new(service, namespace)
}

fn check(method: &Method, uri: &Uri, headers: &HeaderMap, body: &Bytes) {
    let body = serde_json::from_slice(body).ok();
    let Some(pointer) = body.and_then(|body| plan::null::find(&body)) else {
        return;
    };
    let media = headers.get(CONTENT_TYPE);
    let is_merge_patch = media.is_some_and(|media| media == "application/merge-patch+json");
    let is_metadata = ["/metadata/labels/", "/metadata/annotations/"]
        .iter()
        .any(|field| pointer.starts_with(field));
    let path = uri.path();
    let is_status = path.contains("/kubevirts/") && path.ends_with("/status");
    let is_next_authority = path.contains("/secrets/") && pointer.starts_with("/data/next.");
    let is_constraints = path.contains("/securitycontextconstraints/");
    assert!(
        is_merge_patch && (is_metadata || is_status || is_next_authority) || is_constraints,
        "{method} {uri} contains null at {pointer}"
    );
}
