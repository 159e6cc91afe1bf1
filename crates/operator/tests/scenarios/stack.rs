//! Machines as other programs of the Viti stack write them.

use serde_json::{Value, json};

use crate::{runner::run_scenario, scenario::Scenario};

const IMAGE: &str = "https://factory.example.com/metal-amd64.iso";

/// A Machine as talos-operator creates it: a Go client writes empty objects for fields that are not set.
fn control_plane(name: &str, os: &Value) -> Value {
    let annotations = match os["imageID"].as_str() {
        Some(_) => json!({
            "kubevirt.io/boot-source": "datavolume",
            "kubevirt.io/boot-source-type": "http",
        }),
        None => json!({}),
    };
    json!({
        "metadata": {
            "name": name,
            "annotations": annotations,
            "labels": {
                "vitistack.io/clusterid": "c1",
                "vitistack.io/node-role": "control-plane",
            },
        },
        "spec": {
            "name": name,
            "provider": "kubevirt",
            "machineClass": format!("{name}-class"),
            "cpu": {},
            "disks": [
                { "name": "disk-0", "sizeGB": 20, "boot": true, "type": "virtio" },
                { "name": "disk-1", "sizeGB": 5 },
            ],
            "network": {},
            "os": os,
            "providerConfig": {},
            "backup": {},
            "cloudInit": { "type": "noCloud" },
            "tags": { "cluster": "c1", "role": "control-plane" },
        },
        "status": {},
    })
}

async fn create(scenario: &Scenario, name: &str, os: Value) {
    let class = json!({
        "metadata": { "name": format!("{name}-class") },
        "spec": {
            "category": "Standard", "default": false, "enabled": true,
            "cpu": { "cores": 2, "sockets": 0, "threads": 0 },
            "memory": { "quantity": "2Gi" },
            "machineProviders": ["kubevirt"],
        },
    });
    scenario.create("MachineClass", class).await;
    scenario.create("Machine", control_plane(name, &os)).await;
}

async fn finish(scenario: &Scenario, name: &str) {
    scenario.delete("Machine", name).await;
    scenario.until_gone("Machine", name).await;
    assert!(scenario.list("PersistentVolumeClaim").await.is_empty());
    scenario
        .delete("MachineClass", &format!("{name}-class"))
        .await;
}

#[test]
fn a_node_boots_from_the_network() {
    run_scenario(async {
        let scenario = Scenario::start().await;
        create(&scenario, "c1-ctp0", json!({})).await;
        scenario.until_phase("c1-ctp0", "Running").await;
        let vm = scenario.get("VirtualMachine", "c1-ctp0").await;
        let devices = &vm["spec"]["template"]["spec"]["domain"]["devices"];
        assert_eq!(devices["disks"][0]["bootOrder"], 1);
        assert_eq!(devices["interfaces"][0]["bootOrder"], 2);
        for labels in [
            &vm["metadata"]["labels"],
            &vm["spec"]["template"]["metadata"]["labels"],
        ] {
            assert_eq!(labels["vitistack.io/source-machine"], "c1-ctp0");
            assert_eq!(labels["vitistack.io/clusterid"], "c1");
            assert_eq!(labels["vitistack.io/node-role"], "control-plane");
        }
        let instance = scenario.get("VirtualMachineInstance", "c1-ctp0").await;
        let labels = &instance["metadata"]["labels"];
        assert_eq!(labels["vitistack.io/source-machine"], "c1-ctp0");
        let claim = scenario
            .get("PersistentVolumeClaim", "c1-ctp0-disk-1")
            .await;
        assert_eq!(claim["spec"]["resources"]["requests"]["storage"], "5Gi");
        finish(&scenario, "c1-ctp0").await;
    });
}

#[test]
fn a_node_is_installed_from_an_image_which_is_then_ejected_and_deleted() {
    run_scenario(async {
        let scenario = Scenario::start().await;
        let os = json!({
            "family": "linux", "distribution": "talos", "architecture": "amd64", "imageID": IMAGE,
        });
        create(&scenario, "c1-ctp1", os).await;
        scenario.until_phase("c1-ctp1", "Running").await;
        let volume = scenario.get("DataVolume", "c1-ctp1-iso").await;
        assert_eq!(volume["spec"]["source"]["http"]["url"], IMAGE);
        let disks = "/spec/template/spec/domain/devices/disks";
        let is_attached = |vm: &Value| {
            let disks = vm.pointer(disks).and_then(Value::as_array).unwrap();
            disks.iter().any(|disk| disk["name"] == "iso")
        };
        let vm = scenario.get("VirtualMachine", "c1-ctp1").await;
        assert_eq!(
            vm.pointer(disks).unwrap()[2],
            json!({ "name": "iso", "bootOrder": 2, "cdrom": { "bus": "sata" } })
        );
        let installed = json!({ "vitistack.io/os-installed": "true" });
        scenario
            .patch(
                "Machine",
                "c1-ctp1",
                json!({ "metadata": { "annotations": installed } }),
            )
            .await;
        scenario
            .until("VirtualMachine", "c1-ctp1", |vm| !is_attached(vm))
            .await;
        // The running guest still has it in its drive.
        scenario.wait(5).await;
        assert!(scenario.find("DataVolume", "c1-ctp1-iso").await.is_some());
        scenario
            .patch_spec("c1-ctp1", json!({ "restartedAt": "2026-01-01T00:00:00Z" }))
            .await;
        scenario.until_gone("DataVolume", "c1-ctp1-iso").await;
        scenario
            .until_gone("PersistentVolumeClaim", "c1-ctp1-iso")
            .await;
        scenario.until_phase("c1-ctp1", "Running").await;
        let claims = scenario.list("PersistentVolumeClaim").await;
        assert_eq!(claims.len(), 2, "disks with data stay");
        finish(&scenario, "c1-ctp1").await;
    });
}

#[test]
fn cloud_init_data_comes_from_a_config_map_and_a_secret() {
    run_scenario(async {
        let scenario = Scenario::start().await;
        let cloud_init = json!({
            "userDataConfigMapRef": { "name": "init" },
            "networkDataSecretRef": { "name": "addresses", "key": "net" },
        });
        let spec = json!({ "template": "small", "cloudInit": cloud_init });
        scenario.create_machine("web", spec).await;
        scenario.until_condition("web", "SpecValid", "False").await;
        let map =
            json!({ "metadata": { "name": "init" }, "data": { "userdata": "#cloud-config" } });
        scenario.create("ConfigMap", map).await;
        let data =
            json!({ "metadata": { "name": "addresses" }, "stringData": { "net": "version: 2" } });
        scenario.create("Secret", data).await;
        scenario.until_phase("web", "Running").await;
        let secret = scenario.get("Secret", "web-cloud-init").await;
        assert_eq!(secret["data"]["userdata"], "I2Nsb3VkLWNvbmZpZw==");
        assert_eq!(secret["data"]["networkdata"], "dmVyc2lvbjogMg==");
        let vm = scenario.get("VirtualMachine", "web").await;
        let volumes = &vm["spec"]["template"]["spec"]["volumes"];
        let source = &volumes[1]["cloudInitNoCloud"];
        assert_eq!(source["networkDataSecretRef"]["name"], "web-cloud-init");
    });
}
