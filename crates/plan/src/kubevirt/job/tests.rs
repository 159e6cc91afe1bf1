//! Tests of strategy Jobs.

use rstest::rstest;
use serde_json::{Value, json};

use super::{
    JobState, STRATEGY_ACCOUNT, StrategyJobPlan, backoff, is_finished, job, job_state,
    plan_strategy_job,
};
use crate::kubevirt::{
    Live, Operator, Target,
    observed::{Pod, PodProblem},
    target,
};
use api::{Time, kubevirt::install::KubeVirt};

fn at(seconds: i64) -> Time {
    Time(k8s_openapi::jiff::Timestamp::from_second(1_800_000_000 + seconds).unwrap())
}

fn operator() -> Operator {
    Operator {
        namespace: "kubevirt".into(),
        image: Some("registry.example/virt-operator:v1.9.0".into()),
        passthrough: [("HTTP_PROXY".to_owned(), "http://proxy.example".to_owned())].into(),
        ..Operator::default()
    }
}

fn wanted(spec: &Value) -> Target {
    let kubevirt: KubeVirt = serde_json::from_value(json!({"apiVersion": "kubevirt.io/v1",
        "kind": "KubeVirt", "metadata": {"name": "kubevirt", "namespace": "kubevirt"}, "spec": spec}))
    .unwrap();
    target(
        &kubevirt,
        &operator(),
        &crate::kubevirt::observed::Served::default(),
    )
    .unwrap()
}

#[test]
fn the_job_runs_the_release_with_its_configuration() {
    let target = wanted(
        &json!({"imageTag": "v1.8.4", "imagePullPolicy": "Always", "imagePullSecrets": [{"name": "pull"}]}),
    );
    let job = job(&target, &operator(), 1, |_| ()).unwrap().value();
    assert_eq!(job["metadata"]["namespace"], "kubevirt");
    assert_eq!(
        job["metadata"]["labels"],
        json!({"kubevirt.io": "", "app.kubernetes.io/managed-by": "virt-operator", "kubevirt.io/install-strategy": ""})
    );
    assert_eq!(
        job["metadata"]["annotations"],
        json!({"kubevirt.io/install-strategy-version": "v1.8.4", "kubevirt.io/install-strategy-registry": "registry.example",
            "kubevirt.io/install-strategy-identifier": target.id})
    );
    let template = &job["spec"]["template"];
    assert_eq!(
        template["metadata"]["labels"]["kubevirt.io"],
        "virt-operator-strategy-dumper"
    );
    assert_eq!(template["spec"]["serviceAccountName"], STRATEGY_ACCOUNT);
    assert_eq!(template["spec"]["restartPolicy"], "Never");
    assert_eq!(
        template["spec"]["imagePullSecrets"],
        json!([{"name": "pull"}])
    );
    let container = &template["spec"]["containers"][0];
    assert_eq!(container["image"], "registry.example/virt-operator:v1.8.4");
    assert_eq!(container["imagePullPolicy"], "Always");
    assert_eq!(
        container["command"],
        json!(["virt-operator", "--dump-install-strategy"])
    );
    assert_eq!(
        container["env"],
        json!([
            {"name": "VIRT_OPERATOR_IMAGE", "value": "registry.example/virt-operator:v1.8.4"},
            {"name": "TARGET_INSTALL_NAMESPACE", "value": "kubevirt"},
            {"name": "TARGET_IMAGE_PULL_POLICY", "value": "Always"},
            {"name": "TARGET_DEPLOYMENT_CONFIG", "value": target.config},
            {"name": "HTTP_PROXY", "value": "http://proxy.example"},
        ])
    );
}

