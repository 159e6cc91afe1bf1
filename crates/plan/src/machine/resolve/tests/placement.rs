//! Placement on nodes.

use api::{ObjectMeta, TolerationOperator};

use super::*;
use crate::machine::{NamePatterns, PassedOn, Placement, Spread, build};

fn labelled(spec: Value, labels: Value) -> Machine {
    let mut machine = machine(spec);
    machine.metadata = ObjectMeta {
        labels: object(labels),
        ..machine.metadata
    };
    machine
}

#[test]
fn is_left_to_the_cluster_by_default() {
    let machine = resolved(json!({}));
    assert_eq!(machine.placement, Placement::default());
    let vm = serde_json::to_value(build(&machine).virtual_machine).unwrap();
    let instance = vm["spec"]["template"]["spec"].as_object().unwrap();
    let mut fields: Vec<&str> = instance.keys().map(String::as_str).collect();
    fields.sort_unstable();
    assert_eq!(fields, ["domain", "networks", "volumes"]);
}

#[test]
fn of_pods_is_passed_on() {
    let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}],
    }}});
    let machine = resolved(json!({
        "nodeSelector": {"disktype": "ssd"}, "affinity": affinity,
        "tolerations": [{"operator": "Exists"}], "priorityClassName": "high",
    }));
    let tolerated = &machine.placement.tolerations[0];
    assert_eq!(tolerated.operator, Some(TolerationOperator::Exists));
    let vm = serde_json::to_value(build(&machine).virtual_machine).unwrap();
    let instance = &vm["spec"]["template"]["spec"];
    assert_eq!(instance["affinity"], affinity);
    assert_eq!(instance["nodeSelector"], json!({"disktype": "ssd"}));
    assert_eq!(instance["tolerations"], json!([{"operator": "Exists"}]));
    assert_eq!(instance["priorityClassName"], "high");
    let template = &vm["spec"]["template"]["metadata"]["annotations"];
    assert!(template["vitistack.io/placement"].is_string());
}

#[rstest]
#[case(json!({"nodeSelector": {"a/b/c": "x"}}), "spec.nodeSelector")]
#[case(json!({"nodeSelector": {"zone": "not a value"}}), "spec.nodeSelector[zone]")]
#[case(json!({"priorityClassName": "High"}), "spec.priorityClassName")]
#[case(json!({"affinity": {"nodeAfinity": {}}}), "spec.affinity.nodeAfinity")]
#[case(json!({"affinity": {"podAffinity": []}}), "spec.affinity")]
#[case(
    json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "zone"}, {"topologyKey": "zone", "selector": {}}
    ]}}}),
    "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[1].selector"
)]
#[case(json!({"spreadBy": {"topologyKey": "a b", "label": "x"}}), "spec.spreadBy.topologyKey")]
#[case(json!({"spreadBy": {"topologyKey": "zone"}}), "spec.spreadBy.label")]
fn that_kubernetes_would_refuse_or_ignore_is_an_error(#[case] spec: Value, #[case] path: &str) {
    assert_eq!(error(spec), (ErrorType::InvalidSpec, path.to_owned()));
}

#[test]
fn is_spread_over_machines_of_the_same_cluster() {
    let spec = json!({"spreadBy": {"topologyKey": "kubernetes.io/hostname", "required": true}});
    let cluster_name = json!({"cluster.vitistack.io/cluster-name": "shop"});
    let resolution = resolve(&labelled(spec, cluster_name), &cluster()).unwrap();
    let spread = Spread {
        topology_key: "kubernetes.io/hostname".to_owned(),
        label: "cluster.vitistack.io/cluster-name".to_owned(),
        value: "shop".to_owned(),
        is_required: true,
    };
    assert_eq!(resolution.machine.placement.spread, Some(spread));
    let vm = serde_json::to_value(build(&resolution.machine).virtual_machine).unwrap();
    let expected = json!([{
        "maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"cluster.vitistack.io/cluster-name": "shop"}},
    }]);
    assert_eq!(
        vm["spec"]["template"]["spec"]["topologySpreadConstraints"],
        expected
    );
}

#[test]
fn is_not_spread_by_a_label_that_does_not_reach_the_pod() {
    let spec = json!({"spreadBy": {"topologyKey": "zone", "label": "team"}});
    let machine = labelled(spec, json!({"team": "blue"}));
    let offline = resolve(&machine, &cluster()).unwrap();
    assert_eq!(offline.notes[0].path, "spec.spreadBy.label");
    let configured = Surroundings {
        passed_on: PassedOn::none(),
        ..cluster()
    };
    let errors = resolve(&machine, &configured).unwrap_err();
    assert!(errors[0].message.contains("PASSED_ON_LABELS"), "{errors:?}");
    let surroundings = Surroundings {
        passed_on: PassedOn {
            labels: NamePatterns::parse("team").unwrap(),
            ..PassedOn::default()
        },
        ..cluster()
    };
    let resolution = resolve(&machine, &surroundings).unwrap();
    assert_eq!(resolution.machine.labels["team"], "blue");
    assert_eq!(resolution.machine.placement.spread.unwrap().value, "blue");
}
