use rstest::rstest;

use super::*;
use crate::{
    Key,
    kind::{CONFIG_MAP, DISRUPTION_BUDGET, NAMESPACE, REPLICA_SET, SERVICE_ACCOUNT, STATEFUL_SET},
    testing::{Fixture, created, deleted},
};

#[rstest]
#[case(json!("25%"), 10, true, 3)]
#[case(json!("25%"), 10, false, 2)]
#[case(json!(4), 10, true, 4)]
#[case(json!("0%"), 10, true, 0)]
#[case(json!("nonsense"), 10, true, 0)]
fn shares(#[case] value: Value, #[case] whole: i64, #[case] up: bool, #[case] expected: i64) {
    assert_eq!(share(Some(&value), &json!(0), whole, up), expected);
}

#[test]
fn a_template_has_the_same_hash_whatever_the_order_of_its_fields() {
    let one: Value = serde_json::from_str(r#"{"a": 1, "b": {"c": 2, "d": 3}}"#).unwrap();
    let two: Value = serde_json::from_str(r#"{"b": {"d": 3, "c": 2}, "a": 1}"#).unwrap();
    assert_eq!(template_hash(&one), template_hash(&two));
    assert_ne!(template_hash(&one), template_hash(&json!({"a": 2})));
    assert_eq!(template_hash(&one).len(), 10);
}

#[test]
fn a_selector_matches_only_if_all_its_requirements_do() {
    let selector = json!({
        "matchLabels": {"app": "web"},
        "matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["old"]}],
    });
    let labelled = |labels: Value| json!({"metadata": {"labels": labels}});
    assert!(selects(&selector, &labelled(json!({"app": "web"}))));
    assert!(!selects(
        &selector,
        &labelled(json!({"app": "web", "tier": "old"}))
    ));
    assert!(!selects(&selector, &labelled(json!({}))));
    assert!(selects(&json!({}), &labelled(json!({}))));
}

fn set(replicas: i64) -> Value {
    json!({
        "metadata": {"namespace": "a", "name": "s", "uid": "u", "generation": 1},
        "spec": {"replicas": replicas, "template": {
            "metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c"}]},
        }},
    })
}

fn become_ready(fixture: &mut Fixture, name: &str) {
    let mut pod = Value::clone(&fixture.get(POD, "a", name));
    pod["spec"]["nodeName"] = json!("n");
    pod["status"] = json!({"phase": "Running", "conditions": [
        {"type": "Ready", "status": "True", "lastTransitionTime": crate::object::seconds(fixture.now)},
    ]});
    fixture.put(POD, pod);
}

#[test]
fn a_replica_set_keeps_its_replicas_and_deletes_the_least_useful_pods() {
    let key = Key::new("a", "s");
    let mut fixture = Fixture::of([(REPLICA_SET, set(3))]);
    let writes = fixture.settle(&ReplicaSets, &key);
    let names: Vec<String> = created(&writes)
        .iter()
        .map(|pod| name(pod).to_owned())
        .collect();
    assert_eq!(names.len(), 3);
    become_ready(&mut fixture, &names[1]);
    fixture.settle(&ReplicaSets, &key);
    assert_eq!(
        fixture.get(REPLICA_SET, "a", "s")["status"]["readyReplicas"],
        1
    );
    fixture.put(REPLICA_SET, set(1));
    let writes = fixture.settle(&ReplicaSets, &key);
    let mut deleted = deleted(&writes);
    deleted.sort_unstable();
    let mut expected = vec![names[0].as_str(), names[2].as_str()];
    expected.sort_unstable();
    assert_eq!(deleted, expected);
}

#[test]
fn a_pod_is_available_after_min_ready_seconds() {
    let key = Key::new("a", "s");
    let mut one = set(1);
    one["spec"]["minReadySeconds"] = json!(30);
    let mut fixture = Fixture::of([(REPLICA_SET, one)]);
    let pod = name(created(&fixture.settle(&ReplicaSets, &key))[0]).to_owned();
    become_ready(&mut fixture, &pod);
    fixture.settle(&ReplicaSets, &key);
    let outcome = fixture.reconcile(&ReplicaSets, &key);
    assert_eq!(
        outcome.requeue_after,
        Some(std::time::Duration::from_secs(30))
    );
    assert!(fixture.get(REPLICA_SET, "a", "s")["status"]["availableReplicas"].is_null());
    fixture.advance(std::time::Duration::from_secs(30));
    fixture.settle(&ReplicaSets, &key);
    assert_eq!(
        fixture.get(REPLICA_SET, "a", "s")["status"]["availableReplicas"],
        1
    );
}

#[test]
fn a_stateful_set_creates_pods_and_claims_one_by_one() {
    let key = Key::new("a", "s");
    let mut stateful = set(2);
    stateful["spec"]["volumeClaimTemplates"] = json!([{"metadata": {"name": "d"}, "spec": {}}]);
    let mut fixture = Fixture::of([(STATEFUL_SET, stateful.clone())]);
    let names = |writes: &[crate::Write]| -> Vec<String> {
        created(writes)
            .iter()
            .map(|object| name(object).to_owned())
            .collect()
    };
    assert_eq!(
        names(&fixture.settle(&StatefulSets, &key)),
        ["d-s-0", "s-0"]
    );
    become_ready(&mut fixture, "s-0");
    assert_eq!(
        names(&fixture.settle(&StatefulSets, &key)),
        ["d-s-1", "s-1"]
    );
    become_ready(&mut fixture, "s-1");
    stateful["spec"]["template"]["spec"]["containers"][0]["image"] = json!("2");
    fixture.put(STATEFUL_SET, stateful);
    let outcome = fixture.reconcile(&StatefulSets, &key);
    assert_eq!(deleted(&outcome.writes), ["s-1"]);
}

#[test]
fn a_budget_counts_allowed_disruptions() {
    let key = Key::new("a", "b");
    let mut fixture = Fixture::of([
        (REPLICA_SET, set(3)),
        (
            DISRUPTION_BUDGET,
            json!({
                "metadata": {"namespace": "a", "name": "b"},
                "spec": {"minAvailable": "50%", "selector": {"matchLabels": {"app": "web"}}},
            }),
        ),
    ]);
    let pods: Vec<String> = created(&fixture.settle(&ReplicaSets, &Key::new("a", "s")))
        .iter()
        .map(|pod| name(pod).to_owned())
        .collect();
    for pod in &pods {
        become_ready(&mut fixture, pod);
    }
    fixture.settle(&DisruptionBudgets, &key);
    let status = fixture.get(DISRUPTION_BUDGET, "a", "b")["status"].clone();
    assert_eq!(status["expectedPods"], 3);
    assert_eq!(status["desiredHealthy"], 2);
    assert_eq!(status["disruptionsAllowed"], 1);
}

#[test]
fn a_namespace_gets_its_service_account_and_ca() {
    let mut fixture = Fixture::of([(NAMESPACE, json!({"metadata": {"name": "a"}}))]);
    fixture.settle(
        &Namespaces {
            ca: "PEM".to_owned(),
        },
        &Key::cluster("a"),
    );
    fixture.get(SERVICE_ACCOUNT, "a", "default");
    assert_eq!(
        fixture.get(CONFIG_MAP, "a", "kube-root-ca.crt")["data"]["ca.crt"],
        "PEM"
    );
}
