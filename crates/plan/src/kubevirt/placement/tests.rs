//! Tests of node placement.

use std::collections::BTreeMap;

use api::kubevirt::install::ComponentConfig;
use rstest::rstest;
use serde_json::{Value, json};

use super::{Fallback, Malformed, obstacle, place, schedulable};
use crate::kubevirt::observed::Node;

fn config(placement: Value) -> ComponentConfig {
    ComponentConfig {
        replicas: None,
        node_placement: Some(serde_json::from_value(placement).unwrap()),
    }
}

fn placed(placement: Value, mut pod: Value) -> Value {
    place(Some(&config(placement)), Fallback::AnyNode, &mut pod).unwrap();
    pod
}

fn term(key: &str) -> Value {
    json!({"matchExpressions": [{"key": key, "operator": "In", "values": ["test"]}]})
}

fn pod_term(label: &str) -> Value {
    json!({"labelSelector": {"matchLabels": {label: "term"}}, "topologyKey": "kubernetes.io/hostname"})
}

fn affinity(suffix: &str) -> Value {
    let named = |name: &str| format!("{name}{suffix}");
    json!({
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term(&named("required"))]},
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": term(&named("preferred"))}],
        },
        "podAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [pod_term(&named("required"))],
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": pod_term(&named("preferred"))}],
        },
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [pod_term(&named("anti-required"))],
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": pod_term(&named("anti-preferred"))}],
        },
    })
}

#[rstest]
#[case::nothing_given(None)]
#[case::no_placement_given(Some(ComponentConfig::default()))]
#[case::anywhere(Some(config(json!({}))))]
fn pods_run_on_linux_with_any_placement(#[case] given: Option<ComponentConfig>) {
    let mut pod = json!({});
    place(given.as_ref(), Fallback::AnyNode, &mut pod).unwrap();
    assert_eq!(pod, json!({"nodeSelector": {"kubernetes.io/os": "linux"}}));
}

#[test]
fn another_operating_system_can_be_selected() {
    let pod = placed(
        json!({"nodeSelector": {"kubernetes.io/os": "other"}}),
        json!({}),
    );
    assert_eq!(pod, json!({"nodeSelector": {"kubernetes.io/os": "other"}}));
}

#[test]
fn node_selectors_merge_and_the_release_takes_precedence() {
    let pod = placed(
        json!({"nodeSelector": {"shared": "given", "given": "x"}}),
        json!({"nodeSelector": {"shared": "released", "released": "y"}}),
    );
    let selector = json!({
        "kubernetes.io/os": "linux", "shared": "released", "given": "x", "released": "y",
    });
    assert_eq!(pod["nodeSelector"], selector);
}

#[test]
fn a_pod_without_affinity_gets_the_given_one() {
    let pod = placed(json!({"affinity": affinity("")}), json!({}));
    assert_eq!(pod["affinity"], affinity(""));
}

#[test]
fn the_release_keeps_its_affinity_without_a_given_one() {
    let pod = placed(json!({}), json!({"affinity": affinity("")}));
    assert_eq!(pod["affinity"], affinity(""));
}

#[rstest]
#[case("nodeAffinity")]
#[case("podAffinity")]
#[case("podAntiAffinity")]
fn one_kind_of_affinity_is_added_to_the_others(#[case] kind: &str) {
    let mut released = affinity("");
    let added = json!({kind: released.as_object_mut().unwrap().remove(kind).unwrap()});
    let pod = placed(json!({"affinity": added}), json!({"affinity": released}));
    assert_eq!(pod["affinity"], affinity(""));
}

#[rstest]
#[case("/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms")]
#[case("/nodeAffinity/preferredDuringSchedulingIgnoredDuringExecution")]
#[case("/podAffinity/requiredDuringSchedulingIgnoredDuringExecution")]
#[case("/podAffinity/preferredDuringSchedulingIgnoredDuringExecution")]
#[case("/podAntiAffinity/requiredDuringSchedulingIgnoredDuringExecution")]
#[case("/podAntiAffinity/preferredDuringSchedulingIgnoredDuringExecution")]
fn affinity_terms_follow_those_of_the_release(#[case] terms: &str) {
    let pod = placed(
        json!({"affinity": affinity("2")}),
        json!({"affinity": affinity("")}),
    );
    let [released, given] =
        ["", "2"].map(|suffix| affinity(suffix).pointer(terms).unwrap()[0].clone());
    assert_eq!(
        pod["affinity"].pointer(terms),
        Some(&json!([released, given]))
    );
}

