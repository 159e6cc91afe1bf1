//! Creation of Machines.

use serde_json::{Value, json};

use crate::{
    runner::{Need, run_scenario, run_scenario_alone, run_scenario_with},
    scenario::{Scenario, condition},
};

#[test]
fn a_minimal_machine_becomes_a_running_virtual_machine() {
    run_scenario(async {
        let scenario = Scenario::start().await;
        scenario
            .create_machine("web", json!({ "template": "small" }))
            .await;
        let machine = scenario.until_phase("web", "Running").await;

        assert_eq!(condition(&machine, "Ready")["status"], "True");
        for (part, reason) in [
            ("VirtualMachineReady", "VMCreated"),
            ("StorageReady", "PVCBound"),
            ("NetworkReady", "NetworkConfigured"),
        ] {
            assert_eq!(condition(&machine, part)["status"], "True");
            assert_eq!(condition(&machine, part)["reason"], reason);
        }
        let claim = scenario.get("PersistentVolumeClaim", "web-root").await;
        assert_eq!(claim["spec"]["resources"]["requests"]["storage"], "20Gi");
        assert_eq!(claim["status"]["phase"], "Bound");
    });
}

#[test]
fn a_running_machine_reports_its_node_addresses_and_size() {
    run_scenario(async {
        let scenario = Scenario::start().await;
        let spec = json!({ "template": "medium", "name": "web-vm" });
        scenario.create_machine("web", spec).await;
        let machine = scenario.until_phase("web", "Running").await;

        let vm = scenario.get("VirtualMachine", "web-vm").await;
        let instance = scenario.get("VirtualMachineInstance", "web-vm").await;
        let status = &machine["status"];
        assert_eq!(status["vmName"], "web-vm");
        assert_eq!(status["vmiName"], "web-vm");
        assert_eq!(status["nodeName"], instance["status"]["nodeName"]);
        let address = &instance["status"]["interfaces"][0]["ipAddress"];
        assert_eq!(status["ipAddresses"], json!([address]));
        assert_eq!(status["vcpus"], 2);
        assert_eq!(status["memoryQuantity"], "4Gi");
        assert_eq!(status["observedGeneration"], 1);
        assert!(status["lastUpdated"].is_string());
        assert!(status["resourceVersion"].is_string());
        assert_eq!(
            vm["metadata"]["ownerReferences"][0]["uid"],
            machine["metadata"]["uid"]
        );
        assert_eq!(scenario.find("VirtualMachine", "web").await, None);
    });
}

#[test]
fn kubectl_get_machines_shows_the_printer_columns() {
    run_scenario(async {
        let scenario = Scenario::start().await;
        scenario
            .create_machine("web", json!({ "template": "small" }))
            .await;
        let machine = scenario.until_phase("web", "Running").await;
        let (columns, cells) = table(&scenario).await;
        let expected = [
            "Name",
            "Phase",
            "Ready",
            "Reason",
            "IP",
            "Node",
            "Restart Required",
        ];
        assert_eq!(columns[..7], expected.map(|name| (name.to_owned(), 0)));
        let expected = ["CPU", "Requested CPU", "Memory", "Requested Memory"];
        assert_eq!(columns[7..11], expected.map(|name| (name.to_owned(), 1)));
        assert_eq!(columns[11..], [("Age".to_owned(), 0)]);
        let status = &machine["status"];
        let address = &status["ipAddresses"][0];
        let shown = json!([
            "web",
            "Running",
            "True",
            "Running",
            address,
            status["nodeName"]
        ]);
        assert_eq!(json!(cells[..6]), shown);
        assert_eq!(json!(cells[6..11]), json!(["False", 1, null, "2Gi", null]));

        // The guest keeps its size until a restart.
        scenario
            .patch_spec("web", json!({ "template": "large" }))
            .await;
        scenario
            .until_condition("web", "RestartRequired", "True")
            .await;
        let (_, cells) = table(&scenario).await;
        assert_eq!(json!(cells[6..11]), json!(["True", 1, 4, "2Gi", "8Gi"]));
    });
}

