//! Access to guests: SSH keys, host names, console logs.

use serde_json::{Value, json};

use crate::{
    runner::{run_scenario, run_scenario_in_sandbox},
    scenario::{Scenario, condition},
};

const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKksNuZqJe6Z/4Yvqo6HmHvmx80Tw+5mHEAKRbDx47Ey ops@example.com";

async fn user_data(scenario: &Scenario) -> String {
    let secret = scenario.get("Secret", "web-cloud-init").await;
    let encoded = secret["data"]["userdata"].as_str().unwrap();
    let decoded = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, encoded);
    String::from_utf8(decoded.unwrap()).unwrap()
}

#[test]
fn keys_of_a_machine_are_in_its_cloud_init_data_and_changes_need_a_restart() {
    run_scenario(async {
        let scenario = Scenario::start().await;
        let spec = json!({ "template": "small", "sshKeys": [KEY] });
        scenario.create_machine("web", spec).await;
        scenario.until_phase("web", "Running").await;
        assert!(user_data(&scenario).await.contains(KEY));
        let changed = json!({ "sshKeys": [KEY.replace("ops@", "dev@")] });
        scenario.patch_spec("web", changed).await;
        scenario
            .until_condition("web", "RestartRequired", "True")
            .await;
        assert!(user_data(&scenario).await.contains("dev@example.com"));
    });
}

#[test]
fn a_machine_waits_for_the_secret_with_its_keys() {
    run_scenario(async {
        let scenario = Scenario::start().await;
        let spec = json!({ "template": "small", "sshKeySecrets": [{ "name": "team-keys" }] });
        scenario.create_machine("web", spec).await;
        let machine = scenario.until_phase("web", "Failed").await;
        let message = condition(&machine, "SpecValid")["message"]
            .as_str()
            .unwrap();
        assert!(
            message.contains("no Secret is named \"team-keys\""),
            "{message}"
        );
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "team-keys" },
            "stringData": { "ops": KEY },
        });
        scenario.create("Secret", secret).await;
        scenario.until_phase("web", "Running").await;
        let instance = scenario.get("VirtualMachineInstance", "web").await;
        let credential = &instance["spec"]["accessCredentials"][0]["sshPublicKey"];
        assert_eq!(credential["source"]["secret"]["secretName"], "team-keys");
        assert!(credential["propagationMethod"]["noCloud"].is_object());
    });
}

#[test]
fn a_host_name_is_reported_and_the_console_has_a_log() {
    run_scenario_in_sandbox("it needs launcher pods as KubeVirt makes them", async {
        let scenario = Scenario::start().await;
        let spec = json!({ "template": "small", "hostname": "db-1", "serialConsoleLog": true });
        scenario.create_machine("web", spec).await;
        let machine = scenario.until_phase("web", "Running").await;
        assert_eq!(machine["status"]["hostname"], "db-1");
        let pods = scenario.list("Pod").await;
        let launcher = &pods[0];
        assert_eq!(launcher["spec"]["hostname"], "db-1");
        let containers = launcher["spec"]["containers"].as_array().unwrap();
        let names: Vec<&Value> = containers.iter().map(|it| &it["name"]).collect();
        assert_eq!(names, ["compute", "guest-console-log"]);
        scenario
            .patch_spec("web", json!({ "hostname": "db-2" }))
            .await;
        scenario
            .until_condition("web", "RestartRequired", "True")
            .await;
        let machine = scenario.get("Machine", "web").await;
        assert_eq!(machine["status"]["hostname"], "db-1", "until the restart");
    });
}