#[test]
fn tolerations_follow_those_of_the_release() {
    let [released, given] = ["a", "b"].map(|key| json!({"key": key, "operator": "Exists"}));
    let pod = placed(
        json!({"tolerations": [given]}),
        json!({"tolerations": [released]}),
    );
    assert_eq!(pod["tolerations"], json!([released, given]));
    let pod = placed(json!({"tolerations": [given]}), json!({}));
    assert_eq!(pod["tolerations"], json!([given]));
    let pod = placed(json!({}), json!({"tolerations": [released]}));
    assert_eq!(pod["tolerations"], json!([released]));
}

#[test]
fn the_given_placement_is_not_changed() {
    let given = config(json!({"affinity": affinity("2"), "tolerations": [{"key": "a"}]}));
    let before = given.clone();
    let mut pod = json!({"affinity": affinity("")});
    place(Some(&given), Fallback::ControlPlane, &mut pod).unwrap();
    assert_eq!(given, before);
}

#[rstest]
#[case::nothing_given(None, true)]
#[case::only_replicas_given(Some(ComponentConfig { replicas: Some(3), node_placement: None }), true)]
#[case::anywhere_is_asked_for(Some(config(json!({}))), false)]
#[case::a_placement_is_given(Some(config(json!({"nodeSelector": {"a": "b"}}))), false)]
fn the_control_plane_is_the_default_only_without_a_placement(
    #[case] given: Option<ComponentConfig>,
    #[case] control_plane: bool,
) {
    let mut pod = json!({"affinity": {"podAntiAffinity": affinity("")["podAntiAffinity"]}});
    place(given.as_ref(), Fallback::ControlPlane, &mut pod).unwrap();
    let plain = node("plain", &[]);
    let control = node("control", &["node-role.kubernetes.io/control-plane"]);
    let master = Node {
        taints: vec![(
            "node-role.kubernetes.io/master".into(),
            String::new(),
            "NoSchedule".into(),
        )],
        ..node("master", &["node-role.kubernetes.io/master"])
    };
    assert_eq!(
        pod["affinity"]["podAntiAffinity"],
        affinity("")["podAntiAffinity"]
    );
    let selected = pod["nodeSelector"].get("a").is_some();
    if control_plane {
        assert_eq!(
            schedulable(&pod, &[plain, control, master]),
            ["control", "master"]
        );
        assert_eq!(
            pod["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"][0]["weight"],
            100
        );
    } else if !selected {
        assert_eq!(
            schedulable(&pod, &[plain, control, master]),
            ["plain", "control"]
        );
    } else {
        assert!(schedulable(&pod, &[plain, control, master]).is_empty());
    }
}

#[rstest]
#[case(json!({"nodeSelector": "linux"}), "nodeSelector")]
#[case(json!({"tolerations": {}}), "tolerations")]
#[case(json!({"affinity": []}), "preferredDuringSchedulingIgnoredDuringExecution")]
fn a_malformed_pod_is_refused(#[case] mut pod: Value, #[case] field: &'static str) {
    let placed = place(None, Fallback::ControlPlane, &mut pod);
    assert_eq!(placed, Err(Malformed { field }));
}

#[test]
fn a_malformed_placement_is_refused() {
    let given = config(json!({"affinity": {"podAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": "all",
    }}}));
    assert!(place(Some(&given), Fallback::AnyNode, &mut json!({})).is_err());
}

fn node(name: &str, labels: &[&str]) -> Node {
    let labels = labels
        .iter()
        .map(|label| ((*label).to_owned(), String::new()));
    Node {
        name: name.to_owned(),
        labels: labels
            .chain([("kubernetes.io/os".into(), "linux".into())])
            .collect(),
        ..Node::default()
    }
}