/// Printer columns of Machines with their priorities, and the cells of the first Machine.
async fn table(scenario: &Scenario) -> (Vec<(String, u64)>, Vec<Value>) {
    let namespace = &scenario.namespace;
    let path = format!("/apis/vitistack.io/v1alpha1/namespaces/{namespace}/machines");
    let request = http::Request::get(path)
        .header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
        .body(Vec::new())
        .unwrap();
    let table: Value = scenario.client.request(request).await.unwrap();
    let columns = table["columnDefinitions"].as_array().unwrap().iter();
    let columns = columns.map(|column| {
        let name = column["name"].as_str().unwrap();
        (name.to_owned(), column["priority"].as_u64().unwrap())
    });
    let cells = table["rows"][0]["cells"].as_array().unwrap();
    (columns.collect(), cells.clone())
}

#[test]
fn labels_and_annotations_of_the_vitistack_domain_reach_the_guest() {
    run_scenario(async {
        let scenario = Scenario::start().await;
        let machine = json!({
            "metadata": {
                "name": "web",
                "labels": { "cluster.vitistack.io/cluster-name": "prod", "team": "blue" },
                "annotations": { "vitistack.io/ticket": "OPS-1", "note": "private" },
            },
            "spec": { "template": "small" },
        });
        scenario.create("Machine", machine).await;
        scenario.until_phase("web", "Running").await;
        let instance = scenario.get("VirtualMachineInstance", "web").await;
        let labels = &instance["metadata"]["labels"];
        assert_eq!(labels["cluster.vitistack.io/cluster-name"], "prod");
        assert_eq!(labels["vitistack.io/machine"], "web");
        assert_eq!(labels["vitistack.io/managed-by"], "kubevirt-operator");
        assert_eq!(labels["team"], Value::Null);
        let annotations = &instance["metadata"]["annotations"];
        assert_eq!(annotations["vitistack.io/ticket"], "OPS-1");
        assert_eq!(annotations["note"], Value::Null);
    });
}

#[test]
fn cloud_init_data_is_in_a_secret_and_nowhere_else() {
    run_scenario(async {
        let scenario = Scenario::start().await;
        let secrecy = "#cloud-config\npassword: hunter2";
        let spec = json!({ "template": "small", "cloudInit": { "userData": secrecy } });
        scenario.create_machine("web", spec).await;
        let machine = scenario.until_phase("web", "Running").await;

        let vm = scenario.get("VirtualMachine", "web").await;
        let volumes = vm["spec"]["template"]["spec"]["volumes"]
            .as_array()
            .unwrap();
        let volume = volumes
            .iter()
            .find(|volume| volume["cloudInitNoCloud"].is_object());
        let secret = &volume.unwrap()["cloudInitNoCloud"]["secretRef"]["name"];
        let secret = scenario.get("Secret", secret.as_str().unwrap()).await;
        let encoded = secret["data"]["userdata"].as_str().unwrap();
        assert_eq!(encoded, "I2Nsb3VkLWNvbmZpZwpwYXNzd29yZDogaHVudGVyMg==");
        let owner = &secret["metadata"]["ownerReferences"][0];
        assert_eq!(owner["uid"], machine["metadata"]["uid"]);

        let events = scenario.list("Event").await;
        let instances = scenario.list("VirtualMachineInstance").await;
        let status = &machine["status"];
        let outputs = format!("{vm} {status} {events:?} {instances:?}");
        assert!(!outputs.contains("hunter2") && !outputs.contains(encoded));
    });
}

#[test]
fn cloud_init_data_of_a_users_secret_is_used() {
    run_scenario(async {
        let scenario = Scenario::start().await;
        let spec = json!({
            "template": "small",
            "cloudInit": { "secretRef": { "name": "mine", "key": "bootstrap" } },
        });
        scenario.create_machine("web", spec).await;
        // It reports the missing objects, and continues once they exist.
        scenario.until_phase("web", "Failed").await;
        let secret =
            json!({ "metadata": { "name": "mine" }, "stringData": { "bootstrap": "#!/bin/sh" } });
        scenario.create("Secret", secret).await;
        scenario.until_phase("web", "Running").await;

        let secrets = scenario.list("Secret").await;
        let own_secrets: Vec<_> = secrets
            .iter()
            .filter(|secret| secret["metadata"]["labels"]["vitistack.io/machine"] == "web")
            .collect();
        assert_eq!(own_secrets.len(), 1);
        assert_eq!(own_secrets[0]["data"]["userdata"], "IyEvYmluL3No");
    });
}