#[test]
fn the_job_is_adjusted_before_it_is_written() {
    let operator = Operator {
        service_account: "other".into(),
        ..operator()
    };
    let adjust =
        |job: &mut Value| job["spec"]["template"]["spec"]["nodeSelector"] = json!({"a": "b"});
    let job = job(&wanted(&json!({})), &operator, 3, adjust)
        .unwrap()
        .value();
    assert_eq!(
        job["spec"]["template"]["spec"]["nodeSelector"],
        json!({"a": "b"})
    );
    assert_eq!(
        job["spec"]["template"]["spec"]["serviceAccountName"],
        "other"
    );
    assert!(job["metadata"]["name"].as_str().unwrap().ends_with("-3"));
}

#[test]
fn a_name_fits_into_the_label_of_its_pods() {
    let job = job(&wanted(&json!({})), &operator(), u32::MAX, |_| ()).unwrap();
    assert!(job.id.name.len() <= 63, "{}", job.id.name);
}

/// A Job of ID `abc`.
fn live(attempt: u32, status: &Value) -> Live {
    let value = json!({
        "metadata": {"name": format!("virt-operator-install-strategy-abc-{attempt}"), "namespace": "kubevirt", "uid": format!("uid-{attempt}"),
            "creationTimestamp": at(0), "annotations": {"kubevirt.io/install-strategy-identifier": "abc"}},
        "spec": {}, "status": status,
    });
    Live::new("batch", "v1", "Job", value).unwrap()
}

fn failed(seconds: i64) -> Value {
    json!({"conditions": [{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded",
        "message": "Job has reached the specified backoff limit", "lastTransitionTime": at(seconds)}]})
}

fn complete(seconds: i64) -> Value {
    json!({"completionTime": at(seconds), "conditions": [{"type": "Complete", "status": "True", "lastTransitionTime": at(seconds)}]})
}

fn pod(phase: &str, problem: Option<(Option<&str>, &str, &str)>) -> Pod {
    Pod {
        name: "pod".into(),
        owner: Some(("Job".into(), "virt-operator-install-strategy-abc-1".into())),
        phase: phase.into(),
        problem: problem.map(|(container, reason, message)| PodProblem {
            container: container.map(str::to_owned),
            reason: reason.into(),
            message: message.into(),
        }),
        ..Pod::default()
    }
}

#[rstest]
#[case::image_cannot_be_pulled(pod("Pending", Some((Some("install-strategy-upload"), "ImagePullBackOff", "not found"))),
    "pod pod, container install-strategy-upload: ImagePullBackOff: not found")]
#[case::no_node(pod("Pending", Some((None, "Unschedulable", "0/3 nodes are available"))),
    "pod pod: Unschedulable: 0/3 nodes are available")]
#[case::failed_and_tried_again(pod("Failed", Some((Some("c"), "Error", "exit code 1"))), "pod pod, container c: Error: exit code 1")]
#[case::failed_without_a_message(pod("Failed", None), "pod pod failed: see its `kubectl logs`")]
fn a_stuck_job_is_described_by_its_pod(#[case] pod: Pod, #[case] message: &str) {
    assert_eq!(
        job_state(&live(1, &json!({})), &[pod], &at(5)),
        JobState::Stuck {
            message: message.into()
        }
    );
}

#[rstest]
#[case::running(pod("Running", None))]
#[case::starting(pod("Pending", Some((Some("c"), "ContainerCreating", ""))))]
fn a_job_with_a_starting_or_running_pod_is_running(#[case] pod: Pod) {
    assert_eq!(
        job_state(&live(1, &json!({})), &[pod], &at(500)),
        JobState::Running
    );
}

#[test]
fn pods_of_others_do_not_count() {
    let other = Pod {
        owner: Some(("Job".into(), "other".into())),
        ..pod("Failed", None)
    };
    assert_eq!(
        job_state(&live(1, &json!({})), &[other], &at(5)),
        JobState::Running
    );
}

#[test]
fn a_job_without_a_pod_is_stuck_after_a_while() {
    let job = live(1, &json!({}));
    assert_eq!(job_state(&job, &[], &at(29)), JobState::Running);
    let JobState::Stuck { message } = job_state(&job, &[], &at(30)) else {
        panic!("it has no pod");
    };
    assert!(message.starts_with("it has no pod"), "{message}");
}