fn requirement(operator: &str, values: &[&str]) -> Value {
    json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{"matchExpressions": [
            {"key": "size", "operator": operator, "values": values},
        ]}],
    }}}})
}

#[rstest]
#[case("In", &["5", "6"], Some("5"), true)]
#[case("In", &["6"], Some("5"), false)]
#[case("In", &["5"], None, false)]
#[case("NotIn", &["6"], Some("5"), true)]
#[case("NotIn", &["5"], Some("5"), false)]
#[case("NotIn", &["5"], None, true)]
#[case("Exists", &[], Some("5"), true)]
#[case("Exists", &[], None, false)]
#[case("DoesNotExist", &[], None, true)]
#[case("DoesNotExist", &[], Some("5"), false)]
#[case("Gt", &["4"], Some("5"), true)]
#[case("Gt", &["5"], Some("5"), false)]
#[case("Gt", &["4"], Some("large"), false)]
#[case("Gt", &["4"], None, false)]
#[case("Lt", &["10"], Some("5"), true)]
#[case("Lt", &["5"], Some("5"), false)]
#[case("Near", &["5"], Some("5"), false)]
fn affinity_requirements_match_as_in_the_scheduler(
    #[case] operator: &str,
    #[case] values: &[&str],
    #[case] label: Option<&str>,
    #[case] fits: bool,
) {
    let labels = label.map(|label| ("size".to_owned(), label.to_owned()));
    let node = Node {
        labels: BTreeMap::from_iter(labels),
        ..Node::default()
    };
    assert_eq!(
        obstacle(&requirement(operator, values), &node).is_none(),
        fits
    );
}

#[test]
fn one_term_of_affinity_is_enough_and_an_empty_one_matches_nothing() {
    let pod = |terms: Value| {
        json!({"affinity": {"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms},
        }}})
    };
    let by_name = json!({"matchFields": [
        {"key": "metadata.name", "operator": "In", "values": ["n1"]},
    ]});
    let node = node("n1", &[]);
    assert_eq!(
        obstacle(&pod(json!([term("absent"), by_name])), &node),
        None
    );
    assert!(obstacle(&pod(json!([{}])), &node).is_some());
    assert!(obstacle(&pod(json!([])), &node).is_some());
}

#[rstest]
#[case(json!([]), false)]
#[case(json!([{"operator": "Exists"}]), true)]
#[case(json!([{"key": "dedicated", "operator": "Exists"}]), true)]
#[case(json!([{"key": "dedicated", "operator": "Exists", "effect": "NoExecute"}]), false)]
#[case(json!([{"key": "dedicated", "operator": "Equal", "value": "vms"}]), true)]
#[case(json!([{"key": "dedicated", "value": "vms", "effect": "NoSchedule"}]), true)]
#[case(json!([{"key": "dedicated", "value": "others"}]), false)]
#[case(json!([{"key": "others", "operator": "Exists"}]), false)]
fn taints_need_a_toleration(#[case] tolerations: Value, #[case] fits: bool) {
    let taint = |effect: &str| ("dedicated".to_owned(), "vms".to_owned(), effect.to_owned());
    let pod = json!({"tolerations": tolerations});
    let tainted = Node {
        taints: vec![taint("NoSchedule")],
        ..Node::default()
    };
    assert_eq!(obstacle(&pod, &tainted).is_none(), fits);
    let preferring = Node {
        taints: vec![taint("PreferNoSchedule")],
        ..Node::default()
    };
    assert_eq!(obstacle(&pod, &preferring), None);
}

#[test]
fn a_cordoned_node_accepts_only_pods_that_tolerate_it() {
    let node = Node {
        unschedulable: true,
        ..Node::default()
    };
    assert_eq!(
        obstacle(&json!({}), &node).unwrap().to_string(),
        "is cordoned"
    );
    let pod = json!({"tolerations": [
        {"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"},
    ]});
    assert_eq!(obstacle(&pod, &node), None);
}
