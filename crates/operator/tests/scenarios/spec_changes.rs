//! Changes of a Machine's spec.

use serde_json::{Value, json};

use crate::{
    domain::{DOMAIN, at, until_domain},
    runner::{Need, run_scenario, run_scenario_with},
    scenario::{Scenario, condition},
};

/// Disk that allows live migration, which KubeVirt needs to add memory.
fn shared_root() -> Value {
    json!([{ "name": "root", "accessMode": "ReadWriteMany" }])
}

fn uid(object: &Value) -> String {
    object["metadata"]["uid"].as_str().unwrap().to_owned()
}

#[test]
fn memory_is_added_while_the_guest_runs() {
    run_scenario(async {
        let scenario = Scenario::start().await;
        let spec = json!({ "template": "small", "disks": shared_root() });
        scenario.create_machine("web", spec).await;
        scenario.until_phase("web", "Running").await;
        let before = scenario.get("VirtualMachineInstance", "web").await;

        scenario.patch_spec("web", json!({ "memory": "4Gi" })).await;
        let after = scenario
            .until("VirtualMachineInstance", "web", |instance| {
                instance["status"]["memory"]["guestCurrent"] == "4Gi"
            })
            .await;

        assert_eq!(uid(&before), uid(&after), "the guest was not restarted");
        let machine = scenario
            .until("Machine", "web", |machine| {
                machine["status"]["memoryQuantity"] == "4Gi"
            })
            .await;
        assert_eq!(machine["status"]["phase"], "Running");
        assert_eq!(machine["status"]["requestedMemory"], Value::Null);
        assert_eq!(condition(&machine, "RestartRequired")["status"], "False");
        let events = scenario.events("web").await;
        let resized = events.iter().find(|(reason, _)| reason == "Resized");
        assert_eq!(
            resized.unwrap().1,
            "Resized VirtualMachine web to 1 CPU and 4Gi of memory"
        );
    });
}

#[test]
fn sockets_are_added_while_the_guest_runs() {
    run_scenario(async {
        let scenario = Scenario::start().await;
        let spec = json!({ "template": "small", "disks": shared_root() });
        scenario.create_machine("web", spec).await;
        scenario.until_phase("web", "Running").await;
        let before = scenario.get("VirtualMachineInstance", "web").await;

        scenario
            .patch_spec("web", json!({ "cpu": { "sockets": 2 } }))
            .await;
        let after = scenario
            .until("VirtualMachineInstance", "web", |instance| {
                instance["status"]["currentCPUTopology"]["sockets"] == 2
            })
            .await;

        assert_eq!(uid(&before), uid(&after), "the guest was not restarted");
        let machine = scenario
            .until("Machine", "web", |machine| machine["status"]["vcpus"] == 2)
            .await;
        assert_eq!(machine["status"]["requestedVcpus"], Value::Null);
        assert_eq!(condition(&machine, "RestartRequired")["status"], "False");
    });
}

#[test]
fn changes_without_hot_plug_support_wait_for_a_restart() {
    run_scenario(async {
        let scenario = Scenario::start().await;
        scenario
            .create_machine("web", json!({ "template": "small" }))
            .await;
        scenario.until_phase("web", "Running").await;
        let before = scenario.get("VirtualMachineInstance", "web").await;

        scenario
            .patch_spec("web", json!({ "cpu": { "cores": 4 } }))
            .await;
        let required = scenario
            .until_condition("web", "RestartRequired", "True")
            .await;
        let vm = scenario.get("VirtualMachine", "web").await;
        let words = condition(&vm, "RestartRequired")["message"].as_str();
        let message = required["message"].as_str().unwrap();
        assert!(
            message.ends_with(words.unwrap()),
            "{message}: does not quote KubeVirt"
        );
        let machine = scenario.get("Machine", "web").await;
        assert_eq!(machine["status"]["phase"], "Running");
        assert_eq!(condition(&machine, "Ready")["status"], "True");

        let requested = json!({ "restartedAt": "2026-11-15T12:00:00Z" });
        scenario.patch_spec("web", requested).await;
        scenario
            .until_condition("web", "RestartRequired", "False")
            .await;
        scenario.until_phase("web", "Running").await;
        let after = scenario.get("VirtualMachineInstance", "web").await;
        assert_ne!(uid(&before), uid(&after));
        assert_eq!(at(&after, "/spec/domain/cpu/cores"), 4);
        assert!(scenario.has_event("web", "Restarted").await);
    });
}

