//! Objects that the operator may not write any more.

use serde_json::{Value, json};

use crate::ground::{
    CERTS, Ground, HOUR, Kind, NAMESPACE, Replica, configuration_path, secret_path, tell,
    tell_of_days,
};

/// Takes rights away: the rules that grant one of these verbs grant the others only.
async fn deny(ground: &Ground, path: &str, denied: &str) {
    let mut role = ground.get(path).await.unwrap();
    let rules = role["rules"].as_array_mut().unwrap();
    for rule in rules.iter_mut() {
        let verbs = rule["verbs"].as_array_mut().unwrap();
        verbs.retain(|verb| verb != denied);
    }
    rules.retain(|rule| rule["verbs"] != json!([]));
    let change = json!({ "rules": role["rules"] });
    ground.merge(path, &change).await;
}

/// Until when what the replica serves is valid, as its metrics show.
fn expiry(replica: &Replica) -> Option<String> {
    let shown = replica.metrics.expose();
    let series =
        format!("kubevirt_operator_certificate_expiry_timestamp_seconds{{secret=\"{CERTS}\"}} ");
    let value = shown.lines().find_map(|line| line.strip_prefix(&series));
    value.map(str::to_owned)
}

#[test]
fn a_bundle_that_cannot_be_kept_does_not_stop_the_renewal_of_the_certificate() {
    tell_of_days(async {
        let ground = Ground::begin().await;
        let replica = ground.replica(Kind::default());
        ground.until_trusted().await;
        let role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/kubevirt-operator-webhook";
        deny(&ground, role, "patch").await;
        // Our CA is still in it, and it is not what it should be.
        let mut webhooks = ground.configured().await.unwrap()["webhooks"].clone();
        for webhook in webhooks.as_array_mut().unwrap() {
            let bundle = &mut webhook["clientConfig"]["caBundle"];
            if let Some(text) = bundle.as_str() {
                // Three line breaks more, in base64.
                *bundle = Value::from(format!("CgoK{text}"));
            }
        }
        let change = json!({ "webhooks": webhooks });
        ground.merge(&configuration_path(), &change).await;

        let first = ground.part(CERTS, "tls.crt").await;
        for _ in 0..8 {
            ground.leap(5).await;
            assert!(ground.is_trusted().await, "at {}", ground.now());
        }
        assert_ne!(ground.part(CERTS, "tls.crt").await, first);
        assert_eq!(replica.probe(), "[+]webhook ok");
    });
}

#[test]
fn what_is_served_is_shown_though_its_secret_cannot_be_made_again() {
    tell(async {
        let ground = Ground::begin().await;
        let replica = ground.replica(Kind::default());
        ground.until_trusted().await;
        ground.wait(HOUR).await;
        let shown = expiry(&replica);
        assert!(shown.is_some());
        let role = format!(
            "/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}/roles/kubevirt-operator-webhook"
        );
        deny(&ground, &role, "create").await;
        ground.delete(&secret_path(CERTS)).await;
        ground.wait(HOUR).await;
        assert!(ground.secret(CERTS).await.is_none());
        assert_eq!(expiry(&replica), shown);
        assert_eq!(replica.probe(), "[+]webhook ok");
    });
}
