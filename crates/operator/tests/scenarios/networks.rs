//! Networks of Machines.

use sandbox::Component;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::{
    runner::{
        Need, run_scenario, run_scenario_alone, run_scenario_with, run_scenario_with_controllers,
    },
    scenario::{Scenario, condition},
};

const FINALIZER: &str = "networkconfiguration.vitistack.io/in-use";

fn network(name: &str, vlan: i64) -> Value {
    json!({
        "apiVersion": api::API_VERSION, "kind": "NetworkConfiguration",
        "metadata": { "name": name },
        "spec": { "bridge": "br0", "vlan": vlan },
    })
}

/// Spec of a small Machine on these networks.
fn attached(networks: &[&str]) -> Value {
    let networks: Vec<Value> = networks
        .iter()
        .map(|name| json!({ "name": format!("to-{name}"), "networkName": name }))
        .collect();
    json!({ "template": "small", "networks": networks })
}

fn config(definition: &Value) -> Value {
    let text = definition["spec"]["config"].as_str().unwrap_or("null");
    serde_json::from_str(text).unwrap()
}

fn finalizers(object: &Value) -> &[Value] {
    let finalizers = object["metadata"]["finalizers"].as_array();
    finalizers.map_or(&[], Vec::as_slice)
}

fn interfaces(vm: &Value) -> Vec<&str> {
    let interfaces = &vm["spec"]["template"]["spec"]["domain"]["devices"]["interfaces"];
    let interfaces = interfaces.as_array().into_iter().flatten();
    interfaces
        .filter_map(|interface| interface["name"].as_str())
        .collect()
}

async fn until_users(scenario: &Scenario, name: &str, users: &[&str]) -> Value {
    scenario
        .until("NetworkConfiguration", name, |network| {
            let reported = network["status"]["users"].as_array();
            let mut reported: Vec<_> = reported
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .collect();
            reported.sort_unstable();
            reported == users
        })
        .await
}

#[test]
fn a_machine_waits_for_a_missing_network() {
    run_scenario(async {
        let scenario = Scenario::start().await;
        scenario.create_machine("web", attached(&["prod"])).await;
        let machine = scenario.until_phase("web", "Failed").await;
        let ready = condition(&machine, "Ready");
        assert_eq!(ready["reason"], "NetworkConfigurationNotFound");
        let failed = condition(&machine, "NetworkReady");
        assert_eq!(failed["reason"], "NetworkFailed");
        scenario.wait_long().await;

        scenario.apply_object(network("prod", 7)).await;
        let created = Instant::now();
        scenario.until("VirtualMachine", "web", |_| true).await;
        assert!(created.elapsed() < scenario.cluster.timeout_of(2));
        let machine = scenario.until_phase("web", "Running").await;
        let configured = condition(&machine, "NetworkReady");
        assert_eq!(configured["reason"], "NetworkConfigured");
    });
}

#[test]
fn a_network_attachment_is_created_once_for_all_machines() {
    run_scenario(async {
        let scenario = Scenario::start().await;
        scenario.apply_object(network("prod", 7)).await;
        for name in ["web", "shop", "db"] {
            scenario.create_machine(name, attached(&["prod"])).await;
        }
        for name in ["web", "shop", "db"] {
            scenario.until_phase(name, "Running").await;
        }
        let definitions = scenario.list("NetworkAttachmentDefinition").await;
        let [definition] = definitions.as_slice() else {
            panic!("{} definitions", definitions.len());
        };
        let rendered = config(definition);
        assert_eq!(rendered["type"], "bridge");
        assert_eq!(rendered["bridge"], "br0");
        assert_eq!(rendered["vlan"], 7);
        let owner = &definition["metadata"]["ownerReferences"][0];
        assert_eq!(owner["kind"], "NetworkConfiguration");
        let vm = scenario.get("VirtualMachine", "web").await;
        let spec = &vm["spec"]["template"]["spec"];
        assert_eq!(spec["networks"][0]["multus"]["networkName"], "prod");

        let network = until_users(&scenario, "prod", &["db", "shop", "web"]).await;
        assert_eq!(finalizers(&network), [FINALIZER]);
        assert_eq!(condition(&network, "Ready")["status"], "True");
    });
}

