//! Machines with virtual machines in other clusters.

mod fleet;

use serde_json::json;

use self::fleet::{Fleet, ready, requests};
use crate::{runner::run_scenario_in_sandbox, scenario::Scenario};

const SEVERAL: &str = "it needs several clusters";

#[test]
fn a_virtual_machine_is_created_in_the_cluster_that_the_machine_names() {
    run_scenario_in_sandbox(SEVERAL, async {
        let fleet = Fleet::start(&["east", "west"]).await;
        fleet.create("here", None).await;
        fleet.create("there", Some("east")).await;
        fleet.scenario.until_phase("here", "Running").await;
        let machine = fleet.scenario.until_phase("there", "Running").await;
        let finalizers = &machine["metadata"]["finalizers"];
        assert_eq!(
            *finalizers,
            json!(["machine.vitistack.io/cleanup", "cluster.vitistack.io/east"])
        );
        assert!(
            fleet
                .scenario
                .find("VirtualMachine", "here")
                .await
                .is_some()
        );
        assert!(
            fleet
                .scenario
                .find("VirtualMachine", "there")
                .await
                .is_none()
        );
        assert!(fleet.remote("west").list("VirtualMachine").await.is_empty());
        let east = fleet.remote("east");
        let vm = east.get("VirtualMachine", "there").await;
        assert!(vm["metadata"]["ownerReferences"].is_null(), "{vm}");
        let labels = &vm["metadata"]["labels"];
        assert_eq!(labels["vitistack.io/workload-cluster"], "east");
        assert_eq!(
            labels["vitistack.io/machine-uid"],
            machine["metadata"]["uid"]
        );
        assert!(labels["vitistack.io/managed-from"].is_string(), "{labels}");
        let claim = &east.list("PersistentVolumeClaim").await[0];
        assert_eq!(claim["metadata"]["labels"]["vitistack.io/machine"], "there");
        fleet.until_config("east", "Ready").await;
        fleet.scenario.delete("Machine", "there").await;
        fleet.scenario.until_gone("Machine", "there").await;
        for kind in ["VirtualMachine", "PersistentVolumeClaim"] {
            assert!(east.list(kind).await.is_empty(), "{kind}");
        }
    });
}

#[test]
fn a_default_cluster_is_recorded_on_the_machine() {
    run_scenario_in_sandbox(SEVERAL, async {
        let mut fleet = Fleet::without_operator(&["east", "west"]).await;
        let before = |operator: &mut kubevirt_operator::machine::Operator| {
            operator.options.kubevirt_config = Some("east".to_owned());
        };
        fleet.start_operator(before);
        fleet.create("web", None).await;
        let machine = fleet.scenario.until_phase("web", "Running").await;
        let annotations = &machine["metadata"]["annotations"];
        assert_eq!(annotations["vitistack.io/kubevirt-config"], "east");
        fleet.scenario.stop_operator().await;
        fleet.start_operator(|operator| {
            operator.options.kubevirt_config = Some("west".to_owned());
        });
        fleet.scenario.wait(60).await;
        assert!(fleet.remote("west").list("VirtualMachine").await.is_empty());
        assert_eq!(
            ready(&fleet.scenario.get("Machine", "web").await)["status"],
            "True"
        );
    });
}

#[test]
fn a_machine_is_not_moved_to_another_cluster() {
    run_scenario_in_sandbox(SEVERAL, async {
        let fleet = Fleet::start(&["east", "west"]).await;
        fleet.create("web", Some("east")).await;
        fleet.scenario.until_phase("web", "Running").await;
        let moved =
            json!({ "metadata": { "annotations": { "vitistack.io/kubevirt-config": "west" } } });
        fleet.scenario.patch("Machine", "web", moved).await;
        let machine = fleet
            .scenario
            .until("Machine", "web", |machine| {
                machine["status"]["conditions"]
                    .as_array()
                    .is_some_and(|all| all.iter().any(|it| it["type"] == "AnnotationsValid"))
            })
            .await;
        assert_eq!(ready(&machine)["status"], "True");
        fleet.scenario.wait(60).await;
        assert!(fleet.remote("west").list("VirtualMachine").await.is_empty());
        assert!(
            fleet
                .remote("east")
                .find("VirtualMachine", "web")
                .await
                .is_some()
        );
    });
}

