//! The pod network beside others, and addresses in the spec.

use serde_json::json;

use crate::{runner::run_scenario, scenario::Scenario};

const NETWORK: &str = "
apiVersion: vitistack.io/v1alpha1
kind: NetworkConfiguration
metadata: {name: lan}
spec: {bridge: br0, vlan: 42}
";

#[test]
fn a_machine_has_the_pod_network_beside_a_vlan() {
    run_scenario(async {
        let scenario = Scenario::start().await;
        scenario.apply(NETWORK).await;
        let networks =
            json!([{ "name": "internal", "pod": true }, { "name": "lan", "networkName": "lan" }]);
        let spec = json!({ "template": "small", "networks": networks });
        scenario.create_machine("web", spec).await;
        let machine = scenario.until_phase("web", "Running").await;
        let interfaces = machine["status"]["networkInterfaces"].as_array().unwrap();
        assert_eq!(interfaces.len(), 2, "{interfaces:?}");
        let instance = scenario.get("VirtualMachineInstance", "web").await;
        let networks = instance["spec"]["networks"].as_array().unwrap();
        assert!(networks[0]["pod"].is_object());
        assert_eq!(networks[1]["multus"]["networkName"], "lan");
    });
}

#[test]
fn addresses_of_the_spec_reach_the_guest_through_cloud_init() {
    run_scenario(async {
        let scenario = Scenario::start().await;
        scenario.apply(NETWORK).await;
        let network = |address: &str| {
            json!([{
                "name": "lan", "networkName": "lan", "addresses": [address], "gateway": "192.0.2.1",
            }])
        };
        let spec = json!({ "template": "small", "networks": network("192.0.2.10/24") });
        scenario.create_machine("web", spec).await;
        scenario.until_phase("web", "Running").await;
        let vm = scenario.get("VirtualMachine", "web").await;
        let interface = &vm["spec"]["template"]["spec"]["domain"]["devices"]["interfaces"][0];
        let mac_address = interface["macAddress"].as_str().unwrap();
        assert!(network_data(&scenario).await.contains(mac_address));
        assert!(network_data(&scenario).await.contains("192.0.2.10/24"));
        scenario
            .patch_spec("web", json!({ "networks": network("192.0.2.11/24") }))
            .await;
        scenario
            .until_condition("web", "RestartRequired", "True")
            .await;
        assert!(network_data(&scenario).await.contains("192.0.2.11/24"));
        scenario.wait_long().await;
        let later = scenario.get("VirtualMachine", "web").await;
        let interface = &later["spec"]["template"]["spec"]["domain"]["devices"]["interfaces"][0];
        assert_eq!(interface["macAddress"], mac_address, "it stays");
    });
}

async fn network_data(scenario: &Scenario) -> String {
    let secret = scenario.get("Secret", "web-cloud-init").await;
    let encoded = secret["data"]["networkdata"].as_str().unwrap();
    let decoded = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, encoded);
    String::from_utf8(decoded.unwrap()).unwrap()
}
