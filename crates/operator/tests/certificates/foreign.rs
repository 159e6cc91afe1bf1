//! Secrets of others.

use serde_json::{Value, json};

use crate::ground::{CA, CERTS, Ground, HOUR, Kind, NAMESPACE, secret_path, tell, until};

fn foreign(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
        "metadata": { "name": name, "namespace": NAMESPACE },
        "data": { "tls.crt": "bWluZQ==", "tls.key": "bWluZQ==" },
    })
}

#[test]
fn a_secret_of_somebody_else_is_never_touched_and_told_by_the_probe() {
    tell(async {
        for name in [CERTS, CA] {
            let ground = Ground::begin().await;
            ground.apply(foreign(name)).await;
            let before = ground.secret(name).await;
            let replica = ground.replica(Kind::default());
            ground.wait(HOUR).await;
            assert_eq!(ground.secret(name).await, before);
            let probe = replica.probe();
            let said = format!(
                "Secret {name} in {NAMESPACE} has no label \
                 vitistack.io/managed-by=kubevirt-operator, so it is somebody else's"
            );
            assert!(probe.starts_with("[-]webhook failed: "), "{probe}");
            assert!(probe.contains(&said), "{probe}");
            replica.asked();
            ground.wait(HOUR).await;
            assert_eq!(
                replica.asked(),
                [].into(),
                "it is not tried again and again"
            );

            ground.delete(&secret_path(name)).await;
            ground.until_trusted().await;
            until("readiness", async || replica.probe() == "[+]webhook ok").await;
        }
    });
}