#[test]
fn a_network_is_marked_with_its_finalizer_in_one_request() {
    run_scenario(async {
        let mut scenario = Scenario::without_operator().await;
        scenario.apply_object(network("prod", 7)).await;
        let mut of_kea = network("lab", 8);
        of_kea["spec"]["provider"] = "kea".into();
        scenario.apply_object(of_kea).await;
        for name in ["prod", "lab"] {
            scenario.create_machine(name, attached(&[name])).await;
        }
        scenario.start_operator();
        for (name, provider) in [("prod", "kubevirt-operator"), ("lab", "kea")] {
            scenario.until_phase(name, "Running").await;
            let network = until_users(&scenario, name, &[name]).await;
            assert_eq!(network["spec"]["provider"], provider);
            assert_eq!(finalizers(&network), [FINALIZER]);
        }
        scenario.wait(60).await;
        assert_eq!(scenario.writes("networkconfigurations"), 2);
    });
}

#[test]
fn many_machines_at_once_cause_few_writes_to_their_network() {
    run_scenario(async {
        let scenario = Scenario::start().await;
        scenario.apply_object(network("prod", 7)).await;
        let mut names: Vec<String> = (0..50).map(|number| format!("web-{number}")).collect();
        let began = Instant::now();
        for name in &names {
            let mut spec = attached(&["prod"]);
            spec["powerState"] = "Stopped".into();
            scenario.create_machine(name, spec).await;
        }
        names.sort();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        until_users(&scenario, "prod", &names).await;
        for name in &names {
            scenario.until_phase(name, "Stopped").await;
        }
        let writes = scenario.writes("networkconfigurations/status");
        // One write a second; a real server may take several seconds to create them.
        let most = began.elapsed().as_secs().saturating_add(2).max(5);
        assert!(writes <= most, "{writes} writes of its status");
        assert_eq!(scenario.writes("network-attachment-definitions"), 1);
    });
}

#[test]
fn a_network_in_use_outlives_its_deletion() {
    run_scenario(async {
        let scenario = Scenario::start().await;
        scenario.apply_object(network("prod", 7)).await;
        scenario.create_machine("web", attached(&["prod"])).await;
        scenario.until_phase("web", "Running").await;
        until_users(&scenario, "prod", &["web"]).await;

        scenario.delete("NetworkConfiguration", "prod").await;
        scenario.wait(10).await;
        let network = scenario.get("NetworkConfiguration", "prod").await;
        let ready = condition(&network, "Ready");
        let message = ready["message"].as_str().unwrap_or_default();
        assert!(message.contains("web"), "{message}");
        scenario.get("NetworkAttachmentDefinition", "prod").await;
        let machine = scenario.get("Machine", "web").await;
        assert_eq!(condition(&machine, "Ready")["status"], "True");

        scenario.delete("Machine", "web").await;
        scenario.until_gone("Machine", "web").await;
        scenario.until_gone("NetworkConfiguration", "prod").await;
        scenario
            .until_gone("NetworkAttachmentDefinition", "prod")
            .await;
    });
}

#[test]
fn a_network_without_machines_is_deleted_immediately_with_its_attachment() {
    run_scenario_with_controllers(async {
        let scenario = Scenario::start().await;
        scenario.apply_object(network("prod", 7)).await;
        scenario
            .until("NetworkAttachmentDefinition", "prod", |_| true)
            .await;
        scenario.delete("NetworkConfiguration", "prod").await;
        scenario.until_gone("NetworkConfiguration", "prod").await;
        scenario
            .until_gone("NetworkAttachmentDefinition", "prod")
            .await;
    });
}