#[test]
fn a_new_machine_has_events_for_its_creation_and_start_only() {
    run_scenario(async {
        let scenario = Scenario::start().await;
        scenario
            .create_machine("web", json!({ "template": "small" }))
            .await;
        let machine = scenario.until_phase("web", "Running").await;
        scenario.wait(2).await;
        let node = machine["status"]["nodeName"].as_str().unwrap();
        let created = "Created VirtualMachine web with 1 CPU and 2Gi of memory, disks root (20Gi)";
        let outputs = [
            ("Created".to_owned(), created.to_owned()),
            ("Started".to_owned(), format!("Running on {node}")),
        ];
        assert_eq!(scenario.events("web").await, outputs);
    });
}

#[test]
fn a_machine_goes_from_creating_to_running_without_a_failed_phase() {
    run_scenario(async {
        let scenario = Scenario::start().await;
        let recording = scenario.record(&["Machine"]).await;
        scenario
            .create_machine("web", json!({ "template": "small" }))
            .await;
        scenario.until_phase("web", "Running").await;
        scenario.wait(2).await;

        let mut phases: Vec<_> = recording
            .of("Machine", "web")
            .iter()
            .map(|change| change.object["status"]["phase"].clone())
            .collect();
        phases.dedup();
        assert_eq!(phases, [Value::Null, "Creating".into(), "Running".into()]);
        let failed = recording.of("Machine", "web").iter().any(|change| {
            let ready = condition(&change.object, "Ready");
            !["", "Creating", "Running"].contains(&ready["reason"].as_str().unwrap_or_default())
        });
        assert!(!failed);
    });
}

#[test]
fn a_hundred_machines_come_up_at_once() {
    run_scenario_alone(&[], async {
        let scenario = Scenario::start_with(|setup| setup.nodes = 10).await;
        for number in 0..100 {
            let name = format!("web-{number}");
            scenario
                .create_machine(&name, json!({ "template": "small" }))
                .await;
        }
        let started = tokio::time::Instant::now();
        for number in 0..100 {
            scenario
                .until_phase(&format!("web-{number}"), "Running")
                .await;
        }
        // Guests take a few seconds to start, and start in parallel.
        assert!(
            started.elapsed() < scenario.cluster.timeout_of(60),
            "{:?}",
            started.elapsed()
        );
        assert_eq!(scenario.list("VirtualMachine").await.len(), 100);
        assert_eq!(scenario.list("PersistentVolumeClaim").await.len(), 100);
    });
}

#[test]
fn a_machine_created_before_the_operator_starts_comes_up() {
    run_scenario(async {
        let mut scenario = Scenario::without_operator().await;
        scenario
            .create_machine("web", json!({ "template": "small" }))
            .await;
        scenario.wait(5).await;
        assert_eq!(scenario.get("Machine", "web").await["status"], Value::Null);
        scenario.start_operator();
        scenario.until_phase("web", "Running").await;
        assert_eq!(scenario.reasons("web").await, ["Created", "Started"]);
    });
}

