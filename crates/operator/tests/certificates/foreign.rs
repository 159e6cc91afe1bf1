//! Foreign Secrets under the name of the webhook's certificate.

use serde_json::{Value, json};

use crate::scenario::{
    CA, CERTS, CertificateScenario, HOUR, NAMESPACE, ReplicaOptions, run_scenario, secret_path,
    until,
};

fn foreign(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
        "metadata": { "name": name, "namespace": NAMESPACE },
        "data": { "tls.crt": "bWluZQ==", "tls.key": "bWluZQ==" },
    })
}

#[test]
fn a_foreign_secret_is_never_changed_and_reported_by_the_probe() {
    run_scenario(async {
        for name in [CERTS, CA] {
            let scenario = CertificateScenario::start().await;
            scenario.apply(foreign(name)).await;
            let before = scenario.secret(name).await;
            let replica = scenario.replica(ReplicaOptions::default());
            scenario.wait(HOUR).await;
            assert_eq!(scenario.secret(name).await, before);
            let probe = replica.probe();
            let expected = format!(
                "Secret {NAMESPACE}/{name} does not have the label \
                 vitistack.io/managed-by=kubevirt-operator, so the operator does not change it"
            );
            assert!(probe.starts_with("[-]webhook failed: "), "{probe}");
            assert!(probe.contains(&expected), "{probe}");
            replica.take_requests();
            scenario.wait(HOUR).await;
            assert_eq!(
                replica.take_requests(),
                [].into(),
                "it is not tried again and again"
            );

            scenario.delete(&secret_path(name)).await;
            scenario.until_trusted().await;
            until("readiness", async || replica.probe() == "[+]webhook ok").await;
        }
    });
}