#[test]
fn the_current_pod_is_described_before_failed_ones() {
    let pods = [
        pod("Failed", None),
        pod("Pending", Some((None, "Unschedulable", "no node"))),
    ];
    let JobState::Stuck { message } = job_state(&live(1, &json!({})), &pods, &at(5)) else {
        panic!("it is stuck");
    };
    assert_eq!(message, "pod pod: Unschedulable: no node");
}

#[test]
fn a_failed_job_has_a_message_and_a_time() {
    let pods = [pod("Failed", Some((Some("c"), "Error", "exit code 2")))];
    assert_eq!(
        job_state(&live(1, &failed(7)), &pods, &at(9)),
        JobState::Failed {
            message: "BackoffLimitExceeded: Job has reached the specified backoff limit: pod pod, container c: Error: exit code 2".into(),
            since: at(7),
        }
    );
}

#[rstest]
#[case(&json!({}), false)]
#[case(&json!({"conditions": null}), false)]
#[case(&json!({"conditions": [{"type": "Failed", "status": "False"}]}), false)]
#[case(&failed(1), true)]
#[case(&complete(1), true)]
fn a_job_is_finished_when_it_succeeded_or_failed(#[case] status: &Value, #[case] finished: bool) {
    assert_eq!(is_finished(&live(1, status)), finished);
}

#[test]
fn the_first_job_is_created_at_once() {
    let plan = plan_strategy_job("abc", [], &[], &at(0));
    assert_eq!(plan.create, Some(1));
    assert!(!plan.is_failing);
}

#[test]
fn a_job_of_another_deployment_does_not_count() {
    let other = live(1, &json!({}));
    assert_eq!(
        plan_strategy_job("def", [&other], &[], &at(0)).create,
        Some(1)
    );
}

fn step(jobs: &[Live], now: i64) -> StrategyJobPlan {
    plan_strategy_job("abc", jobs, &[], &at(now))
}

#[rstest]
#[case::failed(failed(100))]
#[case::ended_without_a_config_map(complete(100))]
fn a_second_job_replaces_the_first_after_ten_seconds(#[case] status: Value) {
    let jobs = [live(1, &status)];
    let early = step(&jobs, 109);
    assert_eq!((early.create, early.delete.len()), (None, 0));
    assert_eq!(early.requeue_at, Some(at(110)));
    assert!(early.is_failing);
    let due = step(&jobs, 110);
    assert_eq!(due.create, Some(2));
    assert_eq!(due.delete, [(jobs[0].id.clone(), "uid-1".to_owned())]);
}

#[test]
fn jobs_left_by_a_killed_operator_are_deleted() {
    let jobs = [live(2, &json!({})), live(1, &failed(100))];
    let plan = step(&jobs, 120);
    assert_eq!(plan.create, None);
    assert_eq!(plan.delete, [(jobs[1].id.clone(), "uid-1".to_owned())]);
}

#[rstest]
#[case(1, 10)]
#[case(2, 20)]
#[case(5, 160)]
#[case(6, 300)]
#[case(u32::MAX, 300)]
fn attempts_are_delayed_with_backoff(#[case] attempt: u32, #[case] seconds: u64) {
    assert_eq!(backoff(attempt).as_secs(), seconds);
}

#[test]
fn a_job_that_is_being_deleted_is_waited_for() {
    let mut job = live(1, &failed(0));
    job.deleting = true;
    let plan = step(&[job], 500);
    assert_eq!(
        (plan.create, plan.delete.len(), plan.is_failing),
        (None, 0, false)
    );
}

#[test]
fn a_job_without_a_pod_is_requeued_for_its_deadline() {
    assert_eq!(step(&[live(1, &json!({}))], 5).requeue_at, Some(at(30)));
    assert_eq!(step(&[live(1, &json!({}))], 31).requeue_at, None);
}
