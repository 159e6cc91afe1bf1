use std::{
    net::Ipv4Addr,
    sync::atomic::{AtomicUsize, Ordering},
};

use futures::FutureExt as _;
use jiff::{SignedDuration, Timestamp};
use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, ServerName, pem::PemObject as _},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream},
    net::TcpStream,
    sync::mpsc,
    task::JoinHandle,
};
use tokio_rustls::{TlsConnector, client};

use super::*;
use crate::certificates::{self, Authority, KeyPair, Usage, issue};

const NAME: &str = "kubevirt-operator-webhook.kubevirt.svc";

fn issued(usage: Usage, authority: Option<&KeyPair>) -> KeyPair {
    let now = Timestamp::now();
    let request = certificates::Request {
        common_name: format!("{usage:?}"),
        dns_names: vec![NAME.to_owned()],
        usage,
        not_before: now - SignedDuration::from_hours(1),
        not_after: now + SignedDuration::from_hours(1),
    };
    let authority = authority.map(|authority| Authority {
        certificate: authority.certificate.as_bytes(),
        key: authority.key.as_bytes(),
    });
    issue(&request, authority).unwrap()
}

/// A server with in-memory connections: sockets do not work on virtual time.
struct Running {
    clients: mpsc::UnboundedSender<DuplexStream>,
    certificate: Certificate,
    authority: KeyPair,
    token: CancellationToken,
    task: JoinHandle<()>,
}

impl Running {
    fn start(handler: Handler) -> Self {
        let (clients, accepted) = mpsc::unbounded_channel();
        let certificate = Certificate::fallback().unwrap();
        let token = CancellationToken::new();
        let server = Server {
            acceptor: TlsAcceptor::from(certificate.config()),
            permits: Permits::default(),
            handler,
            token: token.clone(),
        };
        let accepted = stream::unfold(accepted, async |mut accepted| {
            Some((Ok(accepted.recv().await?), accepted))
        });
        Self {
            clients,
            certificate,
            authority: issued(Usage::Ca, None),
            token,
            task: tokio::spawn(server.serve(accepted)),
        }
    }

    fn with_certificate(handler: Handler) -> Self {
        let server = Self::start(handler);
        let pair = issued(Usage::Server, Some(&server.authority));
        server.replace(&pair).unwrap();
        server
    }

    fn open(&self) -> DuplexStream {
        let (client, server) = tokio::io::duplex(1 << 16);
        self.clients.send(server).unwrap();
        client
    }

    fn replace(&self, pair: &KeyPair) -> Result<(), CertificateError> {
        self.certificate
            .replace(pair.certificate.as_bytes(), pair.key.as_bytes())
    }

    /// Connection of a client that trusts only our CA.
    async fn connect(&self, alpn: &[u8]) -> io::Result<client::TlsStream<DuplexStream>> {
        let name = ServerName::try_from(NAME).unwrap();
        let connector = trusting(&self.authority, alpn);
        connector.connect(name, self.open()).await
    }

    /// The response to these bytes, until the server closes the connection.
    async fn send(&self, bytes: &[u8]) -> String {
        let mut stream = self.connect(b"http/1.1").await.unwrap();
        // The server may close the connection before everything is sent.
        let _ = stream.write_all(bytes).await;
        let _ = stream.flush().await;
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        String::from_utf8(answer).unwrap()
    }

    async fn post(&self, body: &str) -> String {
        let length = body.len();
        let head = format!(
            "POST /validate HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n"
        );
        self.send(format!("{head}{body}").as_bytes()).await
    }
}

fn trusting(authority: &KeyPair, alpn: &[u8]) -> TlsConnector {
    let mut roots = RootCertStore::empty();
    let der = CertificateDer::from_pem_slice(authority.certificate.as_bytes()).unwrap();
    roots.add(der).unwrap();
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![alpn.to_vec()];
    TlsConnector::from(Arc::new(config))
}

fn echo() -> Handler {
    Arc::new(|request: Request<Bytes>| {
        let path = request.uri().path().to_owned();
        let body = request.into_body();
        let text = format!("{path} {}", body.len());
        async move { Response::new(Full::from(text)) }.boxed()
    })
}

#[tokio::test]
async fn a_request_is_answered() {
    let server = Running::with_certificate(echo());
    let answer = server.post("{}").await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.ends_with("\r\n\r\n/validate 2"), "{answer}");
}

#[tokio::test]
async fn http2_is_not_supported() {
    let server = Running::with_certificate(echo());
    let mut stream = server.connect(b"http/1.1").await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    stream.write_all(preface).await.unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 4"));
    assert!(server.connect(b"h2").await.is_err());
}

