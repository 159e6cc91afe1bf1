//! The admission webhook of the process.

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    time::{Duration, Instant},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{Request, StatusCode};
use kube::{Client, Config};
use serde_json::{Value, json};

use crate::{
    cluster::{ApiEndpoint, NAMESPACE, ProcessCluster, RecordedRequest, until},
    program::Program,
};

const SETTINGS: [(&str, &str); 2] = [
    ("LEADER_ELECTION", "false"),
    ("WEBHOOK_BIND_ADDRESS", "127.0.0.1:0"),
];
const CERTS: &str = "kubevirt-operator-webhook-certs";
const HOST: &str = "kubevirt-operator-webhook.kubevirt-operator-system.svc";

/// Waits until the process reports that its webhook is ready.
async fn ready(program: &Program) -> SocketAddr {
    until("readiness", async || {
        let page = program.probe("/readyz").await;
        page.code == 200 && page.body.contains("[+]webhook ok")
    })
    .await;
    program.serving("the webhook").await
}

/// HTTPS client that trusts only the CA bundle of the configuration.
async fn client(cluster: &ProcessCluster, address: SocketAddr) -> Client {
    let mut bundle = String::new();
    until("the bundle", async || {
        let configurations = cluster
            .objects(
                "admissionregistration.k8s.io",
                "ValidatingWebhookConfiguration",
            )
            .await;
        let own = configurations
            .iter()
            .find(|found| found["metadata"]["name"] == "kubevirt-operator");
        let text = own.and_then(|found| found["webhooks"][0]["clientConfig"]["caBundle"].as_str());
        text.unwrap_or_default().clone_into(&mut bundle);
        !bundle.is_empty()
    })
    .await;
    let bundle = String::from_utf8(STANDARD.decode(bundle).unwrap()).unwrap();
    let lines = bundle.lines().filter(|line| !line.starts_with("-----"));
    let der = STANDARD.decode(lines.collect::<String>()).unwrap();
    let mut config = Config::new(format!("https://{address}").parse().unwrap());
    config.root_cert = Some(vec![der]);
    config.tls_server_name = Some(HOST.to_owned());
    Client::try_from(config).unwrap()
}

async fn post(client: &Client, path: &str, body: Vec<u8>) -> kube::Result<StatusCode> {
    let request = Request::post(path).header("content-type", "application/json");
    let request = request.body(kube::client::Body::from(body)).unwrap();
    let answer = client.send(request).await?;
    Ok(answer.status())
}

fn review() -> Value {
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "1", "operation": "CREATE", "namespace": "default", "name": "web",
            "userInfo": { "username": "somebody" },
            "object": {
                "apiVersion": "vitistack.io/v1alpha1", "kind": "Machine",
                "metadata": { "name": "web", "namespace": "default" },
                "spec": { "template": "small" },
            },
        },
    })
}

/// Sends an admission review, as an API server does.
async fn send_review(client: &Client) -> Value {
    let request = Request::post("/validate/machines")
        .header("content-type", "application/json")
        .body(serde_json::to_vec(&review()).unwrap())
        .unwrap();
    client.request(request).await.unwrap()
}

