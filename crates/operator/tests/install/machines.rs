//! Machines run on a KubeVirt that was installed so.

use std::time::Duration;

use kubevirt_operator::machine;
use sandbox::Setup;
use serde_json::json;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::{
    film::Film,
    ground::{Ground, NAME, condition, tell},
    stories::own_definitions,
};

fn define_machines(setup: &mut Setup) {
    setup.definitions = own_definitions();
}

/// Runs the Machine operator beside the KubeVirt operator.
fn start_machine_operator(ground: &Ground) -> (CancellationToken, JoinHandle<()>) {
    let options = machine::Options {
        namespaces: Vec::new(),
        reconcile_interval: Duration::from_secs(30),
        concurrency: 5,
        seed: 1,
        ..machine::Options::default()
    };
    let clock = ground.cluster.clock();
    let operator = machine::Operator::alone(ground.client.clone(), options, clock);
    let token = CancellationToken::new();
    let running = tokio::spawn(operator.run(token.clone()));
    (token, running)
}

#[test]
fn kubevirt_can_be_removed_under_machines_which_continue_after_the_next_installation() {
    tell(async {
        let ground = Ground::begin_with(define_machines).await;
        let (token, running) = start_machine_operator(&ground);
        let machine =
            |name: &str| json!({ "metadata": { "name": name }, "spec": { "template": "small" } });
        ground.create("Machine", machine("web")).await;
        ground.install("v1.9.0").await;
        ground.until_deployed("v1.9.0").await;
        let is_running = |machine: &serde_json::Value| machine["status"]["phase"] == "Running";
        ground.until("Machine", "web", is_running).await;
        let claim = ground.get("PersistentVolumeClaim", "web-root").await;

        let machines = Film::of(&ground, "VirtualMachine").await;
        let told = Film::of(&ground, "Machine").await;
        // Somebody holds the removal up, for longer than the operator waits to repeat itself.
        let hold = json!({ "metadata": { "finalizers": ["example.com/hold"] } });
        ground.patch("VirtualMachine", "web", hold).await;
        ground.delete("KubeVirt", NAME).await;
        // The Machine operator learns of the deletion by a watch of its own.
        ground.wait(2).await;
        ground.create("Machine", machine("late")).await;
        ground
            .until("Machine", "late", |machine| {
                condition(machine, "Ready")["reason"] == "KubeVirtBeingRemoved"
            })
            .await;
        ground.wait(60).await;
        let let_go = json!({ "metadata": { "finalizers": null } });
        ground.patch("VirtualMachine", "web", let_go).await;
        ground.until_gone("KubeVirt", NAME).await;
        let uids = machines.values(|vm| vm["metadata"]["uid"].clone());
        assert_eq!(uids.len(), 1, "a VirtualMachine was created: {uids:?}");
        let reasons = told.values(|machine| condition(machine, "Ready")["reason"].clone());
        assert!(!reasons.contains(&json!("StoppedByOther")), "{reasons:?}");

        ground.install("v1.9.0").await;
        ground.until_deployed("v1.9.0").await;
        ground.until("Machine", "web", is_running).await;
        ground.until("Machine", "late", is_running).await;
        let again = ground.get("PersistentVolumeClaim", "web-root").await;
        assert_eq!(again["metadata"]["uid"], claim["metadata"]["uid"]);
        token.cancel();
        running.await.unwrap();
    });
}

#[test]
fn a_machine_runs_on_it_and_goes_on_running_while_it_is_updated() {
    tell(async {
        let ground = Ground::begin_with(define_machines).await;
        let (token, running) = start_machine_operator(&ground);
        ground
            .create(
                "Machine",
                json!({ "metadata": { "name": "web" }, "spec": { "template": "small" } }),
            )
            .await;
        ground.install("v1.8.4").await;
        ground.until_deployed("v1.8.4").await;
        ground
            .until("Machine", "web", |machine| {
                machine["status"]["phase"] == "Running"
            })
            .await;
        let instance = ground.get("VirtualMachineInstance", "web").await;
        let machines = Film::of(&ground, "Machine").await;
        ground.change(json!({ "imageTag": "v1.9.0" })).await;
        ground.until_deployed("v1.9.0").await;
        ground.wait(300).await;
        let phases = machines.values(|machine| machine["status"]["phase"].clone());
        assert_eq!(phases, ["Running"]);
        let after = ground.get("VirtualMachineInstance", "web").await;
        assert_eq!(after["metadata"]["uid"], instance["metadata"]["uid"]);

        // What is new is made by the new version.
        ground
            .create(
                "Machine",
                json!({ "metadata": { "name": "new" }, "spec": { "template": "small" } }),
            )
            .await;
        ground
            .until("Machine", "new", |machine| {
                machine["status"]["phase"] == "Running"
            })
            .await;
        let pods = ground.list("Pod").await;
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
