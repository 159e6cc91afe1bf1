//! Webhook server on loopback whose responses the cases set.
//!
//! A path without a response is not found. The server stops when it is dropped.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use crate::Error;

/// Responses and last requests, by path.
#[derive(Debug, Default)]
struct State {
    responses: BTreeMap<String, Value>,
    received: BTreeMap<String, Value>,
}

#[derive(Debug)]
pub(crate) struct Webhooks {
    url: String,
    ca: String,
    state: Arc<Mutex<State>>,
    task: JoinHandle<()>,
}

impl Drop for Webhooks {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Webhooks {
    pub(crate) async fn start() -> Result<Self, Error> {
        let (config, ca) = tls().map_err(|error| Error::Webhooks(error.to_string()))?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .await
            .map_err(|error| Error::Webhooks(error.to_string()))?;
        let address = listener
            .local_addr()
            .map_err(|error| Error::Webhooks(error.to_string()))?;
        let state = Arc::new(Mutex::new(State::default()));
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let task = tokio::spawn(serve(listener, acceptor, Arc::clone(&state)));
        Ok(Self {
            url: format!("https://{address}"),
            ca: STANDARD.encode(ca),
            state,
            task,
        })
    }

    /// Prefix of webhook URLs.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// CA bundle of the server.
    pub(crate) fn ca(&self) -> &str {
        &self.ca
    }

    /// Sets the response to all requests on a path: that of an AdmissionReview with its patch as
    /// JSON, `{code: 500}` for an HTTP error, or `{hang: true}` for none.
    pub(crate) fn program(&self, path: String, response: Value) {
        lock(&self.state).responses.insert(path, response);
    }

    /// The last AdmissionReview that a path received.
    pub(crate) fn received(&self, path: &str) -> Option<Value> {
        lock(&self.state).received.get(path).cloned()
    }
}

/// No critical section panics, so a poisoned map is still valid.
fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A certificate for loopback and the CA that signed it.
fn tls() -> Result<(ServerConfig, String), Box<dyn std::error::Error>> {
    let mut authority = CertificateParams::default();
    authority
        .distinguished_name
        .push(DnType::CommonName, "conformance webhooks");
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority_key = KeyPair::generate()?;
    let ca = authority.self_signed(&authority_key)?.pem();
    let issuer = Issuer::new(authority, authority_key);
    let key = KeyPair::generate()?;
    let server = CertificateParams::new(vec!["127.0.0.1".to_owned()])?;
    let certificate = server.signed_by(&key, &issuer)?;
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)?;
    Ok((config, ca))
}

async fn serve(listener: TcpListener, acceptor: TlsAcceptor, state: Arc<Mutex<State>>) {
    while let Ok((stream, _)) = listener.accept().await {
        let (acceptor, state) = (acceptor.clone(), Arc::clone(&state));
        tokio::spawn(async move {
            // If a caller gives up, its own response shows it.
            let Ok(stream) = acceptor.accept(stream).await else {
                return;
            };
            let service = service_fn(move |request| respond(request, Arc::clone(&state)));
            let _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

async fn respond(
    request: Request<Incoming>,
    state: Arc<Mutex<State>>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let path = request.uri().path().trim_start_matches('/').to_owned();
    let review: Value = match request.into_body().collect().await {
        Ok(body) => serde_json::from_slice(&body.to_bytes()).unwrap_or_default(),
        Err(_) => Value::Null,
    };
    let uid = review.pointer("/request/uid").cloned().unwrap_or_default();
    let programmed = {
        let mut state = lock(&state);
        state.received.insert(path.clone(), review);
        state.responses.get(&path).cloned()
    };
    let Some(mut programmed) = programmed else {
        return Ok(error(StatusCode::NOT_FOUND));
    };
    if programmed.get("hang").is_some() {
        std::future::pending::<()>().await;
    }
    if let Some(code) = programmed.get("code").and_then(Value::as_u64) {
        let code = u16::try_from(code)
            .ok()
            .and_then(|code| StatusCode::from_u16(code).ok());
        return Ok(error(code.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)));
    }
    if let Some(fields) = programmed.as_object_mut() {
        fields.entry("uid").or_insert(uid);
        if let Some(patch) = fields.get_mut("patch") {
            *patch = Value::from(STANDARD.encode(patch.to_string()));
            fields.insert("patchType".to_owned(), Value::from("JSONPatch"));
        }
    }
    let body = json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": programmed,
    });
    let mut response = Response::new(Full::new(Bytes::from(body.to_string())));
    let json = http::HeaderValue::from_static("application/json");
    response
        .headers_mut()
        .insert(http::header::CONTENT_TYPE, json);
    Ok(response)
}

fn error(code: StatusCode) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = code;
    response
}
