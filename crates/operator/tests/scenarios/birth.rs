//! How Machines come to be.

use serde_json::{Value, json};

use crate::{
    ground::{Need, tell, tell_alone, tell_with},
    story::{Story, condition},
};

#[test]
fn a_machine_of_one_line_becomes_a_running_virtual_machine() {
    tell(async {
        let story = Story::begin().await;
        story.machine("web", json!({ "template": "small" })).await;
        let machine = story.until_phase("web", "Running").await;

        assert_eq!(condition(&machine, "Ready")["status"], "True");
        for (part, reason) in [
            ("VirtualMachineReady", "VMCreated"),
            ("StorageReady", "PVCBound"),
            ("NetworkReady", "NetworkConfigured"),
        ] {
            assert_eq!(condition(&machine, part)["status"], "True");
            assert_eq!(condition(&machine, part)["reason"], reason);
        }
        let claim = story.get("PersistentVolumeClaim", "web-root").await;
        assert_eq!(claim["spec"]["resources"]["requests"]["storage"], "20Gi");
        assert_eq!(claim["status"]["phase"], "Bound");
    });
}

#[test]
fn a_running_machine_tells_where_it_is_and_how_large() {
    tell(async {
        let story = Story::begin().await;
        let spec = json!({ "template": "medium", "name": "web-vm" });
        story.machine("web", spec).await;
        let machine = story.until_phase("web", "Running").await;

        let vm = story.get("VirtualMachine", "web-vm").await;
        let instance = story.get("VirtualMachineInstance", "web-vm").await;
        let status = &machine["status"];
        assert_eq!(status["vmName"], "web-vm");
        assert_eq!(status["vmiName"], "web-vm");
        assert_eq!(status["nodeName"], instance["status"]["nodeName"]);
        let address = &instance["status"]["interfaces"][0]["ipAddress"];
        assert_eq!(status["ipAddresses"], json!([address]));
        assert_eq!(status["vcpus"], 2);
        assert_eq!(status["memory"], "4Gi");
        assert_eq!(status["observedGeneration"], 1);
        assert!(status["lastUpdated"].is_string());
        assert!(status["resourceVersion"].is_string());
        assert_eq!(
            vm["metadata"]["ownerReferences"][0]["uid"],
            machine["metadata"]["uid"]
        );
        assert_eq!(story.find("VirtualMachine", "web").await, None);
    });
}

#[test]
fn kubectl_get_machines_shows_what_people_look_for() {
    tell(async {
        let story = Story::begin().await;
        story.machine("web", json!({ "template": "small" })).await;
        let machine = story.until_phase("web", "Running").await;
        let (columns, cells) = table(&story).await;
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

        // The guest keeps its size until it is restarted.
        story.change("web", json!({ "template": "large" })).await;
        story
            .until_condition("web", "RestartRequired", "True")
            .await;
        let (_, cells) = table(&story).await;
        assert_eq!(json!(cells[6..11]), json!(["True", 1, 4, "2Gi", "8Gi"]));
    });
}

/// The columns of Machines with their priorities, and the cells of the first one.
async fn table(story: &Story) -> (Vec<(String, u64)>, Vec<Value>) {
    let namespace = &story.namespace;
    let path = format!("/apis/vitistack.io/v1alpha1/namespaces/{namespace}/machines");
    let request = http::Request::get(path)
        .header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
        .body(Vec::new())
        .unwrap();
    let table: Value = story.client.request(request).await.unwrap();
    let columns = table["columnDefinitions"].as_array().unwrap().iter();
    let columns = columns.map(|column| {
        let name = column["name"].as_str().unwrap();
        (name.to_owned(), column["priority"].as_u64().unwrap())
    });
    let cells = table["rows"][0]["cells"].as_array().unwrap();
    (columns.collect(), cells.clone())
}