#[test]
fn the_attachment_of_a_deleted_network_is_not_recreated_from_a_stale_cache() {
    run_scenario_with_controllers(async {
        let scenario = Scenario::start().await;
        scenario.apply_object(network("prod", 7)).await;
        scenario
            .until("NetworkConfiguration", "prod", |network| {
                condition(network, "Ready")["status"] == "True"
            })
            .await;
        assert_eq!(scenario.writes("network-attachment-definitions"), 1);

        scenario.faults.block_watches_of("networkconfigurations");
        scenario.delete("NetworkConfiguration", "prod").await;
        scenario
            .until_gone("NetworkAttachmentDefinition", "prod")
            .await;
        scenario.wait(60).await;
        assert_eq!(scenario.writes("network-attachment-definitions"), 1);
        assert_eq!(
            scenario.list("NetworkAttachmentDefinition").await,
            Vec::<Value>::new()
        );

        // A network created again under the same name is another network.
        scenario.faults.clear();
        scenario.apply_object(network("prod", 8)).await;
        scenario
            .until("NetworkAttachmentDefinition", "prod", |definition| {
                config(definition)["vlan"] == 8
            })
            .await;
    });
}

#[test]
fn networks_are_added_to_a_machine_and_removed() {
    run_scenario_with(&[Need::CurrentApis], async {
        let scenario = Scenario::start().await;
        scenario.apply_object(network("prod", 7)).await;
        scenario.apply_object(network("back", 8)).await;
        scenario.create_machine("web", attached(&["prod"])).await;
        scenario.until_phase("web", "Running").await;

        let both = attached(&["prod", "back"])["networks"].clone();
        scenario
            .patch_spec("web", json!({ "networks": both }))
            .await;
        scenario
            .until("VirtualMachine", "web", |vm| {
                interfaces(vm) == ["to-prod", "to-back"]
            })
            .await;
        until_users(&scenario, "back", &["web"]).await;

        let one = attached(&["back"])["networks"].clone();
        scenario.patch_spec("web", json!({ "networks": one })).await;
        scenario
            .until("VirtualMachine", "web", |vm| interfaces(vm) == ["to-back"])
            .await;
        let network = until_users(&scenario, "prod", &[]).await;
        assert!(finalizers(&network).is_empty(), "no Machine is attached");
    });
}

#[test]
fn a_changed_network_changes_its_attachment() {
    run_scenario(async {
        let scenario = Scenario::start().await;
        scenario.apply_object(network("prod", 7)).await;
        scenario
            .until("NetworkAttachmentDefinition", "prod", |definition| {
                config(definition)["vlan"] == 7
            })
            .await;
        scenario.apply_object(network("prod", 8)).await;
        scenario
            .until("NetworkAttachmentDefinition", "prod", |definition| {
                config(definition)["vlan"] == 8
            })
            .await;
        let network = scenario.get("NetworkConfiguration", "prod").await;
        let generation = &network["metadata"]["generation"];
        scenario
            .until("NetworkConfiguration", "prod", |network| {
                network["status"]["observedGeneration"] == *generation
            })
            .await;
    });
}

#[test]
fn drift_of_a_network_attachment_is_repaired() {
    run_scenario(async {
        let scenario = Scenario::start().await;
        scenario.apply_object(network("prod", 7)).await;
        scenario
            .until("NetworkAttachmentDefinition", "prod", |_| true)
            .await;
        let foreign = json!({ "spec": { "config": "{\"type\":\"macvlan\"}" } });
        scenario
            .patch("NetworkAttachmentDefinition", "prod", foreign)
            .await;
        scenario
            .until("NetworkAttachmentDefinition", "prod", |definition| {
                config(definition)["type"] == "bridge"
            })
            .await;

        scenario.delete("NetworkAttachmentDefinition", "prod").await;
        scenario
            .until("NetworkAttachmentDefinition", "prod", |definition| {
                config(definition)["vlan"] == 7
            })
            .await;
    });
}