#[test]
fn another_template_changes_size_and_disk_and_is_reported_as_requested() {
    run_scenario(async {
        let scenario = Scenario::start().await;
        scenario
            .create_machine("web", json!({ "template": "small" }))
            .await;
        scenario.until_phase("web", "Running").await;

        scenario
            .patch_spec("web", json!({ "template": "large" }))
            .await;
        let vm = until_domain(&scenario, "web", "/memory/guest", &json!("8Gi")).await;
        assert_eq!(at(&vm, &format!("{DOMAIN}/cpu/cores")), 4);
        scenario
            .until("PersistentVolumeClaim", "web-root", |claim| {
                claim["status"]["capacity"]["storage"] == "80Gi"
            })
            .await;
        let machine = scenario
            .until("Machine", "web", |machine| {
                machine["status"]["requestedMemory"] == "8Gi"
            })
            .await;
        let status = &machine["status"];
        assert_eq!(status["requestedVcpus"], 4);
        assert_eq!(
            (&status["vcpus"], &status["memoryQuantity"]),
            (&json!(1), &json!("2Gi"))
        );

        let requested = json!({ "restartedAt": "2026-11-15T12:00:00Z" });
        scenario.patch_spec("web", requested).await;
        let machine = scenario
            .until("Machine", "web", |machine| {
                machine["status"]["phase"] == "Running"
                    && machine["status"]["memoryQuantity"] == "8Gi"
            })
            .await;
        let status = &machine["status"];
        assert_eq!(status["vcpus"], 4);
        let requested = (&status["requestedVcpus"], &status["requestedMemory"]);
        assert_eq!(requested, (&Value::Null, &Value::Null));
    });
}

#[test]
fn a_disk_never_shrinks_when_the_template_does() {
    run_scenario(async {
        let scenario = Scenario::start().await;
        scenario
            .create_machine("web", json!({ "template": "large" }))
            .await;
        scenario.until_phase("web", "Running").await;

        scenario
            .patch_spec("web", json!({ "template": "small" }))
            .await;
        until_domain(&scenario, "web", "/memory/guest", &json!("2Gi")).await;
        scenario.wait(5).await;
        let claim = scenario.get("PersistentVolumeClaim", "web-root").await;
        assert_eq!(claim["spec"]["resources"]["requests"]["storage"], "80Gi");
        let machine = scenario.get("Machine", "web").await;
        assert_eq!(condition(&machine, "StorageReady")["status"], "True");
    });
}

/// Changes of the spec, with pointer and value of their effect in the VirtualMachine's template.
fn changes() -> Vec<(Value, &'static str, Value)> {
    vec![
        (
            json!({ "cpu": { "cores": 3 } }),
            "/domain/cpu/cores",
            json!(3),
        ),
        (
            json!({ "cpu": { "sockets": 2 } }),
            "/domain/cpu/sockets",
            json!(2),
        ),
        (
            json!({ "cpu": { "threadsPerCore": 2 } }),
            "/domain/cpu/threads",
            json!(2),
        ),
        (
            json!({ "resources": { "cpu": { "cores": 2 } } }),
            "/domain/cpu/cores",
            json!(2),
        ),
        (
            json!({ "memory": "3Gi" }),
            "/domain/memory/guest",
            json!("3Gi"),
        ),
        (
            json!({ "resources": { "memory": { "size": "3Gi" } } }),
            "/domain/memory/guest",
            json!("3Gi"),
        ),
        (
            json!({ "template": "medium" }),
            "/domain/memory/guest",
            json!("4Gi"),
        ),
        (
            json!({ "template": null, "instanceType": "medium" }),
            "/domain/cpu/sockets",
            json!(2),
        ),
        (
            json!({ "disks": [{ "name": "root", "bus": "scsi" }] }),
            "/domain/devices/disks/0/disk/bus",
            json!("scsi"),
        ),
        (
            json!({ "bootOrder": ["network", "disk"] }),
            "/domain/devices/interfaces/0/bootOrder",
            json!(1),
        ),
        (
            json!({ "cloudInit": { "userData": "#cloud-config\n" } }),
            "/volumes/1/cloudInitNoCloud/secretRef/name",
            json!("web-cloud-init"),
        ),
        (
            json!({ "domain": { "machine": { "type": "pc-q35-rhel9.6.0" } } }),
            "/domain/machine/type",
            json!("pc-q35-rhel9.6.0"),
        ),
        (
            json!({ "domain": { "features": { "hyperv": true } } }),
            "/domain/features/hyperv/relaxed/enabled",
            json!(true),
        ),
        (
            json!({ "domain": { "features": { "acpi": false } } }),
            "/domain/features/acpi/enabled",
            json!(false),
        ),
        (
            json!({ "domain": { "firmware": { "bootloader": { "efi": true } } } }),
            "/domain/firmware/bootloader/efi/secureBoot",
            json!(false),
        ),
        (
            json!({ "domain": { "firmware": { "bootloader": { "secureBoot": true } } } }),
            "/domain/features/smm/enabled",
            json!(true),
        ),
    ]
}

