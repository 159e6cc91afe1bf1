use rstest::rstest;
use serde_json::json;

use super::*;
use crate::kind::{DEPLOYMENT, NODE, POD};

fn pod(fail: &str) -> Value {
    json!({"metadata": {"namespace": "a", "name": "web-1", "annotations": {ANNOTATION: fail}}})
}

#[test]
fn an_annotation_gives_argument_delay_and_count() {
    let fault = Faults::default().find(POD, &pod("NeverReady, Exit=137@1m*2"), "Exit");
    assert_eq!(
        fault,
        Some(Fault {
            what: "Exit".to_owned(),
            argument: Some("137".to_owned()),
            after: Duration::from_secs(60),
            times: Some(2),
        })
    );
}

#[test]
fn an_invalid_annotation_is_ignored() {
    assert_eq!(Faults::default().find(POD, &pod("Explode"), "Exit"), None);
    assert_eq!(Faults::default().find(NODE, &pod("Exit=1"), "Exit"), None);
}

#[test]
fn a_workload_accepts_the_faults_of_pods() {
    assert!(
        Faults::default()
            .find(DEPLOYMENT, &pod("NeverReady"), "NeverReady")
            .is_some()
    );
}

#[test]
fn an_image_argument_selects_pods() {
    let with = |image: &str| json!({"spec": {"containers": [{"image": image}]}});
    let pod = pod("CrashLoopBackOff=virt-handler:v1.9.1, Exit=137");
    let fault = Faults::default()
        .find(POD, &pod, "CrashLoopBackOff")
        .unwrap();
    assert!(fault.affects(&with("registry.example/virt-handler:v1.9.1")));
    assert!(!fault.affects(&with("registry.example/virt-handler:v1.9.0")));
    let exit = Faults::default().find(POD, &pod, "Exit").unwrap();
    assert!(exit.affects(&with("any")));
}

#[test]
fn a_rule_matches_objects_by_wildcard() {
    let faults = Faults::from_yaml(
        "- {kind: Pod, namespace: a, name: web-*, fault: Exit=2, after: 5s, times: 1}\n\
         - {kind: Node, fault: NotReady}\n",
    )
    .unwrap();
    let fault = faults.find(
        POD,
        &json!({"metadata": {"namespace": "a", "name": "web-7"}}),
        "Exit",
    );
    assert_eq!(
        fault.map(|fault| (fault.after, fault.times)),
        Some((Duration::from_secs(5), Some(1)))
    );
    let other = json!({"metadata": {"namespace": "b", "name": "web-7"}});
    assert_eq!(faults.find(POD, &other, "Exit"), None);
    assert!(
        faults
            .find(NODE, &json!({"metadata": {"name": "n"}}), "NotReady")
            .is_some()
    );
}

#[test]
fn an_empty_file_has_no_faults() {
    assert_eq!(Faults::from_yaml(""), Ok(Faults::default()));
}

#[rstest]
#[case("- {kind: Teapot, fault: Exit}", "[0].kind", "use one of Node, Pod")]
#[case(
    "- {kind: Pod, fault: Explode}",
    "[0].fault",
    "use one of Unschedulable, ImagePullBackOff"
)]
#[case(
    "- {kind: Pod, fault: Exit, after: soon}",
    "[0].after",
    "write it as in 90s"
)]
#[case("- {kind: Pod, fault: Exit@soon}", "[0].fault", "write it as in 90s")]
#[case(
    "- {kind: Pod, fault: Exit*many}",
    "[0].fault",
    "write it as in Exit*3"
)]
#[case(
    "- {kind: Pod, fault: 'NeverReady, Exit'}",
    "[0].fault",
    "write one rule for each"
)]
#[case(
    "- {kind: Pod, fault: Exit, when: now}",
    "fault file",
    "write a list of rules"
)]
#[case("kind: Pod", "fault file", "write a list of rules")]
fn errors_name_the_field_and_the_remedy(
    #[case] yaml: &str,
    #[case] field: &str,
    #[case] remedy: &str,
) {
    let error = Faults::from_yaml(yaml).unwrap_err();
    assert_eq!(error.field, field);
    assert!(error.problem.contains(remedy), "{error}");
}

#[test]
fn times_count_attempts() {
    let fault = Faults::default()
        .find(POD, &pod("Exit=1*2"), "Exit")
        .unwrap();
    assert!(fault.fails_attempt(1));
    assert!(!fault.fails_attempt(2));
}