#[test]
fn a_foreign_network_attachment_is_reported_and_left_alone() {
    run_scenario(async {
        let scenario = Scenario::start().await;
        let foreign = json!({
            "apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition",
            "metadata": { "name": "prod" },
            "spec": { "config": "{\"type\":\"macvlan\"}" },
        });
        scenario.apply_object(foreign).await;
        let before = scenario.get("NetworkAttachmentDefinition", "prod").await;
        scenario.apply_object(network("prod", 7)).await;
        scenario.create_machine("web", attached(&["prod"])).await;
        let machine = scenario
            .until("Machine", "web", |machine| {
                let message = condition(machine, "NetworkReady")["message"].as_str();
                message.is_some_and(|message| message.contains("NetworkAttachmentDefinition"))
            })
            .await;
        assert_eq!(
            condition(&machine, "NetworkReady")["reason"],
            "NetworkFailed"
        );
        scenario.wait(600).await;
        let after = scenario.get("NetworkAttachmentDefinition", "prod").await;
        assert_eq!(before["metadata"], after["metadata"]);
        assert!(scenario.find("VirtualMachine", "web").await.is_none());

        scenario.delete("NetworkAttachmentDefinition", "prod").await;
        scenario.until_phase("web", "Running").await;
    });
}

#[test]
fn a_machine_on_a_network_waits_for_multus() {
    run_scenario_alone(&[], async {
        let scenario = Scenario::start_with(|setup| {
            setup.without.insert(Component::Multus);
        })
        .await;
        scenario.apply_object(network("prod", 7)).await;
        scenario.create_machine("web", attached(&["prod"])).await;
        let failed = scenario
            .until_condition("web", "NetworkReady", "False")
            .await;
        assert_eq!(failed["reason"], "NetworkFailed");
        let message = failed["message"].as_str().unwrap();
        assert!(message.contains("Multus"), "{message}");
        let network = scenario
            .until("NetworkConfiguration", "prod", |network| {
                condition(network, "Ready")["status"] == "False"
            })
            .await;
        let message = condition(&network, "Ready")["message"].as_str().unwrap();
        assert!(message.contains("Multus"), "{message}");
        scenario.wait(600).await;

        scenario.install(Component::Multus).await;
        scenario.until_phase("web", "Running").await;
        until_users(&scenario, "prod", &["web"]).await;
    });
}

#[test]
fn a_record_of_addresses_is_left_alone() {
    run_scenario(async {
        let scenario = Scenario::start().await;
        let interface = json!({ "name": "vlan-100", "macAddress": "02:12:00:00:00:01" });
        scenario
            .create(
                "NetworkConfiguration",
                json!({
                    "metadata": { "name": "cluster-ctp0",
                        "finalizers": ["vitistack.io/networkconfiguration-finalizer"] },
                    "spec": { "name": "cluster-ctp0", "networkNamespaceName": "net",
                        "provider": "kea", "networkInterfaces": [interface] },
                }),
            )
            .await;
        scenario
            .apply("kind: NetworkConfiguration\napiVersion: vitistack.io/v1alpha1\nmetadata: {name: lan}\nspec: {bridge: br0}\n")
            .await;
        scenario
            .until("NetworkAttachmentDefinition", "lan", Value::is_object)
            .await;
        let record = scenario.get("NetworkConfiguration", "cluster-ctp0").await;
        assert!(record["status"].is_null(), "{record}");
        let finalizers = json!(["vitistack.io/networkconfiguration-finalizer"]);
        assert_eq!(record["metadata"]["finalizers"], finalizers);
        let definition = scenario.find("NetworkAttachmentDefinition", "cluster-ctp0");
        assert!(definition.await.is_none());
        scenario
            .delete("NetworkConfiguration", "cluster-ctp0")
            .await;
        let released = json!({ "metadata": { "finalizers": [] } });
        scenario
            .patch("NetworkConfiguration", "cluster-ctp0", released)
            .await;
        scenario
            .until_gone("NetworkConfiguration", "cluster-ctp0")
            .await;
    });
}
