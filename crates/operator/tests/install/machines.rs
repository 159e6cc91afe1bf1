//! Machines on a KubeVirt that the operator installed.

use std::time::Duration;

use kubevirt_operator::machine;
use sandbox::Setup;
use serde_json::json;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::{
    harness::own_definitions,
    recording::WatchRecording,
    scenario::{InstallScenario, NAME, condition, run_scenario},
};

fn define_machines(setup: &mut Setup) {
    setup.definitions = own_definitions();
}

/// Starts the Machine operator beside the KubeVirt operator.
fn start_machine_operator(scenario: &InstallScenario) -> (CancellationToken, JoinHandle<()>) {
    let options = machine::Options {
        namespaces: Vec::new(),
        reconcile_interval: Duration::from_secs(30),
        concurrency: 5,
        seed: 1,
        ..machine::Options::default()
    };
    let clock = scenario.cluster.clock();
    let operator = machine::Operator::alone(scenario.client.clone(), options, clock);
    let token = CancellationToken::new();
    let running = tokio::spawn(operator.run(token.clone()));
    (token, running)
}

#[test]
fn machines_survive_a_removal_and_reinstallation_of_kubevirt() {
    run_scenario(async {
        let scenario = InstallScenario::start_with(define_machines).await;
        let (token, running) = start_machine_operator(&scenario);
        let machine =
            |name: &str| json!({ "metadata": { "name": name }, "spec": { "template": "small" } });
        scenario.create("Machine", machine("web")).await;
        scenario.install("v1.9.0").await;
        scenario.until_deployed("v1.9.0").await;
        let is_running = |machine: &serde_json::Value| machine["status"]["phase"] == "Running";
        scenario.until("Machine", "web", is_running).await;
        let claim = scenario.get("PersistentVolumeClaim", "web-root").await;

        let machines = WatchRecording::start(&scenario, "VirtualMachine").await;
        let recording = WatchRecording::start(&scenario, "Machine").await;
        // A foreign finalizer blocks the removal for longer than the operator waits before it repeats a
        // write.
        let hold = json!({ "metadata": { "finalizers": ["example.com/hold"] } });
        scenario.patch("VirtualMachine", "web", hold).await;
        scenario.delete("KubeVirt", NAME).await;
        // The Machine operator observes the deletion through a watch of its own.
        scenario.wait(2).await;
        scenario.create("Machine", machine("late")).await;
        scenario
            .until("Machine", "late", |machine| {
                condition(machine, "Ready")["reason"] == "KubeVirtBeingRemoved"
            })
            .await;
        scenario.wait(60).await;
        let let_go = json!({ "metadata": { "finalizers": null } });
        scenario.patch("VirtualMachine", "web", let_go).await;
        scenario.until_gone("KubeVirt", NAME).await;
        let uids = machines.values(|vm| vm["metadata"]["uid"].clone());
        assert_eq!(uids.len(), 1, "a VirtualMachine was created: {uids:?}");
        let reasons = recording.values(|machine| condition(machine, "Ready")["reason"].clone());
        assert!(!reasons.contains(&json!("StoppedByOther")), "{reasons:?}");

        scenario.install("v1.9.0").await;
        scenario.until_deployed("v1.9.0").await;
        scenario.until("Machine", "web", is_running).await;
        scenario.until("Machine", "late", is_running).await;
        let again = scenario.get("PersistentVolumeClaim", "web-root").await;
        assert_eq!(again["metadata"]["uid"], claim["metadata"]["uid"]);
        token.cancel();
        running.await.unwrap();
    });
}

#[test]
fn a_machine_keeps_running_during_an_upgrade() {
    run_scenario(async {
        let scenario = InstallScenario::start_with(define_machines).await;
        let (token, running) = start_machine_operator(&scenario);
        scenario
            .create(
                "Machine",
                json!({ "metadata": { "name": "web" }, "spec": { "template": "small" } }),
            )
            .await;
        scenario.install("v1.8.4").await;
        scenario.until_deployed("v1.8.4").await;
        scenario
            .until("Machine", "web", |machine| {
                machine["status"]["phase"] == "Running"
            })
            .await;
        let instance = scenario.get("VirtualMachineInstance", "web").await;
        let machines = WatchRecording::start(&scenario, "Machine").await;
        scenario.patch_spec(json!({ "imageTag": "v1.9.0" })).await;
        scenario.until_deployed("v1.9.0").await;
        scenario.wait(300).await;
        let phases = machines.values(|machine| machine["status"]["phase"].clone());
        assert_eq!(phases, ["Running"]);
        let after = scenario.get("VirtualMachineInstance", "web").await;
        assert_eq!(after["metadata"]["uid"], instance["metadata"]["uid"]);

        // New launcher pods have the new version.
        scenario
            .create(
                "Machine",
                json!({ "metadata": { "name": "new" }, "spec": { "template": "small" } }),
            )
            .await;
        scenario
            .until("Machine", "new", |machine| {
                machine["status"]["phase"] == "Running"
            })
            .await;
        let pods = scenario.list("Pod").await;
        let image = |machine: &str| {
            let of = |pod: &&serde_json::Value| {
                pod["metadata"]["name"]
                    .as_str()
                    .unwrap()
                    .starts_with(&format!("virt-launcher-{machine}-"))
            };
            let pod = pods.iter().find(of).unwrap();
            let containers = pod["spec"]["containers"].as_array().unwrap();
            let compute = containers
                .iter()
                .find(|one| one["name"] == "compute")
                .unwrap();
            compute["image"].as_str().unwrap().to_owned()
        };
        assert!(
            image("web").ends_with("virt-launcher:v1.8.4"),
            "{}",
            image("web")
        );
        assert!(
            image("new").ends_with("virt-launcher:v1.9.0"),
            "{}",
            image("new")
        );
        token.cancel();
        running.await.unwrap();
    });
}
