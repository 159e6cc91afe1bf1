//! Certificates that somebody else sees to, such as cert-manager.

use std::time::Duration;

use jiff::SignedDuration;
use kubevirt_operator::webhook_certificate::Certificates;
use runtime::certificates::{Authority, KeyPair, Request, Usage, issue};
use serde_json::{Value, json};

use crate::ground::{
    CA, CERTS, Ground, HOUR, Kind, NAMESPACE, SERVICE, configuration, secret_path, tell_of_days,
    until,
};

fn made(ground: &Ground, days: i64) -> KeyPair {
    let request = |usage| Request {
        common_name: format!("{usage:?}"),
        dns_names: vec![format!("{SERVICE}.{NAMESPACE}.svc")],
        usage,
        not_before: ground.now() - SignedDuration::from_mins(1),
        not_after: ground.now() + SignedDuration::from_hours(24 * days),
    };
    let authority = issue(&request(Usage::Ca), None).unwrap();
    let authority = Authority {
        certificate: authority.certificate.as_bytes(),
        key: authority.key.as_bytes(),
    };
    issue(&request(Usage::Server), Some(authority)).unwrap()
}

fn secret(pair: &KeyPair) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
        "metadata": { "name": CERTS, "namespace": NAMESPACE },
        "stringData": { "tls.crt": pair.certificate, "tls.key": pair.key.as_str() },
    })
}

#[test]
fn only_the_secret_is_read_and_nothing_is_written() {
    tell_of_days(async {
        let ground = Ground::begin().await;
        let replica = ground.replica(Kind {
            certificates: Certificates::External,
            ..Kind::default()
        });
        let missing = format!("[-]webhook failed: there is no Secret {CERTS} yet");
        until("the probe to tell", async || replica.probe() == missing).await;
        ground.apply(secret(&made(&ground, 10))).await;
        until("readiness", async || replica.probe() == "[+]webhook ok").await;

        // What cannot be used does not take the place of what can.
        let spoilt = json!({ "data": { "tls.crt": "bm90aGluZw==" } });
        ground.merge(&secret_path(CERTS), &spoilt).await;
        ground.wait(HOUR).await;
        assert_eq!(replica.probe(), "[+]webhook ok");

        // It is told at the very time, and what comes next is served at once.
        ground.leap(9).await;
        ground.wait(HOUR * 21 + Duration::from_secs(59 * 60)).await;
        assert_eq!(replica.probe(), "[+]webhook ok");
        ground.wait(Duration::from_secs(61)).await;
        let expired = format!("[-]webhook failed: the certificate in Secret {CERTS} has expired");
        assert_eq!(replica.probe(), expired);
        ground.apply(secret(&made(&ground, 30))).await;
        until("readiness", async || replica.probe() == "[+]webhook ok").await;

        assert_eq!(replica.asked(), [("list secrets 200".to_owned(), 1)].into());
        assert!(ground.secret(CA).await.is_none());
        let webhooks = ground.configured().await.unwrap()["webhooks"].clone();
        for (webhook, installed) in webhooks
            .as_array()
            .unwrap()
            .iter()
            .zip(configuration()["webhooks"].as_array().unwrap())
        {
            assert!(webhook["clientConfig"].get("caBundle").is_none());
            assert_eq!(webhook["name"], installed["name"]);
        }
    });
}
