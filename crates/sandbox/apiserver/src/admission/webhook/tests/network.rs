//! Webhook calls over HTTPS.

use std::{net::SocketAddr, sync::Arc};

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::rt::TokioIo;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::{
    ServerConfig,
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
};
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinSet};
use tokio_rustls::TlsAcceptor;

use super::{TestRequest, configuration, hook};
use crate::admission::webhook::{Https, Services, validate};

/// A webhook on a free port that denies everything with the path in its message.
struct Webhook {
    address: SocketAddr,
    ca: String,
    _tasks: JoinSet<()>,
}

const NAMES: [&str; 3] = ["localhost", "127.0.0.1", "hook.ns.svc"];

impl Webhook {
    /// Serves a certificate signed by a CA.
    async fn start() -> Self {
        let authority = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca = params.self_signed(&authority).unwrap();
        let issuer = Issuer::new(params, authority);
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(NAMES.map(String::from)).unwrap();
        let certificate = params.signed_by(&key, &issuer).unwrap();
        Self::serve(&certificate, &key, ca.pem()).await
    }

    /// Serves a self-signed certificate.
    async fn self_signed() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(NAMES.map(String::from)).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).unwrap();
        Self::serve(&certificate, &key, certificate.pem()).await
    }

    async fn serve(certificate: &rcgen::Certificate, key: &KeyPair, ca: String) -> Self {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let Ok(stream) = acceptor.accept(stream).await else {
                    continue;
                };
                let _ = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service_fn(answer))
                    .await;
            }
        });
        Self {
            address,
            ca,
            _tasks: tasks,
        }
    }

    fn config(&self, address: &Value) -> Value {
        let mut config = address.clone();
        config["caBundle"] = STANDARD.encode(&self.ca).into();
        json!({"clientConfig": config})
    }

    fn url(&self, host: &str) -> Value {
        let port = self.address.port();
        json!({"url": format!("https://{host}:{port}/hook")})
    }
}

async fn answer(
    request: http::Request<Incoming>,
) -> Result<http::Response<Full<Bytes>>, hyper::Error> {
    let path = request.uri().to_string();
    let body = request.into_body().collect().await?.to_bytes();
    let review: Value = serde_json::from_slice(&body).unwrap();
    if path.starts_with("/huge") {
        return Ok(http::Response::new(Full::new(vec![b' '; 9 << 20].into())));
    }
    let review = json!({
        "kind": "AdmissionReview",
        "apiVersion": "admission.k8s.io/v1",
        "response": {"uid": review["request"]["uid"], "allowed": false,
            "status": {"message": path}},
    });
    Ok(http::Response::new(Full::new(review.to_string().into())))
}

struct Port(u16);

impl Services for Port {
    fn resolve(&self, namespace: &str, name: &str, port: u16) -> Result<SocketAddr, String> {
        match (namespace, name, port) {
            ("ns", "far", _) => Ok("192.0.2.1:443".parse().unwrap()),
            ("ns", "hook" | "other", 443) => Ok(([127, 0, 0, 1], self.0).into()),
            _ => Err(format!("service {name:?} not found")),
        }
    }
}

async fn call(webhook: &Webhook, more: &Value) -> String {
    let transport = Https::new(Port(webhook.address.port()));
    let configurations = [configuration("c", &[hook("h", more)])];
    let fixture = TestRequest::default();
    let mut uids = || "u1".to_owned();
    validate(
        &transport,
        &configurations,
        &fixture.request(),
        &mut uids,
        &mut Vec::new(),
    )
    .await
    .unwrap_err()
    .message
}

const DENIED: &str = "admission webhook \"h\" denied the request: /hook?timeout=10s";

fn failed(url: &str, why: &str) -> String {
    format!(
        "Internal error occurred: failed calling webhook \"h\": failed to call webhook: Post \
         \"{url}?timeout=10s\": {why}"
    )
}

#[tokio::test]
async fn a_webhook_is_called_by_its_url_or_its_service() {
    let webhook = Webhook::start().await;
    let service = json!({"service": {"namespace": "ns", "name": "hook", "path": "/hook"}});
    for address in [webhook.url("127.0.0.1"), webhook.url("localhost"), service] {
        assert_eq!(call(&webhook, &webhook.config(&address)).await, DENIED);
    }
}

#[tokio::test]
async fn self_signed_certificates_are_trusted_by_their_own_bundle() {
    let webhook = Webhook::self_signed().await;
    let config = webhook.config(&webhook.url("127.0.0.1"));
    assert_eq!(call(&webhook, &config).await, DENIED);
    let other = Webhook::self_signed().await;
    let config = other.config(&webhook.url("127.0.0.1"));
    assert!(
        call(&webhook, &config)
            .await
            .contains("tls: failed to verify certificate")
    );
}

#[tokio::test]
async fn a_certificate_of_another_authority_is_not_trusted() {
    let (webhook, other) = (Webhook::start().await, Webhook::start().await);
    let url = format!("https://127.0.0.1:{}/hook", webhook.address.port());
    let why = "tls: failed to verify certificate: x509: certificate signed by unknown authority";
    let config = other.config(&webhook.url("127.0.0.1"));
    assert_eq!(call(&webhook, &config).await, failed(&url, why));
    let none = json!({"clientConfig": webhook.url("127.0.0.1")});
    assert_eq!(call(&webhook, &none).await, failed(&url, why));
}

#[tokio::test]
async fn certificate_must_match_the_host() {
    let webhook = Webhook::start().await;
    let service = json!({"service": {"namespace": "ns", "name": "other"}});
    let text = call(&webhook, &webhook.config(&service)).await;
    assert!(
        text.ends_with(", not other.ns.svc") && text.contains("x509: certificate is valid for"),
        "{text}"
    );
}

#[tokio::test]
async fn only_loopback_addresses_are_dialed() {
    let webhook = Webhook::start().await;
    let elsewhere =
        |address: &str| format!("the sandbox dials only loopback addresses, not {address}");
    for (address, url, why) in [
        (
            json!({"url": "https://192.0.2.1/x"}),
            "https://192.0.2.1/x",
            elsewhere("192.0.2.1:443"),
        ),
        (
            json!({"url": "https://example.com:8443/x"}),
            "https://example.com:8443/x",
            elsewhere("example.com:8443"),
        ),
        (
            json!({"service": {"namespace": "ns", "name": "far", "path": "/x"}}),
            "https://far.ns.svc:443/x",
            elsewhere("192.0.2.1:443"),
        ),
        (
            json!({"service": {"namespace": "ns", "name": "nosvc", "path": "/x"}}),
            "https://nosvc.ns.svc:443/x",
            "service \"nosvc\" not found".to_owned(),
        ),
    ] {
        let config = webhook.config(&address);
        assert_eq!(call(&webhook, &config).await, failed(url, &why));
    }
}

#[tokio::test]
async fn connection_refused_is_worded_like_kube_apiserver() {
    let webhook = Webhook::start().await;
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let url = format!("https://{address}/x");
    let config = webhook.config(&json!({"url": url}));
    let why = format!("dial tcp {address}: connect: connection refused");
    assert_eq!(call(&webhook, &config).await, failed(&url, &why));
}

#[tokio::test]
async fn endless_responses_are_cut_off() {
    let webhook = Webhook::start().await;
    let url = format!("https://{}/huge", webhook.address);
    let config = webhook.config(&json!({"url": url}));
    let text = call(&webhook, &config).await;
    assert_eq!(text, failed(&url, "length limit exceeded"));
}
