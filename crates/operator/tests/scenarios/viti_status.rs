//! The status that other programs of the Viti stack wait for.

use serde_json::{Value, json};

use crate::{
    runner::{Need, run_scenario, run_scenario_with},
    scenario::Scenario,
};

/// What talos-operator requires of a Machine before it configures the node.
fn is_ready_for_talos(machine: &Value) -> bool {
    let status = &machine["status"];
    let has_some = |list: &Value| list.as_array().is_some_and(|list| !list.is_empty());
    let disks = status["disks"].as_array().into_iter().flatten();
    let is_installable = |disk: &Value| disk["device"].is_string() && disk["pvcName"].is_string();
    status["phase"] == "Running"
        && status["provider"] == "kubevirt"
        && has_some(&status["publicIPAddresses"])
        && has_some(&status["networkInterfaces"])
        && disks.into_iter().any(is_installable)
}

#[test]
fn a_running_machine_is_ready_for_talos_operator() {
    run_scenario(async {
        let scenario = Scenario::start().await;
        let spec = json!({
            "instanceType": "small",
            "memory": "3Gi",
            "cpu": { "cores": 2 },
            "disks": [
                { "name": "disk-0", "size": "20Gi", "boot": true },
                { "name": "disk-1", "size": "5Gi", "bus": "sata" },
            ],
        });
        scenario.create_machine("ctp0", spec).await;
        let machine = scenario.until_phase("ctp0", "Running").await;
        assert!(is_ready_for_talos(&machine), "{machine:#}");
        let status = &machine["status"];
        assert_eq!(status["memory"], 3_i64 << 30);
        assert_eq!(status["memoryQuantity"], "3Gi");
        assert_eq!(status["cpus"], 2);
        assert_eq!(status["state"], "Running");
        assert_eq!(status["hostname"], "ctp0");
        let vm = scenario.get("VirtualMachine", "ctp0").await;
        assert_eq!(status["machineID"], vm["metadata"]["uid"]);
        let devices = |name: &str| {
            let mut disks = status["disks"].as_array().unwrap().iter();
            let disk = disks.find(|disk| disk["name"] == name).unwrap();
            (disk["device"].clone(), disk["size"].clone())
        };
        assert_eq!(
            devices("disk-0"),
            ("/dev/vda".into(), (20_i64 << 30).into())
        );
        assert_eq!(devices("disk-1"), ("/dev/sda".into(), (5_i64 << 30).into()));
        let instance = scenario.get("VirtualMachineInstance", "ctp0").await;
        let attached = &instance["status"]["interfaces"][0];
        let interface = &status["networkInterfaces"][0];
        assert_eq!(interface["name"], attached["name"]);
        assert_eq!(interface["macAddress"], attached["mac"]);
        assert_eq!(interface["ipAddresses"], status["publicIPAddresses"]);
        assert!(interface["type"].as_str().unwrap().contains("domain"));
        assert!(status["failureReason"].is_null());

        let reported = |machine: &Value| machine["status"]["operatingSystem"].is_string();
        let machine = scenario.until("Machine", "ctp0", reported).await;
        let os = &machine["status"]["operatingSystem"];
        assert_eq!(*os, "Fedora Linux 42 (Cloud Edition)");

        let off = json!({ "powerState": "Stopped" });
        scenario.patch_spec("ctp0", off).await;
        let machine = scenario.until_phase("ctp0", "Stopped").await;
        let status = &machine["status"];
        assert_eq!(status["state"], "Stopped");
        for gone in [
            "publicIPAddresses",
            "networkInterfaces",
            "hostname",
            "operatingSystem",
        ] {
            assert!(status[gone].is_null(), "{gone}");
        }
        assert!(status["disks"][0]["device"].is_null());
        assert_eq!(status["disks"][0]["pvcName"], "ctp0-disk-0");
    });
}

#[test]
fn a_failure_is_named_until_it_is_fixed() {
    // Kubernetes 1.20 keeps status fields that their only manager stops applying.
    run_scenario_with(&[Need::CurrentApis], async {
        let scenario = Scenario::start().await;
        let networks = json!([{ "name": "lan", "networkName": "office" }]);
        let spec = json!({ "template": "small", "networks": networks });
        scenario.create_machine("web", spec).await;
        let machine = scenario.until_phase("web", "Failed").await;
        let status = &machine["status"];
        assert_eq!(status["state"], "Failed");
        assert_eq!(status["failureReason"], "NetworkConfigurationNotFound");
        let message = status["failureMessage"].as_str().unwrap();
        assert!(message.contains("office"), "{message}");
        scenario
            .patch_spec("web", json!({ "networks": null }))
            .await;
        let machine = scenario.until_phase("web", "Running").await;
        assert!(machine["status"]["failureReason"].is_null());
        assert!(machine["status"]["failureMessage"].is_null());
    });
}