#[tokio::test]
async fn no_client_trusts_the_fallback_certificate() {
    let server = Running::start(echo());
    let error = server.connect(b"http/1.1").await.unwrap_err().to_string();
    assert!(error.contains("invalid peer certificate"), "{error}");
}

#[tokio::test]
async fn new_connections_get_a_replaced_certificate() {
    let server = Running::with_certificate(echo());
    let shown = |stream: &client::TlsStream<DuplexStream>| {
        let certificates = stream.get_ref().1.peer_certificates().unwrap();
        certificates[0].to_vec()
    };
    let mut open = server.connect(b"http/1.1").await.unwrap();
    let first = shown(&open);
    server
        .replace(&issued(Usage::Server, Some(&server.authority)))
        .unwrap();
    assert_ne!(shown(&server.connect(b"http/1.1").await.unwrap()), first);

    let request = "GET /open HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    open.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    open.read_to_string(&mut answer).await.unwrap();
    assert!(answer.ends_with("/open 0"), "{answer}");
}

#[tokio::test]
async fn an_unusable_certificate_changes_nothing() {
    let server = Running::with_certificate(echo());
    let mut mixed = issued(Usage::Server, Some(&server.authority));
    mixed.key = server.authority.key.clone();
    assert!(matches!(
        server.replace(&mixed),
        Err(CertificateError::Mismatch)
    ));
    mixed.key = "lost".to_owned().into();
    assert!(matches!(
        server.replace(&mixed),
        Err(CertificateError::Unreadable)
    ));
    mixed.certificate.clear();
    assert!(matches!(
        server.replace(&mixed),
        Err(CertificateError::Unreadable)
    ));
    assert!(server.post("").await.contains("200 OK"));
}

#[tokio::test]
async fn a_body_that_is_too_large_is_refused() {
    let server = Running::with_certificate(echo());
    let longest = server.post(&"x".repeat(MAX_BODY_BYTES)).await;
    assert!(longest.contains("200 OK"), "{longest}");
    let length = MAX_BODY_BYTES + 1;
    let head = format!("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n");
    let answer = server.send(head.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    let said = format!("\r\n\r\nthe body is longer than {MAX_BODY_BYTES} bytes\n");
    assert!(answer.ends_with(&said), "{answer}");
    // Without a content length.
    let mut chunked = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    for _ in 0..=MAX_BODY_BYTES >> 16 {
        chunked.extend(b"10000\r\n");
        chunked.extend(std::iter::repeat_n(b'x', 0x10000));
        chunked.extend(b"\r\n");
    }
    let answer = server.send(&chunked).await;
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn large_bodies_are_read_one_at_a_time_beside_small_ones() {
    let (bytes, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let go = Arc::new(Semaphore::new(0));
    let blocking: Handler = {
        let (bytes, most, go) = (Arc::clone(&bytes), Arc::clone(&most), Arc::clone(&go));
        Arc::new(move |request: Request<Bytes>| {
            let (bytes, go) = (Arc::clone(&bytes), Arc::clone(&go));
            let length = request.body().len();
            let now = bytes.fetch_add(length, Ordering::Relaxed) + length;
            most.fetch_max(now, Ordering::Relaxed);
            async move {
                go.acquire().await.unwrap().forget();
                bytes.fetch_sub(length, Ordering::Relaxed);
                Response::new(Full::from("done"))
            }
            .boxed()
        })
    };
    let server = Running::with_certificate(blocking);
    let (long, short) = ("x".repeat(MAX_BODY_BYTES), "x".repeat(MAX_SMALL_BODY_BYTES));
    let bodies = [&long, &long, &long, &short, &short];
    let posts = futures::future::join_all(bodies.map(|body| server.post(body)));
    let release = async {
        while bytes.load(Ordering::Relaxed) < MAX_BODY_BYTES + 2 * MAX_SMALL_BODY_BYTES {
            tokio::task::yield_now().await;
        }
        // A concurrent read would have ended by now.
        for _ in 0..10_000 {
            tokio::task::yield_now().await;
        }
        go.add_permits(bodies.len());
    };
    let (answers, ()) = futures::join!(posts, release);
    for answer in answers {
        assert!(answer.ends_with("done"), "{answer}");
    }
    assert_eq!(
        most.load(Ordering::Relaxed),
        MAX_BODY_BYTES + 2 * MAX_SMALL_BODY_BYTES
    );
}

#[test]
fn a_body_in_single_bytes_takes_no_more_memory() {
    let mut chunked =
        b"POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
            .to_vec();
    chunked.extend(b"1\r\nx\r\n".repeat(MAX_SMALL_BODY_BYTES / 2));
    chunked.extend(b"0\r\n\r\n");
    let counted = allocation_counter::measure(|| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(async {
            let server = Running::with_certificate(echo());
            let answer = server.send(&chunked).await;
            assert!(
                answer.ends_with(&format!("/ {}", MAX_SMALL_BODY_BYTES / 2)),
                "{answer}"
            );
        });
    });
    assert!(counted.bytes_max < 2 << 20, "{} bytes", counted.bytes_max);
}

#[tokio::test]
async fn garbage_does_not_affect_other_clients() {
    let server = Running::with_certificate(echo());
    for bytes in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        b"\x16\x03\x01\xff\xff",
        b"\0",
    ] {
        server.open().write_all(bytes).await.unwrap();
    }
    for bytes in [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], b"\0\r\n\r\n"] {
        let _ = server.send(bytes).await;
    }
    let long = format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(1 << 16));
    assert!(!server.send(long.as_bytes()).await.contains("200 OK"));
    assert!(server.post("").await.contains("200 OK"));
}