#[test]
fn every_field_of_the_spec_can_be_set_and_cleared() {
    run_scenario_with(&[Need::Services], async {
        let scenario = Scenario::start().await;
        let stopped = json!({ "template": "small", "powerState": "Stopped" });
        scenario.create_machine("web", stopped).await;
        scenario.until_phase("web", "Stopped").await;
        let before = scenario.get("VirtualMachine", "web").await;

        for (spec, pointer, value) in changes() {
            scenario.patch_spec("web", spec.clone()).await;
            let pointer = format!("/spec/template/spec{pointer}");
            scenario
                .until("VirtualMachine", "web", |vm| at(vm, &pointer) == &value)
                .await;
            let generation = scenario.get("Machine", "web").await["metadata"]["generation"].clone();
            let machine = scenario
                .until("Machine", "web", |machine| {
                    machine["status"]["observedGeneration"] == generation
                })
                .await;
            assert_eq!(condition(&machine, "SpecValid")["status"], "True");
            assert_eq!(machine["status"]["phase"], "Stopped");

            let fields = spec.as_object().unwrap().keys();
            let mut undone: Value = fields.map(|field| (field.clone(), Value::Null)).collect();
            undone["template"] = "small".into();
            scenario.patch_spec("web", undone).await;
            let was = at(&before, &pointer);
            scenario
                .until("VirtualMachine", "web", |vm| at(vm, &pointer) == was)
                .await;
        }
    });
}

#[test]
fn documented_labels_and_annotations_follow_the_machine() {
    run_scenario(async {
        let scenario = Scenario::start().await;
        scenario
            .create_machine("web", json!({ "template": "small" }))
            .await;
        scenario.until_phase("web", "Running").await;

        let label = "cluster.vitistack.io/cluster-name";
        let given = json!({ "metadata": {
        "labels": { label: "shop", "team": "red" },
        "annotations": { "vitistack.io/ticket": "42" },
    } });
        scenario.patch("Machine", "web", given).await;
        let vm = scenario
            .until("VirtualMachine", "web", |vm| {
                vm["spec"]["template"]["metadata"]["labels"][label] == "shop"
            })
            .await;
        let template = &vm["spec"]["template"]["metadata"];
        assert_eq!(template["annotations"]["vitistack.io/ticket"], "42");
        assert!(template["labels"]["team"].is_null(), "not a documented one");

        let removed = json!({ "metadata": { "labels": { label: null } } });
        scenario.patch("Machine", "web", removed).await;
        scenario
            .until("VirtualMachine", "web", |vm| {
                vm["spec"]["template"]["metadata"]["labels"][label].is_null()
            })
            .await;
    });
}

#[test]
fn a_field_removed_from_the_spec_is_removed_from_the_virtual_machine() {
    run_scenario_with(&[Need::Services], async {
        let scenario = Scenario::start().await;
        let spec = json!({
            "template": "small",
            "disks": shared_root(),
            "powerState": "Stopped",
            "domain": {
                "machine": { "type": "pc-q35-rhel9.6.0" },
                "firmware": { "bootloader": { "efi": true } },
            },
        });
        scenario.create_machine("web", spec).await;
        scenario.until_phase("web", "Stopped").await;
        let before = scenario.get("VirtualMachine", "web").await;
        let template = &before["spec"]["template"]["spec"];
        assert_eq!(template["evictionStrategy"], "LiveMigrate");
        let firmware = template["domain"]["firmware"].clone();
        assert!(firmware["uuid"].is_string(), "KubeVirt's own default");

        // A disk on one node prevents live migration.
        let disks = json!([{ "name": "root", "accessMode": "ReadWriteMany" },
        { "name": "data", "size": "1Gi" }]);
        scenario
            .patch_spec("web", json!({ "domain": null, "disks": disks }))
            .await;
        let after = scenario
            .until("VirtualMachine", "web", |vm| {
                at(vm, &format!("{DOMAIN}/firmware/bootloader")).is_null()
            })
            .await;
        let template = &after["spec"]["template"]["spec"];
        assert_eq!(template["domain"]["firmware"]["uuid"], firmware["uuid"]);
        assert_eq!(template["domain"]["machine"]["type"], "q35", "by default");
        assert!(template["evictionStrategy"].is_null());
    });
}

