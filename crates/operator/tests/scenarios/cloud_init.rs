//! Cloud-init data, and the Secrets that it comes from.

use serde_json::{Value, json};

use crate::{
    runner::run_scenario,
    scenario::{Scenario, condition},
};

fn uid(object: &Value) -> String {
    object["metadata"]["uid"].as_str().unwrap().to_owned()
}

#[test]
fn new_cloud_init_data_waits_in_its_secret_for_a_restart() {
    run_scenario(async {
        let scenario = Scenario::start().await;
        let data = |host: &str| json!({ "userData": format!("#cloud-config\nhostname: {host}\n") });
        let spec = json!({ "template": "small", "cloudInit": data("one") });
        scenario.create_machine("web", spec).await;
        scenario.until_phase("web", "Running").await;
        let before = scenario.get("Secret", "web-cloud-init").await;

        scenario
            .patch_spec("web", json!({ "cloudInit": data("two") }))
            .await;
        let required = scenario
            .until_condition("web", "RestartRequired", "True")
            .await;
        assert!(required["message"].as_str().unwrap().contains("cloud-init"));
        let after = scenario.get("Secret", "web-cloud-init").await;
        assert_ne!(before["data"]["userdata"], after["data"]["userdata"]);
        assert_eq!(uid(&before), uid(&after));

        let requested = json!({ "restartedAt": "2026-11-15T12:00:00Z" });
        scenario.patch_spec("web", requested).await;
        scenario
            .until_condition("web", "RestartRequired", "False")
            .await;
        scenario.until_phase("web", "Running").await;
    });
}

#[test]
fn a_machine_waits_for_the_secret_that_it_names() {
    run_scenario(async {
        let scenario = Scenario::start().await;
        let spec = json!({
            "template": "small",
            "cloudInit": { "secretRef": { "name": "seed", "key": "data" } },
        });
        scenario.create_machine("web", spec).await;
        let ready = scenario
            .until("Machine", "web", |machine| {
                condition(machine, "SpecValid")["status"] == "False"
            })
            .await;
        let message = condition(&ready, "SpecValid")["message"].as_str().unwrap();
        assert!(message.contains("\"seed\""), "{message}");
        assert!(scenario.find("VirtualMachine", "web").await.is_none());

        // The Secret exists, but without the key.
        let secret = |key: &str| {
            json!({
                "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "seed" },
                "stringData": { key: "#cloud-config\n" },
            })
        };
        scenario.apply_object(secret("wrong")).await;
        let machine = scenario
            .until("Machine", "web", |machine| {
                let valid = condition(machine, "SpecValid");
                let message = valid["message"].as_str().unwrap_or_default();
                message.contains("\"data\"")
            })
            .await;
        assert_eq!(machine["status"]["phase"], "Failed");

        scenario.apply_object(secret("data")).await;
        scenario.until_phase("web", "Running").await;
        let own_secret = scenario.get("Secret", "web-cloud-init").await;
        let foreign_change = scenario.get("Secret", "seed").await;
        assert_eq!(
            own_secret["data"]["userdata"],
            foreign_change["data"]["data"]
        );
    });
}
