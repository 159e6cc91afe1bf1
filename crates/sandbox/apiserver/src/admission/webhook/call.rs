//! A single webhook call.

use std::future::Future;

use bytes::Bytes;
use http::{StatusCode, Uri};
use serde_json::Value;

use super::{
    Request,
    hook::text,
    matching::Invocation,
    review::{self, AdmissionResponse},
};
use crate::ApiError;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// With the timeout as query.
    pub url: Uri,
    /// Namespace, name and port of the Service behind the URL.
    pub service: Option<(String, String, u16)>,
    /// CA bundle in PEM.
    pub ca_bundle: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    pub status: StatusCode,
    /// Empty for none.
    pub content_type: String,
    pub body: Bytes,
}

pub trait Transport: Send + Sync {
    /// Posts a body. The error is the text after `Post "URL": `. The caller enforces the timeout.
    fn post(
        &self,
        endpoint: &Endpoint,
        body: Bytes,
    ) -> impl Future<Output = Result<Reply, String>> + Send;
}

#[derive(Debug)]
pub(super) enum Failure {
    /// The call failed or the response is invalid; the failure policy decides.
    Call(String),
    /// Refused regardless of the failure policy.
    Refused(ApiError),
}

pub(super) async fn call(
    transport: &impl Transport,
    invocation: &Invocation<'_>,
    request: &Request<'_>,
    uid: &str,
    mutating: bool,
) -> Result<AdmissionResponse, Failure> {
    let hook = &invocation.hook;
    if request.dry_run && !hook.allows_dry_run() {
        return Err(Failure::Refused(ApiError::bad_request(format!(
            "admission webhook {:?} does not support dry run",
            hook.name()
        ))));
    }
    check_versions(hook.field("admissionReviewVersions")).map_err(Failure::Call)?;
    let timeout = hook.timeout();
    let query = format!("timeout={}s", timeout.as_secs());
    let endpoint = endpoint(hook.field("clientConfig"), &query)
        .map_err(|why| Failure::Call(format!("could not get REST client: {why}")))?;
    let body = review::body(invocation, request, uid).to_string();
    let reply = tokio::time::timeout(timeout, transport.post(&endpoint, body.into()))
        .await
        .unwrap_or_else(|_| Err("context deadline exceeded".into()))
        .map_err(|why| {
            let url = &endpoint.url;
            Failure::Call(format!("failed to call webhook: Post \"{url}\": {why}"))
        })?;
    review::decode_response(hook.name(), uid, mutating, &reply).map_err(Failure::Call)
}

fn check_versions(versions: &Value) -> Result<(), String> {
    let has = |wanted: &str| {
        let mut versions = versions.as_array().into_iter().flatten();
        versions.any(|version| version == wanted)
    };
    let why = match (has("v1"), has("v1beta1")) {
        (true, _) => return Ok(()),
        (false, true) => "the sandbox does not support AdmissionReview v1beta1",
        (false, false) => "webhook does not accept known AdmissionReview versions (v1, v1beta1)",
    };
    Err(format!("could not create admission objects: {why}"))
}

fn endpoint(config: &Value, query: &str) -> Result<Endpoint, String> {
    use base64::{Engine, engine::general_purpose::STANDARD};
    let ca_bundle = STANDARD
        .decode(text(config, "caBundle"))
        .map_err(|error| format!("unable to load root certificates: {error}"))?;
    let service = &config["service"];
    let (address, service) = if service.is_object() {
        let (namespace, name) = (text(service, "namespace"), text(service, "name"));
        let port = service["port"].as_u64().unwrap_or(443);
        let port = u16::try_from(port).map_err(|_| format!("invalid port {port}"))?;
        let path = text(service, "path").trim_start_matches('/');
        (
            format!("https://{name}.{namespace}.svc:{port}/{path}"),
            Some((namespace.to_owned(), name.to_owned(), port)),
        )
    } else {
        (text(config, "url").to_owned(), None)
    };
    if address.is_empty() {
        return Err("webhook configuration must have either service or URL".into());
    }
    let separator = if address.contains('?') { '&' } else { '?' };
    let url: Uri = format!("{address}{separator}{query}")
        .parse()
        .map_err(|error| format!("Unparsable URL: {error}"))?;
    if url.scheme_str() != Some("https") {
        return Err(format!("Unparsable URL: {address:?} is not an https URL"));
    }
    Ok(Endpoint {
        url,
        service,
        ca_bundle,
    })
}
