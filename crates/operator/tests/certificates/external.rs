//! Certificates that another controller manages, such as cert-manager.

use std::time::Duration;

use jiff::SignedDuration;
use kubevirt_operator::webhook_certificate::Certificates;
use runtime::certificates::{Authority, KeyPair, Request, Usage, issue};
use serde_json::{Value, json};

use crate::scenario::{
    CA, CERTS, CertificateScenario, HOUR, NAMESPACE, ReplicaOptions, SERVICE, configuration,
    run_scenario_over_days, secret_path, until,
};

fn certificate(scenario: &CertificateScenario, days: i64) -> KeyPair {
    let request = |usage| Request {
        common_name: format!("{usage:?}"),
        dns_names: vec![format!("{SERVICE}.{NAMESPACE}.svc")],
        usage,
        not_before: scenario.now() - SignedDuration::from_mins(1),
        not_after: scenario.now() + SignedDuration::from_hours(24 * days),
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
fn an_external_certificate_is_read_from_its_secret_and_nothing_is_written() {
    run_scenario_over_days(async {
        let scenario = CertificateScenario::start().await;
        let replica = scenario.replica(ReplicaOptions {
            certificates: Certificates::External,
            ..ReplicaOptions::default()
        });
        let missing = format!("[-]webhook failed: Secret {CERTS} does not exist yet");
        until("the probe to report it", async || {
            replica.probe() == missing
        })
        .await;
        scenario.apply(secret(&certificate(&scenario, 10))).await;
        until("readiness", async || replica.probe() == "[+]webhook ok").await;

        // An unusable certificate does not replace a usable one.
        let corrupted = json!({ "data": { "tls.crt": "bm90aGluZw==" } });
        scenario.merge(&secret_path(CERTS), &corrupted).await;
        scenario.wait(HOUR).await;
        assert_eq!(replica.probe(), "[+]webhook ok");

        // Expiry is reported on time, and a new certificate is served immediately.
        scenario.advance_days(9).await;
        scenario
            .wait(HOUR * 21 + Duration::from_secs(59 * 60))
            .await;
        assert_eq!(replica.probe(), "[+]webhook ok");
        scenario.wait(Duration::from_secs(61)).await;
        let expired = format!("[-]webhook failed: the certificate in Secret {CERTS} has expired");
        assert_eq!(replica.probe(), expired);
        scenario.apply(secret(&certificate(&scenario, 30))).await;
        until("readiness", async || replica.probe() == "[+]webhook ok").await;

        assert_eq!(
            replica.take_requests(),
            [("list secrets 200".to_owned(), 1)].into()
        );
        assert!(scenario.secret(CA).await.is_none());
        let webhooks = scenario.webhook_configuration().await.unwrap()["webhooks"].clone();
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