#[test]
fn a_black_hole_stalls_the_machines_of_its_cluster_alone() {
    run_scenario_in_sandbox(SEVERAL, async {
        let fleet = Fleet::start(&["east", "north", "west"]).await;
        for cluster in ["east", "north", "west"] {
            fleet.create(&format!("{cluster}-1"), Some(cluster)).await;
        }
        for cluster in ["east", "north", "west"] {
            let machine = format!("{cluster}-1");
            fleet.scenario.until_phase(&machine, "Running").await;
        }
        fleet.scenario.wait(60).await;
        let east = fleet.remote("east");
        let vm = east.get("VirtualMachine", "east-1").await;
        let usual = time_to_run(&fleet, "west", "west-2").await;

        east.network.black_hole();
        fleet.create("east-2", Some("east")).await;
        fleet
            .until_ready("east-1", "Unknown", "ClusterUnreachable")
            .await;
        fleet
            .until_ready("east-2", "Unknown", "ClusterUnreachable")
            .await;
        let config = fleet.until_config("east", "Unreachable").await;
        let message = config["status"]["message"].as_str().unwrap();
        assert!(message.contains("cannot be reached"), "{message}");
        assert_eq!(
            fleet
                .scenario
                .metric(r#"cluster_reachable{workload_cluster="east"}"#),
            Some(0.0)
        );
        let machine = fleet.scenario.get("Machine", "east-1").await;
        assert_eq!(
            machine["status"]["phase"], "Running",
            "the last known phase"
        );
        // The others are as fast as before.
        let now = time_to_run(&fleet, "west", "west-3").await;
        assert!(now <= usual, "{now:?} instead of {usual:?}");
        assert_eq!(
            ready(&fleet.scenario.get("Machine", "north-1").await)["status"],
            "True"
        );
        // A deletion waits, and says so.
        fleet.scenario.delete("Machine", "east-2").await;
        fleet.scenario.wait(600).await;
        let waiting = ready(&fleet.scenario.get("Machine", "east-2").await);
        let message = waiting["message"].as_str().unwrap();
        assert!(
            message.contains("vitistack.io/release-from-cluster"),
            "{message}"
        );
        fleet.scenario.calls.take();
        fleet.scenario.wait(60).await;
        assert_eq!(requests(&fleet.scenario.calls), [""; 0], "nothing is due");

        east.network.restore();
        let back = fleet.until_ready("east-1", "True", "Running").await;
        assert!(back.as_secs() <= 60, "{back:?}");
        fleet.scenario.until_gone("Machine", "east-2").await;
        let config = fleet.until_config("east", "Ready").await;
        assert_eq!(config["status"]["message"], "");
        let same = east.get("VirtualMachine", "east-1").await;
        assert_eq!(same["metadata"]["uid"], vm["metadata"]["uid"]);
        assert_eq!(same["metadata"]["generation"], vm["metadata"]["generation"]);
        assert_eq!(east.list("VirtualMachine").await.len(), 1);
        assert!(
            fleet
                .scenario
                .reasons("east-1")
                .await
                .contains(&"Recovered".to_owned())
        );
    });
}

/// Time from the creation of a Machine until it runs.
async fn time_to_run(fleet: &Fleet, cluster: &str, machine: &str) -> std::time::Duration {
    let start = tokio::time::Instant::now();
    fleet.create(machine, Some(cluster)).await;
    fleet.scenario.until_phase(machine, "Running").await;
    start.elapsed()
}

#[test]
fn nothing_is_requested_while_nothing_changes() {
    run_scenario_in_sandbox(SEVERAL, async {
        let fleet = Fleet::start(&["east", "west"]).await;
        fleet.create("here", None).await;
        fleet.create("there", Some("east")).await;
        for machine in ["here", "there"] {
            fleet.scenario.until_phase(machine, "Running").await;
        }
        fleet.scenario.wait(120).await;
        fleet.scenario.calls.take();
        fleet.remote("east").network.take_requests();
        fleet.remote("west").network.take_requests();
        fleet.scenario.wait(200).await;
        assert_eq!(requests(&fleet.scenario.calls), [""; 0]);
        assert!(fleet.remote("east").network.take_requests().is_empty());
        assert!(fleet.remote("west").network.take_requests().is_empty());
    });
}

#[test]
fn a_machine_without_a_usable_cluster_says_why() {
    run_scenario_in_sandbox(SEVERAL, async {
        let fleet = Fleet::start(&["east"]).await;
        fleet.create("nowhere", Some("south")).await;
        fleet
            .until_ready("nowhere", "Unknown", "ClusterUnknown")
            .await;
        let message = |machine: &serde_json::Value| {
            ready(machine)["message"]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        };
        let machine = fleet.scenario.get("Machine", "nowhere").await;
        assert!(
            message(&machine).starts_with("there is no KubevirtConfig \"south\": create it"),
            "{machine}"
        );
        assert!(machine["metadata"]["finalizers"].is_null(), "{machine}");
        fleet.write_config("south").await;
        let says = |expected: &'static str| {
            move |machine: &serde_json::Value| message(machine).contains(expected)
        };
        fleet
            .scenario
            .until(
                "Machine",
                "nowhere",
                says("south-kubeconfig of KubevirtConfig south does not exist"),
            )
            .await;
        fleet.write_secret("south", "nonsense").await;
        fleet
            .scenario
            .until(
                "Machine",
                "nowhere",
                says("cannot be used: line 1 is invalid"),
            )
            .await;
        fleet.until_config("south", "Invalid").await;
        // The Secret is read again when it changes.
        fleet.write_secret("south", "east").await;
        fleet.scenario.until_phase("nowhere", "Running").await;
        fleet.until_config("south", "Ready").await;
        let vm = fleet.remote("east").get("VirtualMachine", "nowhere").await;
        assert_eq!(
            vm["metadata"]["labels"]["vitistack.io/workload-cluster"],
            "south"
        );
        // Without its KubevirtConfig nothing happens to the virtual machine.
        fleet.scenario.delete("KubevirtConfig", "south").await;
        fleet
            .until_ready("nowhere", "Unknown", "ClusterUnknown")
            .await;
        fleet.scenario.wait(600).await;
        let same = fleet.remote("east").get("VirtualMachine", "nowhere").await;
        for field in ["uid", "generation"] {
            assert_eq!(same["metadata"][field], vm["metadata"][field], "{field}");
        }
    });
}

