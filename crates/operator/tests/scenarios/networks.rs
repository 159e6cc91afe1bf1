//! How Machines are attached to networks.

use sandbox::Component;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::{
    ground::{Need, tell, tell_alone, tell_with, tell_with_controllers},
    story::{Story, condition},
};

const FINALIZER: &str = "networkconfiguration.vitistack.io/in-use";

fn network(name: &str, vlan: i64) -> Value {
    json!({
        "apiVersion": api::API_VERSION, "kind": "NetworkConfiguration",
        "metadata": { "name": name },
        "spec": { "bridge": "br0", "vlan": vlan },
    })
}

/// A small Machine on these networks.
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

async fn until_users(story: &Story, name: &str, users: &[&str]) -> Value {
    story
        .until("NetworkConfiguration", name, |network| {
            let told = network["status"]["users"].as_array();
            let mut told: Vec<_> = told
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .collect();
            told.sort_unstable();
            told == users
        })
        .await
}

#[test]
fn a_missing_network_holds_a_machine_until_it_is_there() {
    tell(async {
        let story = Story::begin().await;
        story.machine("web", attached(&["prod"])).await;
        let machine = story.until_phase("web", "Failed").await;
        let ready = condition(&machine, "Ready");
        assert_eq!(ready["reason"], "NetworkConfigurationNotFound");
        let failed = condition(&machine, "NetworkReady");
        assert_eq!(failed["reason"], "NetworkFailed");
        story.wait_long().await;

        story.give(network("prod", 7)).await;
        let created = Instant::now();
        story.until("VirtualMachine", "web", |_| true).await;
        assert!(created.elapsed() < story.ground.patience_of(2));
        let machine = story.until_phase("web", "Running").await;
        let configured = condition(&machine, "NetworkReady");
        assert_eq!(configured["reason"], "NetworkConfigured");
    });
}

#[test]
fn a_network_is_made_once_for_all_its_machines() {
    tell(async {
        let story = Story::begin().await;
        story.give(network("prod", 7)).await;
        for name in ["web", "shop", "db"] {
            story.machine(name, attached(&["prod"])).await;
        }
        for name in ["web", "shop", "db"] {
            story.until_phase(name, "Running").await;
        }
        let definitions = story.list("NetworkAttachmentDefinition").await;
        let [definition] = definitions.as_slice() else {
            panic!("{} definitions", definitions.len());
        };
        let made = config(definition);
        assert_eq!(made["type"], "bridge");
        assert_eq!(made["bridge"], "br0");
        assert_eq!(made["vlan"], 7);
        let owner = &definition["metadata"]["ownerReferences"][0];
        assert_eq!(owner["kind"], "NetworkConfiguration");
        let vm = story.get("VirtualMachine", "web").await;
        let spec = &vm["spec"]["template"]["spec"];
        assert_eq!(spec["networks"][0]["multus"]["networkName"], "prod");

        let network = until_users(&story, "prod", &["db", "shop", "web"]).await;
        assert_eq!(finalizers(&network), [FINALIZER]);
        assert_eq!(condition(&network, "Ready")["status"], "True");
    });
}

#[test]
fn many_machines_at_once_are_few_writes_to_their_network() {
    tell(async {
        let story = Story::begin().await;
        story.give(network("prod", 7)).await;
        let mut names: Vec<String> = (0..50).map(|number| format!("web-{number}")).collect();
        let began = Instant::now();
        for name in &names {
            let mut spec = attached(&["prod"]);
            spec["powerState"] = "Stopped".into();
            story.machine(name, spec).await;
        }
        names.sort();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        until_users(&story, "prod", &names).await;
        for name in &names {
            story.until_phase(name, "Stopped").await;
        }
        let writes = story.writes("networkconfigurations/status");
        // One a second, and a real server may take more than a few to create them.
        let most = began.elapsed().as_secs().saturating_add(2).max(5);
        assert!(writes <= most, "{writes} writes of its status");
        assert_eq!(story.writes("network-attachment-definitions"), 1);
    });
}

#[test]
fn a_network_in_use_outlives_its_deletion() {
    tell(async {
        let story = Story::begin().await;
        story.give(network("prod", 7)).await;
        story.machine("web", attached(&["prod"])).await;
        story.until_phase("web", "Running").await;
        until_users(&story, "prod", &["web"]).await;

        story.delete("NetworkConfiguration", "prod").await;
        story.wait(10).await;
        let network = story.get("NetworkConfiguration", "prod").await;
        let ready = condition(&network, "Ready");
        let message = ready["message"].as_str().unwrap_or_default();
        assert!(message.contains("web"), "{message}");
        story.get("NetworkAttachmentDefinition", "prod").await;
        let machine = story.get("Machine", "web").await;
        assert_eq!(condition(&machine, "Ready")["status"], "True");

        story.delete("Machine", "web").await;
        story.until_gone("Machine", "web").await;
        story.until_gone("NetworkConfiguration", "prod").await;
        story
            .until_gone("NetworkAttachmentDefinition", "prod")
            .await;
    });
}

#[test]
fn a_network_without_machines_goes_at_once_and_takes_its_definition_along() {
    tell_with_controllers(async {
        let story = Story::begin().await;
        story.give(network("prod", 7)).await;
        story
            .until("NetworkAttachmentDefinition", "prod", |_| true)
            .await;
        story.delete("NetworkConfiguration", "prod").await;
        story.until_gone("NetworkConfiguration", "prod").await;
        story
            .until_gone("NetworkAttachmentDefinition", "prod")
            .await;
    });
}