#[test]
fn a_machine_changed_during_its_creation_gets_the_latest_spec() {
    run_scenario(async {
        let scenario = Scenario::start().await;
        scenario
            .create_machine("web", json!({ "template": "small" }))
            .await;
        scenario.until_phase("web", "Creating").await;
        scenario.patch_spec("web", json!({ "memory": "3Gi" })).await;
        let machine = scenario.until_phase("web", "Running").await;
        let generation = machine["metadata"]["generation"].clone();
        // In real time the guest may have started with the previous size.
        let machine = scenario
            .until("Machine", "web", |machine| {
                let status = &machine["status"];
                status["observedGeneration"] == generation
                    && [&status["memoryQuantity"], &status["requestedMemory"]]
                        .contains(&&json!("3Gi"))
            })
            .await;
        until_domain(&scenario, "web", "/memory/guest", &json!("3Gi")).await;
        assert_eq!(machine["status"]["phase"], "Running");
    });
}

#[test]
fn many_quick_changes_converge_to_the_last_one_with_few_writes() {
    run_scenario(async {
        let scenario = Scenario::start().await;
        let spec = json!({ "template": "small", "powerState": "Stopped" });
        scenario.create_machine("web", spec).await;
        scenario.until_phase("web", "Stopped").await;
        scenario.wait(5).await;
        let before = scenario.writes("");
        for gib in 3..=22 {
            scenario
                .patch_spec("web", json!({ "memory": format!("{gib}Gi") }))
                .await;
        }
        until_domain(&scenario, "web", "/memory/guest", &json!("22Gi")).await;
        scenario.wait(5).await;
        let vm = scenario.get("VirtualMachine", "web").await;
        assert_eq!(at(&vm, &format!("{DOMAIN}/memory/guest")), "22Gi");
        let machine = scenario.get("Machine", "web").await;
        assert_eq!(machine["status"]["memoryQuantity"], "22Gi");
        assert_eq!(
            machine["status"]["observedGeneration"],
            machine["metadata"]["generation"]
        );
        let writes = scenario.writes("") - before;
        assert!(writes <= 42, "{writes} writes for 20 changes");
    });
}

#[test]
fn changes_made_while_the_operator_is_down_are_applied_when_it_returns() {
    run_scenario(async {
        let mut scenario = Scenario::start().await;
        scenario
            .create_machine("web", json!({ "template": "small" }))
            .await;
        scenario.until_phase("web", "Running").await;
        scenario.stop_operator().await;

        scenario.patch_spec("web", json!({ "memory": "3Gi" })).await;
        scenario
            .create_machine("shop", json!({ "template": "small" }))
            .await;
        scenario.wait(5).await;
        let machine = scenario.get("Machine", "web").await;
        assert_eq!(
            machine["status"]["memoryQuantity"], "2Gi",
            "the operator is down"
        );

        scenario.start_operator();
        until_domain(&scenario, "web", "/memory/guest", &json!("3Gi")).await;
        scenario.until_phase("shop", "Running").await;
    });
}

#[test]
fn an_invalid_spec_does_not_affect_a_running_guest() {
    run_scenario(async {
        let scenario = Scenario::start().await;
        scenario
            .create_machine("web", json!({ "template": "small" }))
            .await;
        scenario.until_phase("web", "Running").await;
        let before = scenario.get("VirtualMachine", "web").await;

        scenario
            .patch_spec("web", json!({ "template": "smal" }))
            .await;
        let valid = scenario.until_condition("web", "SpecValid", "False").await;
        assert_eq!(valid["reason"], "TemplateNotFound");
        scenario.wait(5).await;
        let machine = scenario.get("Machine", "web").await;
        assert_eq!(machine["status"]["phase"], "Running");
        assert_eq!(condition(&machine, "Ready")["status"], "False");
        assert_eq!(condition(&machine, "Ready")["reason"], "TemplateNotFound");
        assert_eq!(
            machine["status"]["observedGeneration"],
            machine["metadata"]["generation"]
        );
        let after = scenario.get("VirtualMachine", "web").await;
        assert_eq!(
            before["metadata"]["generation"],
            after["metadata"]["generation"]
        );

        scenario
            .patch_spec("web", json!({ "template": "small" }))
            .await;
        scenario.until_condition("web", "Ready", "True").await;
        scenario.until_condition("web", "SpecValid", "True").await;
    });
}
