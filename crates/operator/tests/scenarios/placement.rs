//! Placement of Machines on nodes, and labels and annotations that reach pods.

use std::collections::BTreeSet;

use plan::machine::{NamePatterns, PassedOn};
use serde_json::{Value, json};

use crate::{
    runner::run_scenario_in_sandbox,
    scenario::{Scenario, condition},
};

const REASON: &str = "it needs nodes, a scheduler and launcher pods of its own";

async fn launcher(scenario: &Scenario, machine: &str) -> Value {
    let pods = scenario.list("Pod").await;
    let of_machine = |pod: &&Value| pod["metadata"]["labels"]["vitistack.io/machine"] == machine;
    pods.iter().find(of_machine).unwrap().clone()
}

#[test]
fn a_machine_runs_where_its_spec_says() {
    run_scenario_in_sandbox(REASON, async {
        let scenario = Scenario::start().await;
        let nodes = scenario.list("Node").await;
        let chosen = nodes[1]["metadata"]["name"].as_str().unwrap();
        let labelled = json!({
            "metadata": { "labels": { "disktype": "ssd" } },
            "spec": { "taints": [{ "key": "dedicated", "value": "db", "effect": "NoSchedule" }] },
        });
        scenario.patch("Node", chosen, labelled).await;
        let spec = json!({ "template": "small", "nodeSelector": { "disktype": "ssd" } });
        scenario.create_machine("web", spec).await;
        let machine = scenario.until_reason("web", "InsufficientResources").await;
        let message = condition(&machine, "Ready")["message"].as_str().unwrap();
        assert!(message.contains("untolerated taint"), "{message}");
        scenario
            .patch_spec(
                "web",
                json!({ "tolerations": [{ "key": "dedicated", "value": "db" }] }),
            )
            .await;
        let machine = scenario.until_phase("web", "Running").await;
        assert_eq!(machine["status"]["nodeName"], chosen);
    });
}

#[test]
fn machines_of_a_cluster_are_spread_over_nodes() {
    run_scenario_in_sandbox(REASON, async {
        let scenario = Scenario::start().await;
        let mut nodes = BTreeSet::new();
        for number in 0..4 {
            let machine = json!({
                "apiVersion": "vitistack.io/v1alpha1", "kind": "Machine",
                "metadata": {
                    "name": format!("web-{number}"),
                    "labels": { "cluster.vitistack.io/cluster-name": "shop" },
                },
                "spec": {
                    "template": "small",
                    "spreadBy": { "topologyKey": "kubernetes.io/hostname", "required": true },
                },
            });
            scenario.create("Machine", machine).await;
            let name = format!("web-{number}");
            let machine = scenario.until_phase(&name, "Running").await;
            let node = machine["status"]["nodeName"].as_str().unwrap().to_owned();
            assert_eq!(
                nodes.insert(node),
                number < 3,
                "three nodes, then one a second time"
            );
        }
    });
}

#[test]
fn labels_and_annotations_that_the_settings_name_reach_the_pod() {
    run_scenario_in_sandbox(REASON, async {
        let mut scenario = Scenario::without_operator().await;
        scenario.start_operator_with(|options| {
            options.passed_on = PassedOn {
                labels: NamePatterns::parse("team").unwrap(),
                annotations: NamePatterns::parse("example.com/*").unwrap(),
            };
        });
        let machine = json!({
            "apiVersion": "vitistack.io/v1alpha1", "kind": "Machine",
            "metadata": {
                "name": "web",
                "labels": { "team": "blue", "tier": "front" },
                "annotations": { "example.com/ticket": "17", "other.example.com/ticket": "18" },
            },
            "spec": { "template": "small" },
        });
        scenario.create("Machine", machine).await;
        scenario.until_phase("web", "Running").await;
        let vm = scenario.get("VirtualMachine", "web").await;
        let instance = scenario.get("VirtualMachineInstance", "web").await;
        for object in [vm, instance, launcher(&scenario, "web").await] {
            let metadata = &object["metadata"];
            assert_eq!(metadata["labels"]["team"], "blue", "{metadata}");
            assert_eq!(metadata["labels"]["tier"], Value::Null);
            assert_eq!(metadata["annotations"]["example.com/ticket"], "17");
            assert_eq!(
                metadata["annotations"]["other.example.com/ticket"],
                Value::Null
            );
        }
        let vm = scenario.get("VirtualMachine", "web").await;
        let unlabelled = json!({ "metadata": { "labels": { "team": null } } });
        scenario.patch("Machine", "web", unlabelled).await;
        let changed = scenario
            .until("VirtualMachine", "web", |vm| {
                vm["metadata"]["labels"]["team"].is_null()
            })
            .await;
        assert_eq!(changed["metadata"]["uid"], vm["metadata"]["uid"]);
        assert!(changed["spec"]["template"]["metadata"]["labels"]["team"].is_null());
    });
}
