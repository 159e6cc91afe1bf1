//! HTTPS server, certificates and kubeconfig.

use std::{
    convert::Infallible, net::SocketAddr, os::unix::fs::PermissionsExt, path::Path, sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use futures::stream;
use http::{Request, Response, Version};
use http_body_util::{BodyExt, Empty, StreamBody, combinators::BoxBody};
use hyper::body::{Frame, Incoming};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rstest::rstest;
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinHandle,
};
use tokio_rustls::{TlsConnector, client::TlsStream};
use tokio_util::sync::CancellationToken;
use tower::service_fn;

use super::{Certificates, Error, Kubeconfig, Limits, Server};

/// Responds with the path and the HTTP version; `/endless` never ends.
async fn answer(
    request: Request<Incoming>,
) -> Result<Response<BoxBody<Bytes, Infallible>>, Infallible> {
    let body = if request.uri().path() == "/endless" {
        StreamBody::new(stream::pending::<Result<Frame<Bytes>, Infallible>>()).boxed()
    } else {
        format!("{:?} {}", request.version(), request.uri().path()).boxed()
    };
    Ok(Response::new(body))
}

struct Running {
    address: SocketAddr,
    certificates: Certificates,
    shutdown: CancellationToken,
    ended: JoinHandle<()>,
}

impl Running {
    async fn start(limits: Limits) -> Self {
        let certificates = Certificates::generate().unwrap();
        let server = Server::bind("127.0.0.1:0".parse().unwrap(), &certificates, limits)
            .await
            .unwrap();
        let shutdown = CancellationToken::new();
        Self {
            address: server.address(),
            certificates,
            ended: tokio::spawn(server.serve(service_fn(answer), shutdown.clone())),
            shutdown,
        }
    }

    async fn connect(&self, protocol: &[u8]) -> std::io::Result<TlsStream<TcpStream>> {
        let mut roots = RootCertStore::empty();
        let authority = self.certificates.authority_pem().as_bytes();
        roots
            .add(CertificateDer::from_pem_slice(authority).unwrap())
            .unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![protocol.to_vec()];
        let stream = TcpStream::connect(self.address).await?;
        let name = ServerName::try_from("kubernetes.default.svc").unwrap();
        TlsConnector::from(Arc::new(config))
            .connect(name, stream)
            .await
    }

    async fn get(&self, protocol: &[u8], path: &str) -> Response<Incoming> {
        let stream = TokioIo::new(self.connect(protocol).await.unwrap());
        let request = Request::get(format!("https://localhost{path}"))
            .body(Empty::<Bytes>::new())
            .unwrap();
        if protocol == b"h2" {
            let (mut sender, connection) =
                hyper::client::conn::http2::handshake(TokioExecutor::new(), stream)
                    .await
                    .unwrap();
            tokio::spawn(connection);
            sender.send_request(request).await.unwrap()
        } else {
            let (mut sender, connection) =
                hyper::client::conn::http1::handshake(stream).await.unwrap();
            tokio::spawn(connection);
            sender.send_request(request).await.unwrap()
        }
    }

    async fn stop(self) {
        self.shutdown.cancel();
        self.ended.await.unwrap();
    }
}

async fn text(response: Response<Incoming>) -> String {
    let body = response.into_body().collect().await.unwrap().to_bytes();
    String::from_utf8(body.to_vec()).unwrap()
}

#[rstest]
#[case(b"h2", Version::HTTP_2, "HTTP/2.0 /a")]
#[case(b"http/1.1", Version::HTTP_11, "HTTP/1.1 https://localhost/a")]
#[tokio::test]
async fn clients_choose_the_protocol(
    #[case] protocol: &[u8],
    #[case] version: Version,
    #[case] expected: &str,
) {
    let server = Running::start(Limits::default()).await;
    let response = server.get(protocol, "/a").await;
    assert_eq!(response.version(), version);
    assert_eq!(
        text(response).await,
        expected.replace("https://localhost", "")
    );
    server.stop().await;
}

#[rstest]
#[case("0.0.0.0:0")]
#[case("192.0.2.1:0")]
#[case("[::]:0")]
#[tokio::test]
async fn only_loopback_addresses_are_accepted(#[case] address: &str) {
    let certificates = Certificates::generate().unwrap();
    let address = address.parse().unwrap();
    let refused = Server::bind(address, &certificates, Limits::default()).await;
    assert_eq!(
        refused.unwrap_err().to_string(),
        format!(
            "the sandbox listens on loopback addresses only, such as 127.0.0.1:0, not on {address}"
        )
    );
}

#[tokio::test]
async fn address_in_use_is_reported() {
    let server = Running::start(Limits::default()).await;
    let certificates = Certificates::generate().unwrap();
    let refused = Server::bind(server.address, &certificates, Limits::default()).await;
    let text = refused.unwrap_err().to_string();
    assert!(text.starts_with(&format!("cannot listen on {}: ", server.address)));
}