#[test]
fn labels_and_annotations_of_our_domain_reach_the_guest_and_others_do_not() {
    tell(async {
        let story = Story::begin().await;
        let machine = json!({
            "metadata": {
                "name": "web",
                "labels": { "cluster.vitistack.io/cluster-name": "prod", "team": "blue" },
                "annotations": { "vitistack.io/ticket": "OPS-1", "note": "private" },
            },
            "spec": { "template": "small" },
        });
        story.create("Machine", machine).await;
        story.until_phase("web", "Running").await;
        let instance = story.get("VirtualMachineInstance", "web").await;
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
    tell(async {
        let story = Story::begin().await;
        let secrecy = "#cloud-config\npassword: hunter2";
        let spec = json!({ "template": "small", "cloudInit": { "userData": secrecy } });
        story.machine("web", spec).await;
        let machine = story.until_phase("web", "Running").await;

        let vm = story.get("VirtualMachine", "web").await;
        let volumes = vm["spec"]["template"]["spec"]["volumes"]
            .as_array()
            .unwrap();
        let volume = volumes
            .iter()
            .find(|volume| volume["cloudInitNoCloud"].is_object());
        let secret = &volume.unwrap()["cloudInitNoCloud"]["secretRef"]["name"];
        let secret = story.get("Secret", secret.as_str().unwrap()).await;
        let encoded = secret["data"]["userdata"].as_str().unwrap();
        assert_eq!(encoded, "I2Nsb3VkLWNvbmZpZwpwYXNzd29yZDogaHVudGVyMg==");
        let owner = &secret["metadata"]["ownerReferences"][0];
        assert_eq!(owner["uid"], machine["metadata"]["uid"]);

        let events = story.list("Event").await;
        let instances = story.list("VirtualMachineInstance").await;
        let status = &machine["status"];
        let told = format!("{vm} {status} {events:?} {instances:?}");
        assert!(!told.contains("hunter2") && !told.contains(encoded));
    });
}

#[test]
fn cloud_init_data_of_a_users_secret_is_taken_over() {
    tell(async {
        let story = Story::begin().await;
        let spec = json!({
            "template": "small",
            "cloudInit": { "secretRef": { "name": "mine", "key": "bootstrap" } },
        });
        story.machine("web", spec).await;
        // It names what is still to come, and goes on by itself.
        story.until_phase("web", "Failed").await;
        let secret =
            json!({ "metadata": { "name": "mine" }, "stringData": { "bootstrap": "#!/bin/sh" } });
        story.create("Secret", secret).await;
        story.until_phase("web", "Running").await;

        let secrets = story.list("Secret").await;
        let ours: Vec<_> = secrets
            .iter()
            .filter(|secret| secret["metadata"]["labels"]["vitistack.io/machine"] == "web")
            .collect();
        assert_eq!(ours.len(), 1);
        assert_eq!(ours[0]["data"]["userdata"], "IyEvYmluL3No");
    });
}

#[test]
fn people_are_told_that_it_was_created_and_that_it_started_and_no_more() {
    tell(async {
        let story = Story::begin().await;
        story.machine("web", json!({ "template": "small" })).await;
        let machine = story.until_phase("web", "Running").await;
        story.wait(2).await;
        let node = machine["status"]["nodeName"].as_str().unwrap();
        let created = "Created VirtualMachine web with 1 CPU and 2Gi of memory, disks root (20Gi)";
        let told = [
            ("Created".to_owned(), created.to_owned()),
            ("Started".to_owned(), format!("Running on {node}")),
        ];
        assert_eq!(story.events("web").await, told);
    });
}

#[test]
fn a_machine_goes_from_creating_to_running_and_never_looks_failed() {
    tell(async {
        let story = Story::begin().await;
        let record = story.record(&["Machine"]).await;
        story.machine("web", json!({ "template": "small" })).await;
        story.until_phase("web", "Running").await;
        story.wait(2).await;

        let mut phases: Vec<_> = record
            .of("Machine", "web")
            .iter()
            .map(|change| change.object["status"]["phase"].clone())
            .collect();
        phases.dedup();
        assert_eq!(phases, [Value::Null, "Creating".into(), "Running".into()]);
        let was_failed = record.of("Machine", "web").iter().any(|change| {
            let ready = condition(&change.object, "Ready");
            !["", "Creating", "Running"].contains(&ready["reason"].as_str().unwrap_or_default())
        });
        assert!(!was_failed);
    });
}

#[test]
fn a_hundred_machines_come_up_at_once() {
    tell_alone(&[], async {
        let story = Story::begin_with(|setup| setup.nodes = 10).await;
        for number in 0..100 {
            let name = format!("web-{number}");
            story.machine(&name, json!({ "template": "small" })).await;
        }
        let begun = tokio::time::Instant::now();
        for number in 0..100 {
            story.until_phase(&format!("web-{number}"), "Running").await;
        }
        // A guest takes a few seconds to start, and they start together.
        assert!(
            begun.elapsed() < story.ground.patience_of(60),
            "{:?}",
            begun.elapsed()
        );
        assert_eq!(story.list("VirtualMachine").await.len(), 100);
        assert_eq!(story.list("PersistentVolumeClaim").await.len(), 100);
    });
}

#[test]
fn a_machine_that_is_older_than_the_operator_comes_up() {
    tell(async {
        let mut story = Story::without_operator().await;
        story.machine("web", json!({ "template": "small" })).await;
        story.wait(5).await;
        assert_eq!(story.get("Machine", "web").await["status"], Value::Null);
        story.start_operator();
        story.until_phase("web", "Running").await;
        assert_eq!(story.reasons("web").await, ["Created", "Started"]);
    });
}

#[test]
fn an_operator_that_dies_after_any_write_is_taken_over_by_the_next() {
    for writes in 1..=6 {
        tell(async move {
            let mut story = Story::without_operator().await;
            let record = story.record(&["VirtualMachineInstance", "Secret"]).await;
            story.line.die_after(writes);
            story.start_operator();
            let spec = json!({ "template": "small", "cloudInit": { "userData": "#!/bin/sh" } });
            story.machine("web", spec).await;
            story.until_writes(writes).await;
            story.kill_operator().await;
            story.line.mend();
            story.start_operator();

            let machine = story.until_phase("web", "Running").await;
            assert_eq!(condition(&machine, "Ready")["status"], "True");
            story.wait(2).await;
            for kind in ["VirtualMachine", "PersistentVolumeClaim"] {
                assert_eq!(story.list(kind).await.len(), 1, "after {writes} writes");
            }
            let starts = record.of("VirtualMachineInstance", "web");
            let ends = starts.iter().filter(|change| change.is_deletion);
            assert_eq!(ends.count(), 0, "after {writes} writes");
            assert_eq!(
                machine["metadata"]["finalizers"].as_array().unwrap().len(),
                1
            );
        });
    }
}

/// Makes the classes of storage that examples name, like the one that there is.
async fn add_storage_classes(story: &Story) {
    let standard = story.get("StorageClass", "standard").await;
    for name in ["fast-ssd", "replicated", "replicated-fast"] {
        let mut class = standard.clone();
        class["metadata"] = json!({ "name": name });
        let yaml = class.to_string();
        story.apply(&yaml).await;
    }
}

/// Applies a file of examples, and waits until its Machine is ready, or not for the given reason.
async fn comes_up(file: &str, reason: &str) {
    let story = Story::begin().await;
    add_storage_classes(&story).await;
    if file == "machine-every-field" {
        story.apply(GOLDEN_IMAGE).await;
        story.allow_clones_from("golden-images").await;
    }
    let path = format!("{}/../../examples/{file}.yaml", env!("CARGO_MANIFEST_DIR"));
    story.apply(&std::fs::read_to_string(path).unwrap()).await;
    let machines = story.list("Machine").await;
    for machine in machines {
        let name = machine["metadata"]["name"].as_str().unwrap();
        story.until_reason(name, reason).await;
    }
}

/// What one of the examples has a disk copied from.
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
        tell(comes_up(file, "Running"));
    }
    tell(comes_up("machine-stopped", "Stopped"));
}

#[test]
fn the_example_with_every_field_comes_up() {
    tell_with(&[Need::Services], async {
        comes_up("machine-every-field", "Paused").await;
    });
}