#[tokio::test(start_paused = true)]
async fn slow_clients_are_disconnected() {
    let server = Running::with_certificate(echo());
    let mut slow = Vec::new();
    for _ in 0..MAX_CONNECTIONS + 10 {
        let mut stream = server.open();
        stream.write_all(b"\x16\x03\x01").await.unwrap();
        slow.push(stream);
    }
    assert!(server.post("").await.contains("200 OK"));
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_arrive_times_out() {
    let server = Running::with_certificate(echo());
    let head = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc";
    let answer = server.send(head.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_does_not_answer_times_out() {
    let never: Handler = Arc::new(|_| std::future::pending().boxed());
    let server = Running::with_certificate(never);
    let answer = server.post("").await;
    assert!(answer.starts_with("HTTP/1.1 504 "), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn shutdown_waits_for_responses() {
    let late: Handler = Arc::new(|_| {
        async {
            sleep(SHUTDOWN_GRACE / 2).await;
            Response::new(Full::from("late"))
        }
        .boxed()
    });
    let server = Running::with_certificate(late);
    let mut stream = server.connect(b"http/1.1").await.unwrap();
    stream
        .write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        .await
        .unwrap();
    // Until the request is in flight.
    sleep(SHUTDOWN_GRACE / 4).await;
    server.token.cancel();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.ends_with("late"), "{answer}");
    server.task.await.unwrap();
}

#[tokio::test]
async fn a_socket_is_served_and_released() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let authority = issued(Usage::Ca, None);
    let pair = issued(Usage::Server, Some(&authority));
    let certificate = Certificate::fallback().unwrap();
    certificate
        .replace(pair.certificate.as_bytes(), pair.key.as_bytes())
        .unwrap();
    let token = CancellationToken::new();
    let task = tokio::spawn(serve(listener, certificate, echo(), token.clone()));

    let stream = TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from(NAME).unwrap();
    let connector = trusting(&authority, b"http/1.1");
    let mut stream = connector.connect(name, stream).await.unwrap();
    let request = b"GET /socket HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    stream.write_all(request).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.ends_with("/socket 0"), "{answer}");

    token.cancel();
    task.await.unwrap();
    assert!(TcpStream::connect(address).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn connections_have_a_maximum_age() {
    let server = Running::with_certificate(echo());
    let mut stream = server.connect(b"http/1.1").await.unwrap();
    let begun = tokio::time::Instant::now();
    let mut answer = [0; 1024];
    let request = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    while stream.write_all(request).await.is_ok()
        && stream
            .read(&mut answer)
            .await
            .is_ok_and(|length| length > 0)
    {
        sleep(READ_TIMEOUT / 2).await;
    }
    let lasted = begun.elapsed();
    assert!(
        lasted >= MAX_CONNECTION_AGE && lasted <= MAX_CONNECTION_AGE + READ_TIMEOUT,
        "{lasted:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn silent_clients_do_not_delay_shutdown() {
    let server = Running::with_certificate(echo());
    let _silent = server.open();
    let _idle = server.connect(b"http/1.1").await.unwrap();
    let cancelled = tokio::time::Instant::now();
    server.token.cancel();
    server.task.await.unwrap();
    assert!(cancelled.elapsed() <= SHUTDOWN_GRACE);
}
