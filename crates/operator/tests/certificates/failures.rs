//! Failing webhooks. The webhook of these tests refuses everything, so a write succeeds only if the
//! failure policy ignores the webhook.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use jiff::{SignedDuration, Timestamp};
use runtime::{
    certificates::{Authority, KeyPair, Usage, issue},
    tls::{self, Certificate, Handler},
};
use sandbox::{Cluster, Setup, Speed};
use serde_json::{Value, json};
use tokio::{io::AsyncWriteExt as _, net::TcpListener};
use tokio_util::sync::CancellationToken;

use crate::{
    harness::{cluster::TestCluster, own_definitions},
    scenario::{
        CertificateScenario, NAMESPACE, Replica, ReplicaOptions, SERVICE, configuration,
        configuration_path, until,
    },
};

const MACHINES: &str = "/apis/vitistack.io/v1alpha1/namespaces/default/machines";

/// Starts a cluster in real time.
async fn start() -> CertificateScenario {
    let setup = Setup {
        speed: Speed::Instant,
        start: Timestamp::now(),
        nodes: 0,
        definitions: own_definitions(),
        ..Setup::seeded(1)
    };
    let scenario = CertificateScenario::on_cluster(TestCluster::Sandbox(
        Cluster::start(setup, None).await.unwrap(),
    ))
    .await;
    let mut configuration = configuration();
    for webhook in configuration["webhooks"].as_array_mut().unwrap() {
        // The minimum, as some tests wait for the timeout.
        webhook["timeoutSeconds"] = 1.into();
    }
    scenario.apply(configuration).await;
    scenario
}

/// Handler that refuses everything.
fn refusing() -> Handler {
    Arc::new(|request: Request<Bytes>| {
        let review: Value = serde_json::from_slice(request.body()).unwrap();
        let answer = json!({
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
            "response": {
                "uid": review["request"]["uid"], "allowed": false,
                "status": { "code": 403, "message": "refused by the webhook" },
            },
        });
        let mut answer = Response::new(Full::from(answer.to_string()));
        let json = http::HeaderValue::from_static("application/json");
        answer.headers_mut().insert("content-type", json);
        Box::pin(std::future::ready(answer))
    })
}

/// Handler with a fixed response.
fn responding(status: StatusCode, body: &'static str) -> Handler {
    Arc::new(move |_| {
        let mut answer = Response::new(Full::from(body));
        *answer.status_mut() = status;
        let json = http::HeaderValue::from_static("application/json");
        answer.headers_mut().insert("content-type", json);
        Box::pin(std::future::ready(answer))
    })
}

/// Serves the webhook until the returned guard is dropped.
async fn serve(
    scenario: &CertificateScenario,
    certificate: Certificate,
    handler: Handler,
) -> Served {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    locate(scenario, listener.local_addr().unwrap());
    let token = CancellationToken::new();
    tokio::spawn(tls::serve(listener, certificate, handler, token.clone()));
    Served(token)
}

struct Served(CancellationToken);

