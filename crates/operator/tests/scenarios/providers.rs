//! Machines of other providers.

use kube::api::{Patch, PatchParams};
use plan::machine::Provider;
use serde_json::json;

use crate::{
    runner::{Need, run_scenario, run_scenario_alone},
    scenario::Scenario,
};

#[test]
fn machines_of_other_providers_are_left_alone() {
    run_scenario(async {
        let scenario = Scenario::start().await;
        let of = |provider: &str| json!({ "provider": provider, "template": "small" });
        scenario.create_machine("other", of("proxmox")).await;
        scenario.create_machine("web", of("kubevirt")).await;
        scenario.until_phase("web", "Running").await;
        let other = scenario.get("Machine", "other").await;
        assert!(other["status"].is_null(), "{other}");
        assert!(other["metadata"]["finalizers"].is_null(), "{other}");
        scenario
            .patch_spec("other", json!({ "template": "medium" }))
            .await;
        scenario.wait(5).await;
        let changed = scenario.get("Machine", "other").await;
        assert_eq!(changed["metadata"]["generation"], 2);
        assert!(changed["status"].is_null(), "{changed}");
        assert!(scenario.find("VirtualMachine", "other").await.is_none());
        assert!(scenario.reasons("other").await.is_empty());
        let counted = scenario.metric(r#"machines_total{phase="Running",template="small"}"#);
        assert_eq!(counted, Some(1.0));
        scenario.delete("Machine", "other").await;
        scenario.until_gone("Machine", "other").await;
    });
}

#[test]
fn the_status_of_another_providers_operator_is_kept() {
    run_scenario(async {
        let scenario = Scenario::start().await;
        let spec = json!({ "provider": "proxmox", "template": "small" });
        scenario.create_machine("other", spec).await;
        let time = "2026-11-01T10:00:00Z";
        // Fields and phases of vitistack/common, as its operators write them: what is unknown is left out.
        let status = json!({
            "phase": "Stopping", "state": "shutdown", "message": "The guest is shutting down",
            "provider": "proxmox", "providerID": "100", "region": "north", "zone": "a",
            "architecture": "amd64", "kernelVersion": "6.12", "operatingSystemVersion": "12",
            "bootTime": time, "creationTime": time,
            "conditions": [{ "type": "Ready", "status": "False" }],
            "disks": [{
                "name": "scsi0", "type": "SSD", "label": "root", "serialNumber": "1",
                "filesystemType": "ext4", "mountPoint": "/", "volumeMode": "Block",
                "accessModes": ["ReadWriteOnce"], "usedBytes": 1, "availableBytes": 2,
                "usagePercent": "33.3%",
            }],
            "networkInterfaces": [{ "name": "net0", "mtu": 1500 }],
        });
        let params = PatchParams::default();
        let patch = Patch::Merge(json!({ "status": status }));
        let machines = scenario.api("Machine");
        machines
            .patch_status("other", &params, &patch)
            .await
            .unwrap();
        assert_eq!(scenario.get("Machine", "other").await["status"], status);

        // A Machine that comes to this provider gets this operator's status beside it.
        scenario
            .patch_spec("other", json!({ "provider": "kubevirt" }))
            .await;
        let machine = scenario.until_phase("other", "Running").await;
        assert_eq!(machine["status"]["provider"], "kubevirt");
        assert_eq!(machine["status"]["region"], "north");
    });
}

#[test]
fn a_machine_that_moves_to_another_provider_is_left_as_it_is_until_it_is_deleted() {
    run_scenario(async {
        let scenario = Scenario::start().await;
        scenario
            .create_machine("web", json!({ "template": "small" }))
            .await;
        let machine = scenario.until_phase("web", "Running").await;
        scenario
            .patch_spec(
                "web",
                json!({ "provider": "proxmox", "powerState": "Stopped" }),
            )
            .await;
        scenario.wait(5).await;
        assert_eq!(
            scenario.get("Machine", "web").await["status"],
            machine["status"]
        );
        let vm = scenario.get("VirtualMachine", "web").await;
        assert_eq!(vm["spec"]["runStrategy"], "Always");
        scenario.delete("Machine", "web").await;
        scenario.until_gone("Machine", "web").await;
        assert!(scenario.find("VirtualMachine", "web").await.is_none());
        assert!(scenario.list("PersistentVolumeClaim").await.is_empty());
    });
}

#[test]
fn the_provider_is_a_setting() {
    run_scenario(async {
        let mut scenario = Scenario::without_operator().await;
        scenario.start_operator_with(|options| {
            options.provider = Provider::new("kubevirt-east");
        });
        for (name, provider) in [("east", "kubevirt-east"), ("west", "kubevirt")] {
            let spec = json!({ "provider": provider, "template": "small" });
            scenario.create_machine(name, spec).await;
        }
        scenario.until_phase("east", "Running").await;
        assert!(scenario.find("VirtualMachine", "west").await.is_none());
    });
}

#[test]
fn the_webhook_admits_machines_of_other_providers_without_checks() {
    run_scenario_alone(&[Need::Services, Need::Cel], async {
        let scenario = Scenario::with_webhook().await;
        // No such class.
        let spec = json!({ "provider": "proxmox", "machineClass": "standard-b2s" });
        scenario.create_machine("other", spec).await;
        assert!(scenario.find("Machine", "other").await.is_some());
    });
}