async fn start(cluster: &ProcessCluster) -> (ApiEndpoint, Program) {
    cluster.install_webhook().await;
    let endpoint = cluster.endpoint("endpoint").await;
    let program = Program::start(&endpoint, &SETTINGS);
    (endpoint, program)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_webhook_survives_malformed_requests() {
    let cluster = ProcessCluster::start().await;
    let (_door, program) = start(&cluster).await;
    let address = ready(&program).await;
    let client = client(&cluster, address).await;
    let answer = send_review(&client).await;
    assert_eq!(answer["response"]["uid"], "1");
    assert_eq!(answer["response"]["allowed"], true);

    // A connection without any request stays open to the end of the test.
    let mut silent = TcpStream::connect(address).unwrap();
    silent.write_all(b"\x16\x03\x01").unwrap();
    let machines = "/validate/machines";
    let truncated = &review().to_string()[..100];
    // A client that does not read while it sends may miss the response.
    if let Ok(status) = post(&client, machines, vec![b'x'; 10 << 20]).await {
        assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE);
    }
    for (path, body, status) in [
        (machines, truncated.into(), StatusCode::BAD_REQUEST),
        (
            machines,
            b"\0\xff garbage".to_vec(),
            StatusCode::BAD_REQUEST,
        ),
        (machines, b"{}".to_vec(), StatusCode::BAD_REQUEST),
        (machines, b"[]".to_vec(), StatusCode::BAD_REQUEST),
        (machines, Vec::new(), StatusCode::BAD_REQUEST),
        (
            "/validate/nothing",
            review().to_string().into(),
            StatusCode::NOT_FOUND,
        ),
        ("/", review().to_string().into(), StatusCode::NOT_FOUND),
    ] {
        assert_eq!(post(&client, path, body).await.unwrap(), status, "{path}");
    }
    let get = Request::get(machines)
        .body(kube::client::Body::empty())
        .unwrap();
    let answer = client.send(get).await.unwrap();
    assert_eq!(answer.status(), StatusCode::METHOD_NOT_ALLOWED);
    for bytes in [&b"GET / HTTP/1.1\r\n\r\n"[..], b"\0\0\0\0"] {
        let mut stream = TcpStream::connect(address).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        stream.write_all(bytes).unwrap();
        // The server closes the connection.
        let _ = stream.read_to_end(&mut Vec::new());
    }
    assert_eq!(send_review(&client).await["response"]["allowed"], true);
    // The operator works as before.
    cluster
        .create_machine("one", json!({ "template": "small" }))
        .await;
    cluster.until_running("one").await;
    assert_eq!(program.probe("/readyz").await.code, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn machines_are_created_and_deleted_while_the_webhook_is_down() {
    let cluster = ProcessCluster::start().await;
    let (_door, program) = start(&cluster).await;
    let address = ready(&program).await;
    cluster.locate_webhook(address);
    cluster
        .create_machine("one", json!({ "template": "small" }))
        .await;
    cluster.until_running("one").await;
    // Nothing listens on port 1 of this machine.
    cluster.locate_webhook(([127, 0, 0, 1], 1).into());
    cluster
        .create_machine("two", json!({ "template": "small" }))
        .await;
    cluster.until_running("two").await;
    for machine in ["one", "two"] {
        cluster.delete_machine(machine).await;
    }
    until("their end", async || {
        cluster.objects("vitistack.io", "Machine").await.is_empty()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_foreign_secret_does_not_block_the_operator() {
    let cluster = ProcessCluster::start().await;
    cluster
        .apply(json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": { "name": CERTS, "namespace": NAMESPACE }, "data": {},
        }))
        .await;
    let (_door, program) = start(&cluster).await;
    cluster
        .create_machine("one", json!({ "template": "small" }))
        .await;
    cluster.until_running("one").await;
    until("the probe to report it", async || {
        let page = program.probe("/readyz").await;
        page.code == 500 && page.body.contains("[-]webhook failed: Secret")
    })
    .await;
    assert_eq!(program.probe("/healthz").await.code, 200);
    let lines = program.lines();
    let reports = lines
        .iter()
        .filter(|line| line.contains("so the operator does not change it"));
    assert_eq!(reports.count(), 1, "{lines:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_writes_nothing_and_logs_no_key() {
    let cluster = ProcessCluster::start().await;
    let (_door, program) = start(&cluster).await;
    ready(&program).await;
    let metrics = program.metrics().await;
    let series =
        format!("kubevirt_operator_certificate_expiry_timestamp_seconds{{secret=\"{CERTS}\"}}");
    assert!(metrics.contains(&series), "{metrics}");
    program.signal("TERM");
    let (status, lines) = program.wait_for_exit().await;
    assert!(status.success());
    assert!(
        lines.iter().all(|line| !line.contains("PRIVATE KEY")),
        "{lines:#?}"
    );

    let endpoint = cluster.endpoint("again").await;
    let program = Program::start(&endpoint, &SETTINGS);
    ready(&program).await;
    assert!(endpoint.writes().is_empty(), "{:?}", endpoint.writes());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standby_replica_serves_the_webhook() {
    let cluster = ProcessCluster::start().await;
    cluster.install_webhook().await;
    let (one, other) = (
        cluster.endpoint("one").await,
        cluster.endpoint("other").await,
    );
    let settings = [SETTINGS[1]];
    let leader = Program::start(&one, &settings);
    ready(&leader).await;
    let standby = Program::start(&other, &settings);
    let address = ready(&standby).await;
    let client = client(&cluster, address).await;
    let known = format!("certificate_expiry_timestamp_seconds{{secret=\"{CERTS}\"}}");
    until("the certificate", async || {
        standby.metrics().await.contains(&known)
    })
    .await;
    assert_eq!(send_review(&client).await["response"]["uid"], "1");
    assert!(other.writes().is_empty(), "{:?}", other.writes());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_terminating_replica_still_answers_admission_reviews() {
    let cluster = ProcessCluster::start().await;
    let (_door, program) = start(&cluster).await;
    let address = ready(&program).await;
    let trusting = client(&cluster, address).await;
    let signalled = Instant::now();
    program.signal("TERM");
    until("the end to begin", async || {
        program
            .lines()
            .iter()
            .any(|line| line.contains("Shutting down"))
    })
    .await;
    assert_eq!(send_review(&trusting).await["response"]["allowed"], true);
    let (status, lines) = program.wait_for_exit().await;
    assert!(status.success(), "{lines:#?}");
    assert!(signalled.elapsed() < Duration::from_secs(5));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rollout_that_enables_the_webhook_completes() {
    let cluster = ProcessCluster::start().await;
    cluster.install_webhook().await;
    let endpoint = cluster.endpoint("before").await;
    let before = Program::start(&endpoint, &[]);
    until("a leader", async || cluster.holder().await.is_some()).await;
    let endpoint = cluster.endpoint("after").await;
    let after = Program::start(&endpoint, &SETTINGS[1..]);
    ready(&after).await;
    assert!(
        endpoint
            .writes()
            .iter()
            .all(RecordedRequest::is_lease_request)
    );
    before.signal("TERM");
    let (status, _) = before.wait_for_exit().await;
    assert!(status.success());
    let address = after.serving("the webhook").await;
    let trusting = client(&cluster, address).await;
    // The CA bundle is written before the certificate that its CA signs.
    until("a certificate that can be trusted", async || {
        let body = serde_json::to_vec(&review()).unwrap();
        let answer = post(&trusting, "/validate/machines", body).await;
        answer.is_ok_and(|status| status == StatusCode::OK)
    })
    .await;
    assert_eq!(send_review(&trusting).await["response"]["allowed"], true);
}
