//! Webhooks that do not answer as they should. Where one works it refuses everything here; so whatever
//! is let in was let in because the webhook was passed over, as its failure policy says.

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
    ground::{Ground, Kind, NAMESPACE, Replica, SERVICE, configuration, configuration_path, until},
    stories::{ground::Ground as Place, own_definitions},
};

const MACHINES: &str = "/apis/vitistack.io/v1alpha1/namespaces/default/machines";

/// A cluster in real time.
async fn begin() -> Ground {
    let setup = Setup {
        speed: Speed::Instant,
        start: Timestamp::now(),
        nodes: 0,
        definitions: own_definitions(),
        ..Setup::seeded(1)
    };
    let ground = Ground::of(Place::Sandbox(Cluster::start(setup, None).await.unwrap())).await;
    let mut configuration = configuration();
    for webhook in configuration["webhooks"].as_array_mut().unwrap() {
        // The least there is: some of these are waited for.
        webhook["timeoutSeconds"] = 1.into();
    }
    ground.apply(configuration).await;
    ground
}

/// Refuses everything.
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

/// Answers every question with this.
fn saying(status: StatusCode, body: &'static str) -> Handler {
    Arc::new(move |_| {
        let mut answer = Response::new(Full::from(body));
        *answer.status_mut() = status;
        let json = http::HeaderValue::from_static("application/json");
        answer.headers_mut().insert("content-type", json);
        Box::pin(std::future::ready(answer))
    })
}