#[test]
fn a_crash_after_any_write_of_a_creation_is_recovered_from() {
    for writes in 1..=6 {
        run_scenario(async move {
            let mut scenario = Scenario::without_operator().await;
            let recording = scenario.record(&["VirtualMachineInstance", "Secret"]).await;
            scenario.faults.hang_after_writes(writes);
            scenario.start_operator();
            let spec = json!({ "template": "small", "cloudInit": { "userData": "#!/bin/sh" } });
            scenario.create_machine("web", spec).await;
            scenario.until_writes(writes).await;
            scenario.kill_operator().await;
            scenario.faults.clear();
            scenario.start_operator();

            let machine = scenario.until_phase("web", "Running").await;
            assert_eq!(condition(&machine, "Ready")["status"], "True");
            scenario.wait(2).await;
            for kind in ["VirtualMachine", "PersistentVolumeClaim"] {
                assert_eq!(scenario.list(kind).await.len(), 1, "after {writes} writes");
            }
            let starts = recording.of("VirtualMachineInstance", "web");
            let ends = starts.iter().filter(|change| change.is_deletion);
            assert_eq!(ends.count(), 0, "after {writes} writes");
            assert_eq!(
                machine["metadata"]["finalizers"].as_array().unwrap().len(),
                1
            );
        });
    }
}

/// Creates the StorageClasses that examples name, as copies of the existing one.
async fn add_storage_classes(scenario: &Scenario) {
    let standard = scenario.get("StorageClass", "standard").await;
    for name in ["fast-ssd", "replicated", "replicated-fast"] {
        let mut class = standard.clone();
        class["metadata"] = json!({ "name": name });
        let yaml = class.to_string();
        scenario.apply(&yaml).await;
    }
}

/// Labels the nodes, and offers the devices and pages that the example with every field asks for.
async fn offer_every_resource(scenario: &Scenario) {
    let amounts = json!({
        "cpu": "64", "hugepages-2Mi": "16Gi", "nvidia.com/GA102GL_A10": "1", "intel.com/qat": "1",
    });
    let status = json!({ "status": { "allocatable": amounts, "capacity": amounts } });
    for node in scenario.list("Node").await {
        let name = node["metadata"]["name"].as_str().unwrap();
        let labels = json!({ "disktype": "ssd", "topology.kubernetes.io/zone": name });
        let labelled = json!({ "metadata": { "labels": labels } });
        scenario.patch("Node", name, labelled).await;
        let params = kube::api::PatchParams::default();
        let patch = kube::api::Patch::Merge(&status);
        let nodes = scenario.api("Node");
        nodes.patch_status(name, &params, &patch).await.unwrap();
    }
}

/// Applies an example, and waits until its Machine has a reason of Ready.
async fn assert_comes_up(file: &str, reason: &str) {
    let scenario = Scenario::start().await;
    add_storage_classes(&scenario).await;
    if file == "machine-every-field" {
        scenario.apply(GOLDEN_IMAGE).await;
        scenario.allow_clones_from("golden-images").await;
        offer_every_resource(&scenario).await;
    }
    let path = format!("{}/../../examples/{file}.yaml", env!("CARGO_MANIFEST_DIR"));
    scenario
        .apply(&std::fs::read_to_string(path).unwrap())
        .await;
    let machines = scenario.list("Machine").await;
    for machine in machines {
        let name = machine["metadata"]["name"].as_str().unwrap();
        scenario.until_reason(name, reason).await;
    }
}

/// Source that one of the examples clones a disk from.
const GOLDEN_IMAGE: &str = "
apiVersion: v1
kind: Namespace
metadata: {name: golden-images}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: tools-iso, namespace: golden-images}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: cdi.kubevirt.io/v1beta1
kind: DataSource
metadata: {name: tools-iso, namespace: golden-images}
spec: {source: {pvc: {name: tools-iso, namespace: golden-images}}}
";

#[test]
fn every_example_comes_up() {
    for file in [
        "machine-class",
        "machine-cloud-init-secret",
        "machine-cloud-init",
        "machine-image",
        "machine-instance-type",
        "machine-netboot",
        "machine-networks",
        "machine-overrides",
        "machine-small",
        "machine-static-network",
        "machine-three-disks",
        "machine-windows",
    ] {
        run_scenario(assert_comes_up(file, "Running"));
    }
    run_scenario(assert_comes_up("machine-stopped", "Stopped"));
}

#[test]
fn the_example_with_every_field_comes_up() {
    run_scenario_with(&[Need::Services], async {
        assert_comes_up("machine-every-field", "Paused").await;
    });
}