#[test]
fn the_definition_of_a_deleted_network_stays_gone_although_its_watch_is_behind() {
    tell_with_controllers(async {
        let story = Story::begin().await;
        story.give(network("prod", 7)).await;
        story
            .until("NetworkConfiguration", "prod", |network| {
                condition(network, "Ready")["status"] == "True"
            })
            .await;
        assert_eq!(story.writes("network-attachment-definitions"), 1);

        story.line.fail_watches_of("networkconfigurations");
        story.delete("NetworkConfiguration", "prod").await;
        story
            .until_gone("NetworkAttachmentDefinition", "prod")
            .await;
        story.wait(60).await;
        assert_eq!(story.writes("network-attachment-definitions"), 1);
        assert_eq!(
            story.list("NetworkAttachmentDefinition").await,
            Vec::<Value>::new()
        );

        // What is created again under the name is a network of its own.
        story.line.mend();
        story.give(network("prod", 8)).await;
        story
            .until("NetworkAttachmentDefinition", "prod", |definition| {
                config(definition)["vlan"] == 8
            })
            .await;
    });
}

#[test]
fn networks_are_added_to_a_machine_and_removed() {
    tell_with(&[Need::CurrentApis], async {
        let story = Story::begin().await;
        story.give(network("prod", 7)).await;
        story.give(network("back", 8)).await;
        story.machine("web", attached(&["prod"])).await;
        story.until_phase("web", "Running").await;

        let both = attached(&["prod", "back"])["networks"].clone();
        story.change("web", json!({ "networks": both })).await;
        story
            .until("VirtualMachine", "web", |vm| {
                interfaces(vm) == ["to-prod", "to-back"]
            })
            .await;
        until_users(&story, "back", &["web"]).await;

        let one = attached(&["back"])["networks"].clone();
        story.change("web", json!({ "networks": one })).await;
        story
            .until("VirtualMachine", "web", |vm| interfaces(vm) == ["to-back"])
            .await;
        let network = until_users(&story, "prod", &[]).await;
        assert!(finalizers(&network).is_empty(), "nobody is attached");
    });
}

#[test]
fn a_network_that_changes_changes_its_definition() {
    tell(async {
        let story = Story::begin().await;
        story.give(network("prod", 7)).await;
        story
            .until("NetworkAttachmentDefinition", "prod", |definition| {
                config(definition)["vlan"] == 7
            })
            .await;
        story.give(network("prod", 8)).await;
        story
            .until("NetworkAttachmentDefinition", "prod", |definition| {
                config(definition)["vlan"] == 8
            })
            .await;
        let network = story.get("NetworkConfiguration", "prod").await;
        let generation = &network["metadata"]["generation"];
        story
            .until("NetworkConfiguration", "prod", |network| {
                network["status"]["observedGeneration"] == *generation
            })
            .await;
    });
}

#[test]
fn what_somebody_does_to_a_definition_is_undone() {
    tell(async {
        let story = Story::begin().await;
        story.give(network("prod", 7)).await;
        story
            .until("NetworkAttachmentDefinition", "prod", |_| true)
            .await;
        let theirs = json!({ "spec": { "config": "{\"type\":\"macvlan\"}" } });
        story
            .patch("NetworkAttachmentDefinition", "prod", theirs)
            .await;
        story
            .until("NetworkAttachmentDefinition", "prod", |definition| {
                config(definition)["type"] == "bridge"
            })
            .await;

        story.delete("NetworkAttachmentDefinition", "prod").await;
        story
            .until("NetworkAttachmentDefinition", "prod", |definition| {
                config(definition)["vlan"] == 7
            })
            .await;
    });
}

#[test]
fn a_definition_of_somebody_else_is_named_and_left_alone() {
    tell(async {
        let story = Story::begin().await;
        let theirs = json!({
            "apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition",
            "metadata": { "name": "prod" },
            "spec": { "config": "{\"type\":\"macvlan\"}" },
        });
        story.give(theirs).await;
        let before = story.get("NetworkAttachmentDefinition", "prod").await;
        story.give(network("prod", 7)).await;
        story.machine("web", attached(&["prod"])).await;
        let machine = story
            .until("Machine", "web", |machine| {
                let message = condition(machine, "NetworkReady")["message"].as_str();
                message.is_some_and(|message| message.contains("NetworkAttachmentDefinition"))
            })
            .await;
        assert_eq!(
            condition(&machine, "NetworkReady")["reason"],
            "NetworkFailed"
        );
        story.wait(600).await;
        let after = story.get("NetworkAttachmentDefinition", "prod").await;
        assert_eq!(before["metadata"], after["metadata"]);
        assert!(story.find("VirtualMachine", "web").await.is_none());

        story.delete("NetworkAttachmentDefinition", "prod").await;
        story.until_phase("web", "Running").await;
    });
}

#[test]
fn a_machine_on_a_network_waits_for_multus() {
    tell_alone(&[], async {
        let story = Story::begin_with(|setup| {
            setup.without.insert(Component::Multus);
        })
        .await;
        story.give(network("prod", 7)).await;
        story.machine("web", attached(&["prod"])).await;
        let failed = story.until_condition("web", "NetworkReady", "False").await;
        assert_eq!(failed["reason"], "NetworkFailed");
        let message = failed["message"].as_str().unwrap();
        assert!(message.contains("Multus"), "{message}");
        let network = story
            .until("NetworkConfiguration", "prod", |network| {
                condition(network, "Ready")["status"] == "False"
            })
            .await;
        let message = condition(&network, "Ready")["message"].as_str().unwrap();
        assert!(message.contains("Multus"), "{message}");
        story.wait(600).await;

        story.install(Component::Multus).await;
        story.until_phase("web", "Running").await;
        until_users(&story, "prod", &["web"]).await;
    });
}