impl Drop for Served {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

fn locate(scenario: &CertificateScenario, address: SocketAddr) {
    let server = scenario.cluster.server();
    server.locate_service(NAMESPACE, SERVICE, address);
}

async fn send(
    scenario: &CertificateScenario,
    method: &str,
    path: &str,
    body: Value,
) -> Result<(), String> {
    let media = if method == "PATCH" {
        "application/merge-patch+json"
    } else {
        "application/json"
    };
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", media)
        .body(serde_json::to_vec(&body).unwrap())
        .unwrap();
    let answer = scenario.client.request::<Value>(request).await;
    answer.map(drop).map_err(|error| error.to_string())
}

async fn create(scenario: &CertificateScenario) -> Result<(), String> {
    let machine = json!({
        "apiVersion": "vitistack.io/v1alpha1", "kind": "Machine",
        "metadata": { "name": "web" }, "spec": { "template": "small" },
    });
    send(scenario, "POST", MACHINES, machine).await
}

/// Asserts that the API server calls the webhook and honours its verdict.
async fn assert_called(scenario: &CertificateScenario) {
    let refused = create(scenario).await.unwrap_err();
    assert!(refused.contains("refused by the webhook"), "{refused}");
}

/// Asserts that Machines can be created, changed and deleted.
async fn assert_ignored(scenario: &CertificateScenario, reason: &str) {
    let of = |step: &'static str| move |error| panic!("{reason}: {step}: {error}");
    create(scenario).await.unwrap_or_else(of("create"));
    let path = format!("{MACHINES}/web");
    let change = json!({ "spec": { "powerState": "Stopped" } });
    let changed = send(scenario, "PATCH", &path, change).await;
    changed.unwrap_or_else(of("change"));
    let deleted = send(scenario, "DELETE", &path, json!({})).await;
    deleted.unwrap_or_else(of("delete"));
}

/// Starts a replica and waits until its certificate is valid by its own clock.
async fn ready(scenario: &CertificateScenario, ahead: SignedDuration) -> Replica {
    let replica = scenario.replica(ReplicaOptions {
        ahead,
        ..ReplicaOptions::default()
    });
    until("readiness", async || replica.probe() == "[+]webhook ok").await;
    replica
}

/// Certificate of the webhook, valid for the given minutes from now. Its CA is in the bundle.
async fn certified(scenario: &CertificateScenario, minutes: [i64; 2]) -> Certificate {
    let now = Timestamp::now();
    let at = |minutes| now + SignedDuration::from_mins(minutes);
    let make = |usage, minutes: [i64; 2], authority: Option<&KeyPair>| {
        let request = runtime::certificates::Request {
            common_name: format!("{usage:?}"),
            dns_names: vec![format!("{SERVICE}.{NAMESPACE}.svc")],
            usage,
            not_before: at(minutes[0]),
            not_after: at(minutes[1]),
        };
        let authority = authority.map(|pair| Authority {
            certificate: pair.certificate.as_bytes(),
            key: pair.key.as_bytes(),
        });
        issue(&request, authority).unwrap()
    };
    let authority = make(Usage::Ca, [-600, 600], None);
    let server = make(Usage::Server, minutes, Some(&authority));
    trust(scenario, &authority.certificate).await;
    let certificate = Certificate::fallback().unwrap();
    let (chain, key) = (server.certificate.as_bytes(), server.key.as_bytes());
    certificate.replace(chain, key).unwrap();
    certificate
}

/// Writes a CA bundle into the webhook configuration.
async fn trust(scenario: &CertificateScenario, bundle: &str) {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    let mut webhooks = scenario.webhook_configuration().await.unwrap()["webhooks"].clone();
    for webhook in webhooks.as_array_mut().unwrap() {
        webhook["clientConfig"]["caBundle"] = STANDARD.encode(bundle).into();
    }
    let change = json!({ "webhooks": webhooks });
    scenario.merge(&configuration_path(), &change).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replaced_certificates_are_still_trusted() {
    let scenario = start().await;
    let replica = ready(&scenario, SignedDuration::ZERO).await;
    let _served = serve(&scenario, replica.certificate.clone(), refusing()).await;
    assert_called(&scenario).await;
    for secret in [crate::scenario::CERTS, crate::scenario::CA] {
        scenario.delete(&crate::scenario::secret_path(secret)).await;
        until("another Secret", async || {
            scenario.secret(secret).await.is_some()
        })
        .await;
        scenario.until_trusted().await;
        until("its use", async || {
            create(&scenario)
                .await
                .unwrap_err()
                .contains("refused by the webhook")
        })
        .await;
    }
    // An emptied bundle is repaired.
    trust(&scenario, "").await;
    scenario.until_trusted().await;
    assert_called(&scenario).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unreachable_webhook_is_ignored_by_the_failure_policy() {
    let scenario = start().await;
    assert_ignored(&scenario, "no bundle yet").await;
    let replica = ready(&scenario, SignedDuration::ZERO).await;
    assert_ignored(&scenario, "no pod behind the Service").await;
    let served = serve(&scenario, replica.certificate.clone(), refusing()).await;
    assert_called(&scenario).await;
    drop(served);
    until("its end", async || create(&scenario).await.is_ok()).await;
    let deleted = send(&scenario, "DELETE", &format!("{MACHINES}/web"), json!({})).await;
    deleted.unwrap();
    assert_ignored(&scenario, "nobody listens").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_untrusted_webhook_certificate_is_ignored_by_the_failure_policy() {
    let scenario = start().await;
    let good = certified(&scenario, [-60, 60]).await;
    let served = serve(&scenario, good.clone(), refusing()).await;
    assert_called(&scenario).await;
    trust(&scenario, "nothing").await;
    assert_ignored(&scenario, "a bundle that cannot be read").await;
    drop(served);
    for (reason, minutes) in [("expired", [-60, -1]), ("not valid yet", [10, 60])] {
        let certificate = certified(&scenario, minutes).await;
        let _served = serve(&scenario, certificate, refusing()).await;
        assert_ignored(&scenario, reason).await;
    }
    // The bundle belongs to the last certificate, but the first is served.
    let _served = serve(&scenario, good, refusing()).await;
    assert_ignored(&scenario, "another CA").await;
    let fallback = Certificate::fallback().unwrap();
    let _served = serve(&scenario, fallback, refusing()).await;
    assert_ignored(&scenario, "the fallback").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clock_skew_of_minutes_is_tolerated_and_larger_skew_blocks_nothing() {
    for (minutes, is_trusted) in [(4, true), (-4, true), (-60, true), (60, false)] {
        let scenario = start().await;
        let replica = ready(&scenario, SignedDuration::from_mins(minutes)).await;
        let _served = serve(&scenario, replica.certificate.clone(), refusing()).await;
        if is_trusted {
            assert_called(&scenario).await;
        } else {
            assert_ignored(&scenario, "an operator whose clock is ahead").await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_malformed_webhook_response_is_ignored_by_the_failure_policy() {
    let scenario = start().await;
    let certificate = certified(&scenario, [-60, 60]).await;
    let review = r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}"#;
    let another = r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":"another","allowed":false}}"#;
    for (reason, status, body) in [
        ("an error", StatusCode::INTERNAL_SERVER_ERROR, "broken"),
        ("a wrong path", StatusCode::NOT_FOUND, ""),
        ("too much", StatusCode::PAYLOAD_TOO_LARGE, ""),
        ("nothing", StatusCode::OK, ""),
        ("a page", StatusCode::OK, "<html></html>"),
        (
            "truncated JSON",
            StatusCode::OK,
            "{\"apiVersion\": \"admission.",
        ),
        ("no AdmissionReview", StatusCode::OK, "{}"),
        ("no answer in it", StatusCode::OK, review),
        ("the answer to another question", StatusCode::OK, another),
    ] {
        let _served = serve(&scenario, certificate.clone(), responding(status, body)).await;
        assert_ignored(&scenario, reason).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_without_tls_or_without_response_is_ignored_by_the_failure_policy() {
    let scenario = start().await;
    certified(&scenario, [-60, 60]).await;
    for (reason, response, is_open) in [
        ("hangs up", &b""[..], false),
        ("speaks something else", b"SSH-2.0-OpenSSH\r\n", false),
        ("says nothing", b"", true),
    ] {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        locate(&scenario, listener.local_addr().unwrap());
        let listening = tokio::spawn(async move {
            let mut open = Vec::new();
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let _ = stream.write_all(response).await;
                open.extend(is_open.then_some(stream));
            }
        });
        let begun = tokio::time::Instant::now();
        assert_ignored(&scenario, reason).await;
        assert!(begun.elapsed() < Duration::from_secs(30), "{reason}");
        listening.abort();
    }
}
