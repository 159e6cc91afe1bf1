//! Webhook transport over HTTPS.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::Arc,
};

use bytes::Bytes;
use http::{Method, Request, Uri, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::rt::TokioIo;
use rustls::{ClientConfig, crypto::ring, pki_types::ServerName};
use tokio::{net::TcpStream, task::JoinSet};
use tokio_rustls::{TlsConnector, client::TlsStream};

use super::{
    call::{Endpoint, Reply, Transport},
    verifier::{self, Verifier},
};

/// Larger responses are refused. A review is about as large as its object, and objects are smaller.
const MAX_REPLY: usize = 8 << 20;

/// Resolver of Services.
pub trait Services: Send + Sync {
    /// Address of a Service port. The error is a text such as `service "x" not found`.
    fn resolve(&self, namespace: &str, name: &str, port: u16) -> Result<SocketAddr, String>;
}

/// Calls webhooks over HTTPS, on loopback addresses only.
#[derive(Clone, Debug)]
pub struct Https<S> {
    services: S,
}

impl<S: Services> Https<S> {
    pub fn new(services: S) -> Self {
        Self { services }
    }

    fn address(&self, endpoint: &Endpoint) -> Result<SocketAddr, String> {
        let address = if let Some((namespace, name, port)) = &endpoint.service {
            self.services.resolve(namespace, name, *port)?
        } else {
            let port = endpoint.url.port_u16().unwrap_or(443);
            let ip = match host(&endpoint.url) {
                "localhost" => Ipv4Addr::LOCALHOST.into(),
                host => host
                    .parse::<IpAddr>()
                    .map_err(|_| not_loopback(&format!("{host}:{port}")))?,
            };
            (ip, port).into()
        };
        if address.ip().is_loopback() {
            Ok(address)
        } else {
            Err(not_loopback(&address.to_string()))
        }
    }
}

fn not_loopback(address: &str) -> String {
    format!("the sandbox dials only loopback addresses, not {address}")
}

/// Host without the brackets of an IPv6 address.
fn host(url: &Uri) -> &str {
    let host = url.host().unwrap_or_default();
    host.strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
        .unwrap_or(host)
}

impl<S: Services> Transport for Https<S> {
    async fn post(&self, endpoint: &Endpoint, body: Bytes) -> Result<Reply, String> {
        let address = self.address(endpoint)?;
        let stream = connect(address, endpoint).await?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake::<_, Full<Bytes>>(TokioIo::new(stream))
                .await
                .map_err(|error| error.to_string())?;
        // Aborts the connection task when this call ends.
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "webhook connection failed");
            }
        });
        let response = sender
            .send_request(request(endpoint, body)?)
            .await
            .map_err(|error| {
                if error.is_incomplete_message() {
                    "EOF".to_owned()
                } else {
                    error.to_string()
                }
            })?;
        let (parts, body) = response.into_parts();
        let content_type = parts.headers.get(header::CONTENT_TYPE);
        let body = Limited::new(body, MAX_REPLY)
            .collect()
            .await
            .map_err(|error| error.to_string())?;
        Ok(Reply {
            status: parts.status,
            content_type: content_type
                .and_then(|value| value.to_str().ok())
                .unwrap_or_default()
                .to_owned(),
            body: body.to_bytes(),
        })
    }
}

fn request(endpoint: &Endpoint, body: Bytes) -> Result<Request<Full<Bytes>>, String> {
    let authority = endpoint
        .url
        .authority()
        .map_or("", http::uri::Authority::as_str);
    let path = endpoint
        .url
        .path_and_query()
        .map_or("/", http::uri::PathAndQuery::as_str);
    Request::builder()
        .method(Method::POST)
        .uri(path)
        .header(header::HOST, authority)
        .header(header::USER_AGENT, "kube-apiserver-admission")
        .header(header::ACCEPT, "application/json, */*")
        .header(header::CONTENT_TYPE, "application/json")
        .body(Full::new(body))
        .map_err(|error| error.to_string())
}

async fn connect(address: SocketAddr, endpoint: &Endpoint) -> Result<TlsStream<TcpStream>, String> {
    let provider = Arc::new(ring::default_provider());
    let verifier = Verifier::new(&endpoint.ca_bundle, provider.clone())?;
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let name = match &endpoint.service {
        Some((namespace, name, _)) => format!("{name}.{namespace}.svc"),
        None => host(&endpoint.url).to_owned(),
    };
    let name = ServerName::try_from(name).map_err(|error| error.to_string())?;
    let stream = TcpStream::connect(address)
        .await
        .map_err(|error| format!("dial tcp {address}: connect: {}", reason(&error)))?;
    TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await
        .map_err(|error| {
            let tls = error.get_ref().and_then(|inner| inner.downcast_ref());
            tls.map_or_else(|| error.to_string(), verifier::describe)
        })
}

/// Error text as Go prints it, without the errno that Rust adds.
fn reason(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
        _ => error.to_string(),
    }
}
