//! Webhook certificate without some of the operator's rights.

use serde_json::{Value, json};

use crate::scenario::{
    CERTS, CertificateScenario, HOUR, NAMESPACE, Replica, ReplicaOptions, configuration_path,
    run_scenario, run_scenario_over_days, secret_path,
};

/// Removes a verb from the rules of a role.
async fn deny(scenario: &CertificateScenario, path: &str, denied: &str) {
    let mut role = scenario.get(path).await.unwrap();
    let rules = role["rules"].as_array_mut().unwrap();
    for rule in rules.iter_mut() {
        let verbs = rule["verbs"].as_array_mut().unwrap();
        verbs.retain(|verb| verb != denied);
    }
    rules.retain(|rule| rule["verbs"] != json!([]));
    let change = json!({ "rules": role["rules"] });
    scenario.merge(path, &change).await;
}

/// Expiry of the served certificate, from the metrics.
fn expiry(replica: &Replica) -> Option<String> {
    let shown = replica.metrics.expose();
    let series =
        format!("kubevirt_operator_certificate_expiry_timestamp_seconds{{secret=\"{CERTS}\"}} ");
    let value = shown.lines().find_map(|line| line.strip_prefix(&series));
    value.map(str::to_owned)
}

#[test]
fn a_ca_bundle_that_cannot_be_written_does_not_block_certificate_renewal() {
    run_scenario_over_days(async {
        let scenario = CertificateScenario::start().await;
        let replica = scenario.replica(ReplicaOptions::default());
        scenario.until_trusted().await;
        let role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/kubevirt-operator-webhook";
        deny(&scenario, role, "patch").await;
        // The bundle still contains the operator's CA, but differs from the desired one.
        let mut webhooks = scenario.webhook_configuration().await.unwrap()["webhooks"].clone();
        for webhook in webhooks.as_array_mut().unwrap() {
            let bundle = &mut webhook["clientConfig"]["caBundle"];
            if let Some(text) = bundle.as_str() {
                // Prepends three line breaks, base64-encoded.
                *bundle = Value::from(format!("CgoK{text}"));
            }
        }
        let change = json!({ "webhooks": webhooks });
        scenario.merge(&configuration_path(), &change).await;

        let first = scenario.secret_value(CERTS, "tls.crt").await;
        for _ in 0..8 {
            scenario.advance_days(5).await;
            assert!(scenario.is_trusted().await, "at {}", scenario.now());
        }
        assert_ne!(scenario.secret_value(CERTS, "tls.crt").await, first);
        assert_eq!(replica.probe(), "[+]webhook ok");
    });
}

#[test]
fn the_served_certificate_is_exported_though_its_secret_cannot_be_recreated() {
    run_scenario(async {
        let scenario = CertificateScenario::start().await;
        let replica = scenario.replica(ReplicaOptions::default());
        scenario.until_trusted().await;
        scenario.wait(HOUR).await;
        let shown = expiry(&replica);
        assert!(shown.is_some());
        let role = format!(
            "/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}/roles/kubevirt-operator-webhook"
        );
        deny(&scenario, &role, "create").await;
        scenario.delete(&secret_path(CERTS)).await;
        scenario.wait(HOUR).await;
        assert!(scenario.secret(CERTS).await.is_none());
        assert_eq!(expiry(&replica), shown);
        assert_eq!(replica.probe(), "[+]webhook ok");
    });
}
