use std::net::Ipv4Addr;

use rstest::rstest;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    task::JoinHandle,
};

use super::*;

/// A server on the loopback interface.
struct Running {
    address: SocketAddr,
    token: CancellationToken,
    task: JoinHandle<()>,
}

impl Running {
    async fn start(pages: Pages) -> Self {
        let address = BindAddress::At((Ipv4Addr::LOCALHOST, 0).into());
        let server = Server::bind(address).await.unwrap().unwrap();
        let address = server.local_addr().unwrap();
        let token = CancellationToken::new();
        let task = tokio::spawn(server.serve(pages, token.clone()));
        Self {
            address,
            token,
            task,
        }
    }

    /// The response to these bytes, until the server closes the connection.
    async fn send(&self, bytes: &[u8]) -> String {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        // The server may close the connection before everything is sent.
        let _ = stream.write_all(bytes).await;
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        String::from_utf8(answer).unwrap()
    }

    async fn ask(&self, method: &str, path: &str) -> String {
        self.send(format!("{method} {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes())
            .await
    }
}

fn healthy() -> Health {
    let health = Health::new();
    health.api_answered();
    health.set_synced("machines", true);
    health
}

#[tokio::test]
async fn probes_answer_with_their_checks() {
    let known = healthy();
    let server = Running::start(health(known.clone())).await;
    let answer = server.ask("GET", "/healthz").await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.ends_with("\r\n\r\n[+]event-loop ok\nhealthz check passed\n"));

    let answer = server.ask("GET", "/readyz?verbose").await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.ends_with("\r\n\r\n[+]caches ok\n[+]api ok\nreadyz check passed\n"));

    known.set_synced("networkconfigurations", false);
    let answer = server.ask("GET", "/readyz").await;
    assert!(answer.starts_with("HTTP/1.1 500 "), "{answer}");
    assert!(answer.ends_with(
        "[-]caches failed: not synced: networkconfigurations\n[+]api ok\nreadyz check failed\n"
    ));
}

#[tokio::test]
async fn metrics_are_served_in_prometheus_format() {
    let server = Running::start(metrics(|| "up 1\n".to_owned())).await;
    let answer = server.ask("GET", "/metrics").await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.contains("content-type: text/plain; version=0.0.4; charset=utf-8\r\n"));
    assert!(answer.ends_with("\r\n\r\nup 1\n"), "{answer}");
}

#[rstest]
#[case("GET", "/", "404 Not Found")]
#[case("GET", "/metrics", "404 Not Found")]
#[case("GET", "/healthz/", "404 Not Found")]
#[case("POST", "/healthz", "405 Method Not Allowed")]
#[case("DELETE", "/readyz", "405 Method Not Allowed")]
#[tokio::test]
async fn nothing_else_is_served(#[case] method: &str, #[case] path: &str, #[case] expected: &str) {
    let server = Running::start(health(healthy())).await;
    let answer = server.ask(method, path).await;
    assert!(
        answer.starts_with(&format!("HTTP/1.1 {expected}\r\n")),
        "{answer}"
    );
}

#[tokio::test]
async fn head_is_get_without_the_body() {
    let server = Running::start(health(healthy())).await;
    let answer = server.ask("HEAD", "/healthz").await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.contains("content-length: 38\r\n"), "{answer}");
    assert!(answer.ends_with("\r\n\r\n"), "{answer}");
}

#[tokio::test]
async fn a_head_that_is_too_long_is_refused() {
    let server = Running::start(health(healthy())).await;
    let request = format!(
        "GET /healthz HTTP/1.1\r\nX: {}\r\n\r\n",
        "x".repeat(2 * MAX_HEAD_BYTES)
    );
    let answer = server.send(request.as_bytes()).await;
    assert!(!answer.contains("200 OK"), "{answer}");
    assert!(server.ask("GET", "/healthz").await.contains("200 OK"));
}

#[tokio::test]
async fn garbage_does_not_affect_other_clients() {
    let server = Running::start(health(healthy())).await;
    for bytes in [
        &b"\x16\x03\x01\x02\x00\x01"[..],
        b"\r\n\r\n",
        b"GET\0/ HTTP/9\r\n\r\n",
    ] {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(bytes).await.unwrap();
    }
    assert!(server.ask("GET", "/healthz").await.contains("200 OK"));
}

#[tokio::test(start_paused = true)]
async fn slow_clients_are_disconnected() {
    let server = Running::start(health(healthy())).await;
    let mut slow = Vec::new();
    for _ in 0..MAX_CONNECTIONS + 10 {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(b"GET /healthz HT").await.unwrap();
        slow.push(stream);
    }
    assert!(server.ask("GET", "/healthz").await.contains("200 OK"));
}