#[tokio::test]
async fn excess_connections_are_closed() {
    let server = Running::start(Limits {
        connections: 1,
        ..Limits::default()
    })
    .await;
    let first = server.connect(b"h2").await.unwrap();
    assert!(server.connect(b"h2").await.is_err());
    drop(first);
    // The slot is free once the server notices the closed connection.
    while server.connect(b"h2").await.is_err() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn tls_handshake_times_out() {
    let server = Running::start(Limits {
        handshake: Duration::from_millis(10),
        ..Limits::default()
    })
    .await;
    let mut silent = TcpStream::connect(server.address).await.unwrap();
    assert_eq!(silent.read(&mut [0; 1]).await.unwrap_or(0), 0);
}

#[tokio::test]
async fn request_headers_time_out() {
    let server = Running::start(Limits {
        headers: Duration::from_millis(10),
        ..Limits::default()
    })
    .await;
    let mut slow = server.connect(b"http/1.1").await.unwrap();
    slow.write_all(b"GET / HTTP/1.1\r\nhost: ").await.unwrap();
    let mut response = Vec::new();
    let _ = slow.read_to_end(&mut response).await;
    assert!(!String::from_utf8_lossy(&response).contains("200 OK"));
}

#[tokio::test]
async fn header_size_is_limited() {
    let server = Running::start(Limits {
        header_bytes: 8192,
        ..Limits::default()
    })
    .await;
    let mut stream = server.connect(b"http/1.1").await.unwrap();
    let request = format!(
        "GET / HTTP/1.1\r\nhost: x\r\na: {}\r\n\r\n",
        "x".repeat(20_000)
    );
    let _ = stream.write_all(request.as_bytes()).await;
    let mut response = Vec::new();
    let _ = stream.read_to_end(&mut response).await;
    assert!(String::from_utf8_lossy(&response).starts_with("HTTP/1.1 431"));
}

#[rstest]
#[case(b"h2")]
#[case(b"http/1.1")]
#[tokio::test]
async fn shutdown_aborts_endless_responses(#[case] protocol: &[u8]) {
    let server = Running::start(Limits {
        shutdown: Duration::from_millis(10),
        ..Limits::default()
    })
    .await;
    let endless = server.get(protocol, "/endless").await;
    server.stop().await;
    assert!(endless.into_body().collect().await.is_err());
}

#[test]
fn certificates_are_stored_and_loaded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kept/server.pem");
    let new = Certificates::load_or_generate(&path).unwrap();
    let loaded = Certificates::load_or_generate(&path).unwrap();
    assert_eq!(new.to_pem(), loaded.to_pem());
    assert_eq!(mode(&path), 0o600);
    for broken in [
        "",
        "nonsense",
        loaded.authority_pem(),
        &loaded.authority_pem().repeat(3),
    ] {
        let refused = Certificates::from_pem(broken);
        assert!(
            matches!(refused, Err(Error::InvalidCertificate(_))),
            "{broken:?}"
        );
    }
    assert!(!format!("{loaded:?}").contains("PRIVATE"));
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn kubeconfig(token: &str) -> Kubeconfig<'_> {
    Kubeconfig {
        address: "127.0.0.1:6443".parse().unwrap(),
        authority_pem: "pem",
        token,
        namespace: "default",
    }
}

#[test]
fn kubeconfig_is_private() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new/config");
    let written = kubeconfig("secret").write(&path).unwrap();
    assert_eq!(mode(&path), 0o600);
    assert_eq!(mode(path.parent().unwrap()), 0o700);
    let files: Vec<_> = std::fs::read_dir(path.parent().unwrap()).unwrap().collect();
    assert_eq!(files.len(), 1);
    let read: kube::config::Kubeconfig =
        serde_saphyr::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    assert_eq!(read.current_context.as_deref(), Some("sandbox"));
    let cluster = read.clusters[0].cluster.as_ref().unwrap();
    assert_eq!(cluster.server.as_deref(), Some("https://127.0.0.1:6443"));
    assert_eq!(cluster.certificate_authority_data.as_deref(), Some("cGVt"));
    assert_eq!(cluster.tls_server_name, None);
    assert!(!format!("{written:?}").contains("secret"));
    written.remove().unwrap();
    assert!(!path.exists());
}

#[test]
fn foreign_kubeconfigs_are_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config");
    std::fs::write(&path, "apiVersion: v1\n").unwrap();
    let refused = kubeconfig("a").write(&path);
    assert!(matches!(refused, Err(Error::Foreign(_))));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "apiVersion: v1\n");

    std::fs::remove_file(&path).unwrap();
    let first = kubeconfig("a").write(&path).unwrap();
    let second = kubeconfig("b").write(&path).unwrap();
    first.remove().unwrap();
    assert!(path.exists());
    second.remove().unwrap();
    assert!(!path.exists());
}

#[test]
fn other_loopback_addresses_set_tls_server_name() {
    let kubeconfig = Kubeconfig {
        address: "127.0.0.2:6443".parse().unwrap(),
        ..kubeconfig("a")
    };
    let value = kubeconfig.to_value();
    assert_eq!(
        value["clusters"][0]["cluster"]["tls-server-name"],
        "localhost"
    );
}
