use rstest::rstest;
use serde_json::{Value, json};

use super::*;

fn machine(metadata: &Value, status: &Value) -> Machine {
    let mut machine = json!({
        "apiVersion": "vitistack.io/v1alpha1", "kind": "Machine", "spec": {},
        "metadata": { "name": "web", "namespace": "shop", "uid": "m1", "generation": 2 },
    });
    for (name, value) in metadata.as_object().unwrap() {
        machine["metadata"][name] = value.clone();
    }
    if !status.is_null() {
        machine["status"] = status.clone();
    }
    serde_json::from_value(machine).unwrap()
}

fn named(cluster: &str) -> Value {
    json!({ labels::KUBEVIRT_CONFIG: cluster })
}

fn placed(cluster: &str) -> Value {
    json!([labels::FINALIZER, cluster_finalizer(cluster)])
}

#[rstest]
#[case::nothing(json!({}), json!({}), VmCluster::Remote("default"))]
#[case::named(json!({ "annotations": named("east") }), json!({}), VmCluster::Remote("east"))]
#[case::empty(json!({ "annotations": named("") }), json!({}), VmCluster::Remote("default"))]
#[case::recorded(json!({ "finalizers": placed("east") }), json!({}), VmCluster::Remote("east"))]
#[case::recorded_before_it_was_named(
    json!({ "finalizers": placed("east"), "annotations": named("west") }),
    json!({}),
    VmCluster::Remote("east")
)]
#[case::local(
    json!({ "finalizers": [labels::FINALIZER], "annotations": named("west") }),
    json!({}),
    VmCluster::Local
)]
#[case::local_without_finalizers(json!({}), json!({ "machineID": "vm1" }), VmCluster::Local)]
#[case::former_operator(
    json!({ "finalizers": [labels::FORMER_FINALIZER], "annotations": named("east") }),
    json!({ "machineID": "vm1" }),
    VmCluster::Remote("east")
)]
fn a_virtual_machine_stays_in_the_cluster_that_is_recorded(
    #[case] metadata: Value,
    #[case] status: Value,
    #[case] expected: VmCluster<'_>,
) {
    let machine = machine(&metadata, &status);
    assert_eq!(VmCluster::of(&machine, Some("default")), expected);
}

#[test]
fn without_a_default_a_machine_is_in_its_own_cluster() {
    let machine = machine(&json!({}), &Value::Null);
    assert_eq!(VmCluster::of(&machine, None), VmCluster::Local);
}

#[rstest]
#[case::same("east", "east", 0)]
#[case::moved("east", "west", 1)]
fn an_annotation_that_would_move_a_virtual_machine_is_reported(
    #[case] recorded: &str,
    #[case] requested: &str,
    #[case] expected: usize,
) {
    let metadata = json!({ "finalizers": placed(recorded), "annotations": named(requested) });
    let notes = ignored_annotations(&machine(&metadata, &Value::Null));
    assert_eq!(notes.len(), expected, "{notes:?}");
}

fn problem(message: &str) -> ClusterProblem {
    ClusterProblem {
        kind: ClusterProblemKind::Unreachable,
        message: message.to_owned(),
    }
}

fn plan(machine: &Machine, problem: &ClusterProblem) -> Plan {
    let unavailable = Unavailable {
        machine,
        cluster: "east",
        problem,
        ledger: None,
        provider: &Provider::default(),
        served: &ServedFields::default(),
    };
    unavailable.plan(&Time(k8s_openapi::jiff::Timestamp::UNIX_EPOCH))
}

fn ready(plan: &Plan) -> api::Condition {
    let conditions = plan.status.conditions.as_deref();
    conditions::find(conditions, READY).unwrap().clone()
}

#[test]
fn an_unreachable_cluster_makes_ready_unknown_and_changes_nothing_else() {
    let status = json!({
        "phase": "Running", "nodeName": "n1",
        "conditions": [{ "type": "Ready", "status": "True", "reason": "Running", "message": "",
                         "lastTransitionTime": "2026-01-01T00:00:00Z" }],
    });
    let mut machine = machine(&json!({ "finalizers": placed("east") }), &status);
    let first = plan(&machine, &problem("no answer"));
    assert!(first.steps.is_empty());
    assert_eq!(first.status.phase, Some(Phase::Running));
    assert_eq!(first.status.node_name.as_deref(), Some("n1"));
    let ready = ready(&first);
    assert_eq!(
        (ready.status.as_str(), ready.reason.as_str()),
        ("Unknown", CLUSTER_UNREACHABLE)
    );
    assert_eq!(first.events.len(), 1);
    machine.status = Some(first.status.clone());
    let second = plan(&machine, &problem("no answer"));
    assert_eq!(Some(&second.status), machine.status.as_ref());
    assert!(second.events.is_empty());
}

#[rstest]
#[case::not_asked(json!({}), 0)]
#[case::asked(json!({ labels::RELEASE: "east" }), 1)]
#[case::asked_for_another(json!({ labels::RELEASE: "west" }), 0)]
fn only_the_annotation_releases_a_deleted_machine(
    #[case] annotations: Value,
    #[case] expected: usize,
) {
    let metadata = json!({
        "finalizers": placed("east"), "annotations": annotations,
        "deletionTimestamp": "2026-01-01T00:00:00Z",
    });
    let machine = machine(&metadata, &Value::Null);
    let plan = plan(&machine, &problem("no answer"));
    let removals = plan.steps.iter().map(|step| &step.action);
    assert_eq!(
        removals
            .filter(|it| **it == Action::RemoveFinalizer)
            .count(),
        expected
    );
    assert!(ready(&plan).message.contains(labels::RELEASE));
}

#[test]
fn a_machine_that_is_not_deleted_is_not_released() {
    let metadata = json!({
        "finalizers": placed("east"), "annotations": { labels::RELEASE: "east" },
    });
    let machine = machine(&metadata, &Value::Null);
    assert!(plan(&machine, &problem("no answer")).steps.is_empty());
}
