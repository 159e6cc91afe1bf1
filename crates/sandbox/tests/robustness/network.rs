//! Idle and slow TLS connections.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use apiserver::{
    ApiServer, Options,
    serve::{Certificates, Limits, Server},
};
use rstest::rstest;
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use tokio_rustls::{TlsConnector, client::TlsStream};
use tokio_util::sync::CancellationToken;

struct Running {
    api: ApiServer,
    address: SocketAddr,
    connector: TlsConnector,
    shutdown: CancellationToken,
}

impl Running {
    async fn start(limits: Limits) -> Self {
        let certificates = Certificates::generate().unwrap();
        let address = "127.0.0.1:0".parse().unwrap();
        let server = Server::bind(address, &certificates, limits).await.unwrap();
        let address = server.address();
        let api = ApiServer::start(Options::seeded(1));
        let shutdown = CancellationToken::new();
        tokio::spawn(server.serve(api.by_token(), shutdown.clone()));
        let mut roots = RootCertStore::empty();
        let authority = certificates.authority_pem().as_bytes();
        roots
            .add(CertificateDer::from_pem_slice(authority).unwrap())
            .unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        Self {
            api,
            address,
            connector: TlsConnector::from(Arc::new(config)),
            shutdown,
        }
    }

    async fn connect(&self) -> std::io::Result<TlsStream<TcpStream>> {
        let stream = TcpStream::connect(self.address).await?;
        let name = ServerName::try_from("localhost").unwrap();
        self.connector.connect(name, stream).await
    }

    /// The status line of the response to an ordinary request.
    async fn status_line(&self) -> std::io::Result<String> {
        let mut stream = self.connect().await?;
        let request = format!(
            "GET /api/v1/namespaces/default HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nConnection: close\r\n\r\n",
            self.api.admin_token()
        );
        stream.write_all(request.as_bytes()).await?;
        Ok(until_closed(&mut stream).await)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.shutdown.cancel();
        let _ = self.api.stop();
    }
}

/// Reads a connection until the server closes it.
async fn until_closed(stream: &mut TlsStream<TcpStream>) -> String {
    let mut bytes = Vec::new();
    // The server may close without TLS's close_notify.
    let _ = stream.read_to_end(&mut bytes).await;
    String::from_utf8_lossy(&bytes).into_owned()
}

#[tokio::test]
async fn idle_connections_are_limited() {
    let running = Running::start(Limits {
        connections: 20,
        ..Limits::default()
    })
    .await;
    let mut idle = Vec::new();
    for _ in 0..19 {
        idle.push(running.connect().await.unwrap());
    }
    assert!(
        running
            .status_line()
            .await
            .unwrap()
            .starts_with("HTTP/1.1 200")
    );
    // Once another request is accepted, the server has closed that connection too.
    loop {
        if let Ok(stream) = running.connect().await {
            idle.push(stream);
            break;
        }
    }
    assert!(running.connect().await.is_err(), "there is no room left");
    idle.pop();
    let answered = loop {
        if let Ok(answer) = running.status_line().await {
            break answer;
        }
    };
    assert!(answered.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn slow_headers_time_out() {
    let running = Running::start(Limits {
        headers: Duration::from_millis(200),
        ..Limits::default()
    })
    .await;
    let slow = running.connect().await.unwrap();
    let (mut reader, mut writer) = tokio::io::split(slow);
    let drip = tokio::spawn(async move {
        let mut ticks = tokio::time::interval(Duration::from_millis(10));
        for byte in b"GET / HTTP/1.1\r\nX: "
            .iter()
            .chain(std::iter::repeat(&b'x'))
        {
            ticks.tick().await;
            if writer.write_all(&[*byte]).await.is_err() {
                return;
            }
        }
    });
    assert!(
        running
            .status_line()
            .await
            .unwrap()
            .starts_with("HTTP/1.1 200")
    );
    let mut rest = Vec::new();
    let _ = reader.read_to_end(&mut rest).await;
    drip.abort();
    let answer = String::from_utf8_lossy(&rest);
    assert!(
        answer.is_empty() || answer.starts_with("HTTP/1.1 408"),
        "{answer}"
    );
}

#[rstest]
#[case::nonsense(b"\x00\xff\x00\xff\r\n\r\n".to_vec())]
#[case::no_version(b"GET /\r\n\r\n".to_vec())]
#[case::two_lengths(b"POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab".to_vec())]
#[case::long_path(format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(200 << 10)).into_bytes())]
#[case::many_headers([&b"GET / HTTP/1.1\r\n"[..], &b"X: y\r\n".repeat(1000), b"\r\n"].concat())]
#[case::http2_without_asking(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec())]
#[tokio::test]
async fn invalid_bytes_close_only_their_connection(#[case] bytes: Vec<u8>) {
    let running = Running::start(Limits {
        headers: Duration::from_millis(200),
        ..Limits::default()
    })
    .await;
    let mut stream = running.connect().await.unwrap();
    // The server may close before everything is sent.
    let _ = stream.write_all(&bytes).await;
    let answer = until_closed(&mut stream).await;
    // The preface of HTTP/2 is answered with a frame of settings, which is of type 4.
    let is_http2 = bytes.starts_with(b"PRI * HTTP/2.0");
    let has_settings = answer.as_bytes().get(3) == Some(&4);
    assert!(
        answer.is_empty() || answer.starts_with("HTTP/1.1 4") || is_http2 && has_settings,
        "{answer}"
    );
    assert!(
        running
            .status_line()
            .await
            .unwrap()
            .starts_with("HTTP/1.1 200")
    );
}