/// Serves the webhook of a cluster until the token is dropped.
async fn serve(ground: &Ground, certificate: Certificate, handler: Handler) -> Served {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    locate(ground, listener.local_addr().unwrap());
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

fn locate(ground: &Ground, address: SocketAddr) {
    let server = ground.cluster.server();
    server.locate_service(NAMESPACE, SERVICE, address);
}

async fn send(ground: &Ground, method: &str, path: &str, body: Value) -> Result<(), String> {
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
    let answer = ground.client.request::<Value>(request).await;
    answer.map(drop).map_err(|error| error.to_string())
}

async fn create(ground: &Ground) -> Result<(), String> {
    let machine = json!({
        "apiVersion": "vitistack.io/v1alpha1", "kind": "Machine",
        "metadata": { "name": "web" }, "spec": { "template": "small" },
    });
    send(ground, "POST", MACHINES, machine).await
}

/// The webhook is asked, and what it says counts.
async fn works(ground: &Ground) {
    let refused = create(ground).await.unwrap_err();
    assert!(refused.contains("refused by the webhook"), "{refused}");
}

/// Whatever is wrong with the webhook, Machines are created, changed and deleted.
async fn is_passed_over(ground: &Ground, why: &str) {
    let of = |step: &'static str| move |error| panic!("{why}: {step}: {error}");
    create(ground).await.unwrap_or_else(of("create"));
    let path = format!("{MACHINES}/web");
    let change = json!({ "spec": { "powerState": "Stopped" } });
    let changed = send(ground, "PATCH", &path, change).await;
    changed.unwrap_or_else(of("change"));
    let deleted = send(ground, "DELETE", &path, json!({})).await;
    deleted.unwrap_or_else(of("delete"));
}

/// A replica whose certificate is trusted by its own clock.
async fn ready(ground: &Ground, ahead: SignedDuration) -> Replica {
    let replica = ground.replica(Kind {
        ahead,
        ..Kind::default()
    });
    until("readiness", async || replica.probe() == "[+]webhook ok").await;
    replica
}

/// A certificate for the webhook that is valid for these minutes from now, whose CA is in the bundle.
async fn certified(ground: &Ground, minutes: [i64; 2]) -> Certificate {
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
    trust(ground, &authority.certificate).await;
    let certificate = Certificate::fallback().unwrap();
    let (chain, key) = (server.certificate.as_bytes(), server.key.as_bytes());
    certificate.replace(chain, key).unwrap();
    certificate
}

/// Puts a bundle into the configuration.
async fn trust(ground: &Ground, bundle: &str) {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    let mut webhooks = ground.configured().await.unwrap()["webhooks"].clone();
    for webhook in webhooks.as_array_mut().unwrap() {
        webhook["clientConfig"]["caBundle"] = STANDARD.encode(bundle).into();
    }
    let change = json!({ "webhooks": webhooks });
    ground.merge(&configuration_path(), &change).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_operator_serves_is_trusted_whoever_replaces_it() {
    let ground = begin().await;
    let replica = ready(&ground, SignedDuration::ZERO).await;
    let _served = serve(&ground, replica.certificate.clone(), refusing()).await;
    works(&ground).await;
    for secret in [crate::ground::CERTS, crate::ground::CA] {
        ground.delete(&crate::ground::secret_path(secret)).await;
        until("another Secret", async || {
            ground.secret(secret).await.is_some()
        })
        .await;
        ground.until_trusted().await;
        until("its use", async || {
            create(&ground)
                .await
                .unwrap_err()
                .contains("refused by the webhook")
        })
        .await;
    }
    // Somebody empties the bundle, and it is put back.
    trust(&ground, "").await;
    ground.until_trusted().await;
    works(&ground).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_that_is_not_there_is_passed_over() {
    let ground = begin().await;
    is_passed_over(&ground, "no bundle yet").await;
    let replica = ready(&ground, SignedDuration::ZERO).await;
    is_passed_over(&ground, "no pod behind the Service").await;
    let served = serve(&ground, replica.certificate.clone(), refusing()).await;
    works(&ground).await;
    drop(served);
    until("its end", async || create(&ground).await.is_ok()).await;
    let deleted = send(&ground, "DELETE", &format!("{MACHINES}/web"), json!({})).await;
    deleted.unwrap();
    is_passed_over(&ground, "nobody listens").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_that_is_not_to_be_trusted_is_passed_over() {
    let ground = begin().await;
    let good = certified(&ground, [-60, 60]).await;
    let served = serve(&ground, good.clone(), refusing()).await;
    works(&ground).await;
    trust(&ground, "nothing").await;
    is_passed_over(&ground, "a bundle that cannot be read").await;
    drop(served);
    for (why, minutes) in [("expired", [-60, -1]), ("not valid yet", [10, 60])] {
        let certificate = certified(&ground, minutes).await;
        let _served = serve(&ground, certificate, refusing()).await;
        is_passed_over(&ground, why).await;
    }
    // The bundle is that of the last certificate, and the first is served.
    let _served = serve(&ground, good, refusing()).await;
    is_passed_over(&ground, "another CA").await;
    let fallback = Certificate::fallback().unwrap();
    let _served = serve(&ground, fallback, refusing()).await;
    is_passed_over(&ground, "the fallback").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clocks_may_differ_by_minutes_and_if_they_differ_by_more_nothing_is_stuck() {
    for (minutes, is_trusted) in [(4, true), (-4, true), (-60, true), (60, false)] {
        let ground = begin().await;
        let replica = ready(&ground, SignedDuration::from_mins(minutes)).await;
        let _served = serve(&ground, replica.certificate.clone(), refusing()).await;
        if is_trusted {
            works(&ground).await;
        } else {
            is_passed_over(&ground, "an operator whose clock is ahead").await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_makes_no_sense_is_passed_over() {
    let ground = begin().await;
    let certificate = certified(&ground, [-60, 60]).await;
    let review = r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}"#;
    let another = r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":"another","allowed":false}}"#;
    for (why, status, body) in [
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
        let _served = serve(&ground, certificate.clone(), saying(status, body)).await;
        is_passed_over(&ground, why).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_speaks_no_tls_or_not_at_all_is_passed_over() {
    let ground = begin().await;
    certified(&ground, [-60, 60]).await;
    for (why, said, is_open) in [
        ("hangs up", &b""[..], false),
        ("speaks something else", b"SSH-2.0-OpenSSH\r\n", false),
        ("says nothing", b"", true),
    ] {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        locate(&ground, listener.local_addr().unwrap());
        let listening = tokio::spawn(async move {
            let mut open = Vec::new();
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let _ = stream.write_all(said).await;
                open.extend(is_open.then_some(stream));
            }
        });
        let begun = tokio::time::Instant::now();
        is_passed_over(&ground, why).await;
        assert!(begun.elapsed() < Duration::from_secs(30), "{why}");
        listening.abort();
    }
}