#[tokio::test]
async fn shutdown_waits_for_responses_and_frees_the_port() {
    let server = Running::start(health(healthy())).await;
    assert!(server.ask("GET", "/healthz").await.contains("200 OK"));
    server.token.cancel();
    server.task.await.unwrap();
    assert!(TcpStream::connect(server.address).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn silent_clients_do_not_delay_shutdown() {
    let server = Running::start(health(healthy())).await;
    let mut silent = TcpStream::connect(server.address).await.unwrap();
    silent.write_all(b"GET /he").await.unwrap();
    assert!(server.ask("GET", "/healthz").await.contains("200 OK"));
    let cancelled = tokio::time::Instant::now();
    server.token.cancel();
    server.task.await.unwrap();
    assert!(cancelled.elapsed() <= SHUTDOWN_GRACE);
}

#[tokio::test]
async fn an_address_in_use_is_named() {
    let server = Running::start(health(healthy())).await;
    let error = Server::bind(BindAddress::At(server.address))
        .await
        .unwrap_err();
    let expected = format!("cannot listen on {}: ", server.address);
    assert!(error.to_string().starts_with(&expected), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_control_loop_without_heartbeats_is_not_alive() {
    let health = Health::new();
    tokio::time::advance(Duration::from_secs(59)).await;
    assert!(health.alive().passed());
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(
        health.alive().to_string(),
        "[-]event-loop failed: no heartbeat for 60s\nhealthz check failed\n"
    );
    health.heartbeat();
    assert!(health.alive().passed());
}

#[tokio::test(start_paused = true)]
async fn a_process_is_ready_once_its_caches_are_synced_and_the_api_answered() {
    let health = Health::new();
    assert_eq!(
        health.ready().to_string(),
        "[-]caches failed: not started\n[-]api failed: no answer yet\nreadyz check failed\n"
    );
    health.set_synced("machines", false);
    health.set_synced("virtualmachines", false);
    health.api_answered();
    assert!(
        health
            .ready()
            .to_string()
            .contains("not synced: machines, virtualmachines\n")
    );
    health.set_synced("machines", true);
    assert!(!health.ready().passed());
    health.forget("virtualmachines");
    assert!(health.ready().passed());
}

#[tokio::test(start_paused = true)]
async fn a_standby_replica_is_ready_without_caches() {
    let health = Health::new();
    health.set_standby(true);
    assert!(!health.ready().passed());
    health.api_answered();
    assert!(health.ready().passed());
    health.set_standby(false);
    assert!(!health.ready().passed());
}

#[tokio::test(start_paused = true)]
async fn a_process_is_unready_while_the_api_server_does_not_answer() {
    let health = healthy();
    tokio::time::advance(Duration::from_secs(3600)).await;
    assert!(health.ready().passed(), "no call was made");

    health.api_answered();
    health.api_failed("connection\nrefused");
    tokio::time::advance(Duration::from_secs(29)).await;
    assert!(health.ready().passed());
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(
        health.ready().to_string(),
        "[+]caches ok\n[-]api failed: no answer for 30s: connection refused\nreadyz check failed\n"
    );
    health.heartbeat();
    assert!(health.alive().passed(), "a restart would not help");
    health.api_answered();
    assert!(health.ready().passed());
}

#[rstest]
#[case("", Ok(BindAddress::Off))]
#[case("0", Ok(BindAddress::Off))]
#[case(":8080", Ok(BindAddress::Everywhere(8080)))]
#[case(":0", Ok(BindAddress::Everywhere(0)))]
#[case("0.0.0.0:8080", Ok(BindAddress::At(([0, 0, 0, 0], 8080).into())))]
#[case("127.0.0.1:0", Ok(BindAddress::At(([127, 0, 0, 1], 0).into())))]
#[case("[::1]:8080", Ok(BindAddress::At(([0u16, 0, 0, 0, 0, 0, 0, 1], 8080).into())))]
#[case(":", Err(BindAddressError))]
#[case(":+80", Err(BindAddressError))]
#[case(":65536", Err(BindAddressError))]
#[case("8080", Err(BindAddressError))]
#[case("::1:8080", Err(BindAddressError))]
#[case("localhost", Err(BindAddressError))]
fn bind_addresses_parse(
    #[case] text: &str,
    #[case] expected: Result<BindAddress, BindAddressError>,
) {
    let read: Result<BindAddress, _> = text.parse();
    assert_eq!(read, expected);
    if let Ok(address) = read {
        assert_eq!(address.to_string().parse(), Ok(address));
    }
}