#[test]
fn a_machine_whose_cluster_is_gone_for_good_can_be_released() {
    run_scenario_in_sandbox(SEVERAL, async {
        let fleet = Fleet::start(&["east"]).await;
        fleet.create("web", Some("east")).await;
        fleet.scenario.until_phase("web", "Running").await;
        let release = |cluster: &str| json!({ "metadata": { "annotations": { "vitistack.io/release-from-cluster": cluster } } });
        fleet.remote("east").network.black_hole();
        fleet
            .until_ready("web", "Unknown", "ClusterUnreachable")
            .await;
        fleet.scenario.delete("Machine", "web").await;
        fleet
            .scenario
            .patch("Machine", "web", release("west"))
            .await;
        fleet.scenario.wait(120).await;
        assert!(fleet.scenario.find("Machine", "web").await.is_some());
        fleet
            .scenario
            .patch("Machine", "web", release("east"))
            .await;
        fleet.scenario.until_gone("Machine", "web").await;
        let vm = fleet.remote("east").find("VirtualMachine", "web").await;
        assert!(
            vm.is_some(),
            "nothing is deleted in a cluster that does not answer"
        );
    });
}

#[test]
fn what_a_machine_left_behind_is_reported_and_removed_only_when_asked() {
    run_scenario_in_sandbox(SEVERAL, async {
        let mut fleet = Fleet::start(&["east"]).await;
        fleet.create("web", Some("east")).await;
        let machine = fleet.scenario.until_phase("web", "Running").await;
        let uid = machine["metadata"]["uid"].as_str().unwrap();
        fleet.create("other", Some("east")).await;
        fleet.scenario.until_phase("other", "Running").await;
        fleet.scenario.stop_operator().await;
        let stripped = json!({ "metadata": { "finalizers": null } });
        fleet.scenario.patch("Machine", "web", stripped).await;
        fleet.scenario.delete("Machine", "web").await;
        fleet.start_operator(|_| {});
        fleet.scenario.wait(600).await;
        let east = fleet.remote("east");
        assert!(east.find("VirtualMachine", "web").await.is_some());
        assert!(
            east.find("PersistentVolumeClaim", "web-root")
                .await
                .is_some()
        );
        let series = r#"orphaned_objects{kind="VirtualMachine",workload_cluster="east"}"#;
        assert_eq!(fleet.scenario.metric(series), Some(1.0));
        let events = fleet.scenario.list("Event").await;
        let mut reported = events.iter().filter(|it| it["reason"] == "ObjectsOrphaned");
        let message = reported.next().unwrap()["message"].as_str().unwrap();
        assert!(message.contains(uid), "{message}");
        assert!(reported.next().is_none());
        let ask =
            json!({ "metadata": { "annotations": { "vitistack.io/remove-orphans-of": uid } } });
        fleet.scenario.patch("KubevirtConfig", "east", ask).await;
        fleet.scenario.wait(120).await;
        for (kind, name) in [
            ("VirtualMachine", "web"),
            ("PersistentVolumeClaim", "web-root"),
        ] {
            assert!(east.find(kind, name).await.is_none(), "{kind} {name}");
        }
        assert!(east.find("VirtualMachine", "other").await.is_some());
        assert!(
            east.find("PersistentVolumeClaim", "other-root")
                .await
                .is_some()
        );
        assert_eq!(fleet.scenario.metric(series), None);
    });
}

