//! Machines run on a KubeVirt that was installed so.

use std::{sync::Arc, time::Duration};

use kubevirt_operator::machine;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::{
    film::Film,
    ground::{Ground, tell},
};

#[test]
fn a_machine_runs_on_it_and_goes_on_running_while_it_is_updated() {
    tell(async {
        let ground = Ground::begin_with(|setup| {
            let definitions = api::crds();
            let definitions = definitions.iter().map(serde_json::to_value);
            setup.definitions = definitions.collect::<Result<_, _>>().unwrap();
        })
        .await;
        let server = ground.cluster.server().clone();
        let options = machine::Options {
            namespaces: Vec::new(),
            reconcile_interval: Duration::from_secs(30),
            concurrency: 5,
            seed: 1,
        };
        let clock = Arc::new(move || server.now());
        let operator = machine::Operator::alone(ground.client.clone(), options, clock);
        let token = CancellationToken::new();
        let running = tokio::spawn(operator.run(token.clone()));

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