#[test]
fn a_network_is_defined_in_each_cluster_where_a_machine_uses_it() {
    run_scenario_in_sandbox(SEVERAL, async {
        let fleet = Fleet::start(&["east", "west"]).await;
        let network =
            json!({ "metadata": { "name": "lan" }, "spec": { "bridge": "br1", "vlan": 7 } });
        fleet.scenario.create("NetworkConfiguration", network).await;
        let spec = json!({
            "template": "small", "networks": [{ "name": "lan", "networkName": "lan" }],
        });
        fleet.create_with("web", Some("east"), spec).await;
        fleet.scenario.until_phase("web", "Running").await;
        let east = fleet.remote("east");
        let definition = east.get("NetworkAttachmentDefinition", "lan").await;
        assert!(
            definition["metadata"]["ownerReferences"].is_null(),
            "{definition}"
        );
        let west = fleet.remote("west");
        assert!(west.list("NetworkAttachmentDefinition").await.is_empty());
        fleet
            .scenario
            .until("NetworkConfiguration", "lan", |it| {
                it["status"]["users"] == json!(["web"])
            })
            .await;
        fleet.scenario.delete("NetworkConfiguration", "lan").await;
        fleet.scenario.wait(60).await;
        assert!(
            fleet
                .scenario
                .find("NetworkConfiguration", "lan")
                .await
                .is_some()
        );
        fleet.scenario.delete("Machine", "web").await;
        fleet
            .scenario
            .until_gone("NetworkConfiguration", "lan")
            .await;
    });
}

#[test]
fn a_preview_shows_what_happens_in_the_cluster_of_a_machine() {
    run_scenario_in_sandbox(SEVERAL, async {
        let fleet = Fleet::start(&["east"]).await;
        fleet.create("web", Some("east")).await;
        fleet.scenario.until_phase("web", "Running").await;
        let changed = fleet
            .plan("web", None, json!({ "template": "medium" }))
            .await;
        let effects: Vec<String> = changed.forecasts[0]
            .effects
            .iter()
            .map(|effect| format!("{effect:?}"))
            .collect();
        assert!(!effects.is_empty());
        assert!(
            effects.iter().all(|it| !it.contains("Create")),
            "{effects:?}"
        );
        let new = fleet
            .plan("new", Some("east"), json!({ "template": "small" }))
            .await;
        assert!(new.errors.is_empty(), "{:?}", new.errors);
        assert!(new.has_changes());
        let lost = fleet
            .plan("lost", Some("south"), json!({ "template": "small" }))
            .await;
        assert!(
            lost.errors[0].contains("there is no KubevirtConfig \"south\""),
            "{:?}",
            lost.errors
        );
        fleet.scenario.wait(5).await;
        assert_eq!(fleet.remote("east").list("VirtualMachine").await.len(), 1);
    });
}

#[test]
fn a_missing_namespace_is_named_with_its_remedy() {
    run_scenario_in_sandbox(SEVERAL, async {
        let fleet = Fleet::start(&["east"]).await;
        let shop =
            json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "shop" } });
        fleet.scenario.apply_object(shop.clone()).await;
        let machine = json!({
            "apiVersion": api::API_VERSION, "kind": "Machine",
            "metadata": {
                "name": "web", "namespace": "shop",
                "annotations": { "vitistack.io/kubevirt-config": "east" },
            },
            "spec": { "template": "small" },
        });
        fleet.scenario.apply_object(machine).await;
        let says = |machine: &serde_json::Value| {
            let message = ready(machine)["message"]
                .as_str()
                .unwrap_or_default()
                .to_owned();
            message.contains("namespace shop does not exist: create it in the cluster")
        };
        fleet.until_in("shop", "web", says).await;
        sandbox::apply(&fleet.remote("east").cluster.client(), shop)
            .await
            .unwrap();
        fleet
            .until_in("shop", "web", |machine| {
                machine["status"]["phase"] == "Running"
            })
            .await;
    });
}

#[test]
fn without_kubevirtconfigs_an_annotation_is_reported_and_nothing_is_created() {
    run_scenario_in_sandbox(SEVERAL, async {
        let scenario = Scenario::start().await;
        let machine = json!({
            "metadata": { "name": "web", "annotations": { "vitistack.io/kubevirt-config": "east" } },
            "spec": { "template": "small" },
        });
        scenario.create("Machine", machine).await;
        let machine = scenario
            .until("Machine", "web", |it| {
                ready(it)["reason"] == "ClusterUnknown"
            })
            .await;
        assert_eq!(ready(&machine)["status"], "Unknown");
        assert!(scenario.list("VirtualMachine").await.is_empty());
    });
}
