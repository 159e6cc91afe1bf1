//! How Machines change.

use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::{
    ground::{Need, tell, tell_with},
    story::{Story, condition},
};

const DOMAIN: &str = "/spec/template/spec/domain";

/// A disk that lets its machine move to another node, which KubeVirt needs to add memory.
fn shared_root() -> Value {
    json!([{ "name": "root", "accessMode": "ReadWriteMany" }])
}

fn uid(object: &Value) -> String {
    object["metadata"]["uid"].as_str().unwrap().to_owned()
}

fn at<'a>(object: &'a Value, pointer: &str) -> &'a Value {
    object.pointer(pointer).unwrap_or(&Value::Null)
}

/// Waits until the VirtualMachine has a value at a place under its domain.
async fn until_domain(story: &Story, vm: &str, pointer: &str, value: &Value) -> Value {
    let pointer = format!("{DOMAIN}{pointer}");
    let found = story.until("VirtualMachine", vm, |vm| at(vm, &pointer) == value);
    found.await
}

#[test]
fn memory_is_added_while_the_guest_runs() {
    tell(async {
        let story = Story::begin().await;
        let spec = json!({ "template": "small", "disks": shared_root() });
        story.machine("web", spec).await;
        story.until_phase("web", "Running").await;
        let before = story.get("VirtualMachineInstance", "web").await;

        story.change("web", json!({ "memory": "4Gi" })).await;
        let after = story
            .until("VirtualMachineInstance", "web", |instance| {
                instance["status"]["memory"]["guestCurrent"] == "4Gi"
            })
            .await;

        assert_eq!(uid(&before), uid(&after), "the guest was not restarted");
        let machine = story
            .until("Machine", "web", |machine| {
                machine["status"]["memory"] == "4Gi"
            })
            .await;
        assert_eq!(machine["status"]["phase"], "Running");
        assert_eq!(machine["status"]["requestedMemory"], Value::Null);
        assert_eq!(condition(&machine, "RestartRequired")["status"], "False");
        let events = story.events("web").await;
        let resized = events.iter().find(|(reason, _)| reason == "Resized");
        assert_eq!(
            resized.unwrap().1,
            "Resized VirtualMachine web to 1 CPU and 4Gi of memory"
        );
    });
}

#[test]
fn sockets_are_added_while_the_guest_runs() {
    tell(async {
        let story = Story::begin().await;
        let spec = json!({ "template": "small", "disks": shared_root() });
        story.machine("web", spec).await;
        story.until_phase("web", "Running").await;
        let before = story.get("VirtualMachineInstance", "web").await;

        story
            .change("web", json!({ "cpu": { "sockets": 2 } }))
            .await;
        let after = story
            .until("VirtualMachineInstance", "web", |instance| {
                instance["status"]["currentCPUTopology"]["sockets"] == 2
            })
            .await;

        assert_eq!(uid(&before), uid(&after), "the guest was not restarted");
        let machine = story
            .until("Machine", "web", |machine| machine["status"]["vcpus"] == 2)
            .await;
        assert_eq!(machine["status"]["requestedVcpus"], Value::Null);
        assert_eq!(condition(&machine, "RestartRequired")["status"], "False");
    });
}

#[test]
fn what_a_running_guest_cannot_take_on_waits_for_a_restart() {
    tell(async {
        let story = Story::begin().await;
        story.machine("web", json!({ "template": "small" })).await;
        story.until_phase("web", "Running").await;
        let before = story.get("VirtualMachineInstance", "web").await;

        story.change("web", json!({ "cpu": { "cores": 4 } })).await;
        let required = story
            .until_condition("web", "RestartRequired", "True")
            .await;
        let vm = story.get("VirtualMachine", "web").await;
        let words = condition(&vm, "RestartRequired")["message"].as_str();
        let told = required["message"].as_str().unwrap();
        assert!(
            told.ends_with(words.unwrap()),
            "{told}: in KubeVirt's words"
        );
        let machine = story.get("Machine", "web").await;
        assert_eq!(machine["status"]["phase"], "Running");
        assert_eq!(condition(&machine, "Ready")["status"], "True");

        let asked = json!({ "restartedAt": "2026-11-15T12:00:00Z" });
        story.change("web", asked).await;
        story
            .until_condition("web", "RestartRequired", "False")
            .await;
        story.until_phase("web", "Running").await;
        let after = story.get("VirtualMachineInstance", "web").await;
        assert_ne!(uid(&before), uid(&after));
        assert_eq!(at(&after, "/spec/domain/cpu/cores"), 4);
        assert!(story.was_told("web", "Restarted").await);
    });
}

#[test]
fn another_template_changes_size_and_disk_and_is_reported_as_requested() {
    tell(async {
        let story = Story::begin().await;
        story.machine("web", json!({ "template": "small" })).await;
        story.until_phase("web", "Running").await;

        story.change("web", json!({ "template": "large" })).await;
        let vm = until_domain(&story, "web", "/memory/guest", &json!("8Gi")).await;
        assert_eq!(at(&vm, &format!("{DOMAIN}/cpu/cores")), 4);
        story
            .until("PersistentVolumeClaim", "web-root", |claim| {
                claim["status"]["capacity"]["storage"] == "80Gi"
            })
            .await;
        let machine = story
            .until("Machine", "web", |machine| {
                machine["status"]["requestedMemory"] == "8Gi"
            })
            .await;
        let status = &machine["status"];
        assert_eq!(status["requestedVcpus"], 4);
        assert_eq!(
            (&status["vcpus"], &status["memory"]),
            (&json!(1), &json!("2Gi"))
        );

        let asked = json!({ "restartedAt": "2026-11-15T12:00:00Z" });
        story.change("web", asked).await;
        let machine = story
            .until("Machine", "web", |machine| {
                machine["status"]["phase"] == "Running" && machine["status"]["memory"] == "8Gi"
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
    tell(async {
        let story = Story::begin().await;
        story.machine("web", json!({ "template": "large" })).await;
        story.until_phase("web", "Running").await;

        story.change("web", json!({ "template": "small" })).await;
        until_domain(&story, "web", "/memory/guest", &json!("2Gi")).await;
        story.wait(5).await;
        let claim = story.get("PersistentVolumeClaim", "web-root").await;
        assert_eq!(claim["spec"]["resources"]["requests"]["storage"], "80Gi");
        let machine = story.get("Machine", "web").await;
        assert_eq!(condition(&machine, "StorageReady")["status"], "True");
    });
}

/// Changes of the spec, each with where it shows in the VirtualMachine's template, and as what.
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
fn every_field_of_the_spec_reaches_the_virtual_machine_and_goes_again() {
    tell_with(&[Need::Services], async {
        let story = Story::begin().await;
        let stopped = json!({ "template": "small", "powerState": "Stopped" });
        story.machine("web", stopped).await;
        story.until_phase("web", "Stopped").await;
        let before = story.get("VirtualMachine", "web").await;

        for (spec, pointer, value) in changes() {
            story.change("web", spec.clone()).await;
            let pointer = format!("/spec/template/spec{pointer}");
            story
                .until("VirtualMachine", "web", |vm| at(vm, &pointer) == &value)
                .await;
            let generation = story.get("Machine", "web").await["metadata"]["generation"].clone();
            let machine = story
                .until("Machine", "web", |machine| {
                    machine["status"]["observedGeneration"] == generation
                })
                .await;
            assert_eq!(condition(&machine, "SpecValid")["status"], "True");
            assert_eq!(machine["status"]["phase"], "Stopped");

            let fields = spec.as_object().unwrap().keys();
            let mut undone: Value = fields.map(|field| (field.clone(), Value::Null)).collect();
            undone["template"] = "small".into();
            story.change("web", undone).await;
            let was = at(&before, &pointer);
            story
                .until("VirtualMachine", "web", |vm| at(vm, &pointer) == was)
                .await;
        }
    });
}

#[test]
fn documented_labels_and_annotations_come_and_go_with_the_machines_own() {
    tell(async {
        let story = Story::begin().await;
        story.machine("web", json!({ "template": "small" })).await;
        story.until_phase("web", "Running").await;

        let label = "cluster.vitistack.io/cluster-name";
        let given = json!({ "metadata": {
        "labels": { label: "shop", "team": "red" },
        "annotations": { "vitistack.io/ticket": "42" },
    } });
        story.patch("Machine", "web", given).await;
        let vm = story
            .until("VirtualMachine", "web", |vm| {
                vm["spec"]["template"]["metadata"]["labels"][label] == "shop"
            })
            .await;
        let template = &vm["spec"]["template"]["metadata"];
        assert_eq!(template["annotations"]["vitistack.io/ticket"], "42");
        assert!(template["labels"]["team"].is_null(), "not a documented one");

        let taken = json!({ "metadata": { "labels": { label: null } } });
        story.patch("Machine", "web", taken).await;
        story
            .until("VirtualMachine", "web", |vm| {
                vm["spec"]["template"]["metadata"]["labels"][label].is_null()
            })
            .await;
    });
}

#[test]
fn a_field_that_is_taken_out_of_the_spec_goes_from_the_virtual_machine() {
    tell_with(&[Need::Services], async {
        let story = Story::begin().await;
        let spec = json!({
            "template": "small",
            "disks": shared_root(),
            "powerState": "Stopped",
            "domain": {
                "machine": { "type": "pc-q35-rhel9.6.0" },
                "firmware": { "bootloader": { "efi": true } },
            },
        });
        story.machine("web", spec).await;
        story.until_phase("web", "Stopped").await;
        let before = story.get("VirtualMachine", "web").await;
        let template = &before["spec"]["template"]["spec"];
        assert_eq!(template["evictionStrategy"], "LiveMigrate");
        let firmware = template["domain"]["firmware"].clone();
        assert!(firmware["uuid"].is_string(), "KubeVirt's own default");

        // A disk on one node only means that the machine cannot move any more.
        let disks = json!([{ "name": "root", "accessMode": "ReadWriteMany" },
        { "name": "data", "size": "1Gi" }]);
        story
            .change("web", json!({ "domain": null, "disks": disks }))
            .await;
        let after = story
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
fn what_somebody_else_changes_is_put_back_and_told() {
    tell(async {
        let story = Story::begin().await;
        story.machine("web", json!({ "template": "small" })).await;
        story.until_phase("web", "Running").await;

        let theirs = json!({ "spec": { "template": { "spec": { "domain": {
        "memory": { "guest": "16Gi" },
    } } } } });
        let intruder = PatchParams {
            field_manager: Some("intruder".to_owned()),
            ..PatchParams::default()
        };
        let machines = story.api("VirtualMachine");
        let theirs = Patch::Merge(theirs);
        machines.patch("web", &intruder, &theirs).await.unwrap();
        until_domain(&story, "web", "/memory/guest", &json!("2Gi")).await;
        story.wait(5).await;
        let events = story.events("web").await;
        let put_back = events.iter().find(|(reason, _)| reason == "PutBack");
        let (_, message) = put_back.expect("it is told");
        assert!(
            message.contains("spec.template.spec.domain.memory.guest"),
            "{message}"
        );
        assert!(message.contains("by intruder"), "{message}");
    });
}

#[test]
fn a_disk_that_somebody_takes_out_of_the_virtual_machine_is_put_back() {
    tell(async {
        let story = Story::begin().await;
        story.machine("web", json!({ "template": "small" })).await;
        story.until_phase("web", "Running").await;
        let theirs = json!({ "spec": { "template": { "spec": {
        "volumes": [], "domain": { "devices": { "disks": [] } },
    } } } });
        story.patch("VirtualMachine", "web", theirs).await;
        let vm = story
            .until("VirtualMachine", "web", |vm| {
                at(vm, "/spec/template/spec/volumes/0/name") == "root"
            })
            .await;
        assert_eq!(at(&vm, &format!("{DOMAIN}/devices/disks/0/name")), "root");
    });
}

#[test]
fn what_is_not_ours_is_left_alone_for_good() {
    tell(async {
        let story = Story::begin().await;
        story.machine("web", json!({ "template": "small" })).await;
        story.until_phase("web", "Running").await;

        let theirs = json!({
            "metadata": { "labels": { "team": "red" }, "annotations": { "note": "ours" } },
            "spec": { "template": {
                "metadata": { "labels": { "app": "shop" } },
                "spec": {
                    "nodeSelector": { "kubernetes.io/os": "linux" },
                    "tolerations": [{ "key": "gpu", "operator": "Exists" }],
                    "domain": { "ioThreadsPolicy": "auto" },
                },
            } },
        });
        story.patch("VirtualMachine", "web", theirs).await;
        let writes = story.writes("virtualmachines");
        // Also after a change of ours, and after a resync.
        story.wait(90).await;
        assert_eq!(story.writes("virtualmachines"), writes);
        story.change("web", json!({ "cpu": { "cores": 2 } })).await;
        until_domain(&story, "web", "/cpu/cores", &json!(2)).await;
        story.wait(90).await;

        let vm = story.get("VirtualMachine", "web").await;
        assert_eq!(vm["metadata"]["labels"]["team"], "red");
        assert_eq!(vm["metadata"]["annotations"]["note"], "ours");
        let template = &vm["spec"]["template"];
        assert_eq!(template["metadata"]["labels"]["app"], "shop");
        assert_eq!(template["spec"]["tolerations"][0]["key"], "gpu");
        assert_eq!(
            template["spec"]["nodeSelector"]["kubernetes.io/os"],
            "linux"
        );
        assert_eq!(template["spec"]["domain"]["ioThreadsPolicy"], "auto");
        assert!(!story.was_told("web", "PutBack").await);
    });
}

#[test]
fn a_person_may_apply_more_to_the_virtual_machine() {
    tell(async {
        let story = Story::begin().await;
        story.machine("web", json!({ "template": "small" })).await;
        story.until_phase("web", "Running").await;

        let theirs = json!({
            "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine",
            "metadata": { "name": "web", "labels": { "team": "red" } },
            "spec": { "template": { "spec": { "nodeSelector": { "kubernetes.io/arch": "amd64" } } } },
        });
        let params = PatchParams::apply("kubectl");
        let api = story.api("VirtualMachine");
        api.patch("web", &params, &Patch::Apply(theirs))
            .await
            .unwrap();
        story.change("web", json!({ "memory": "3Gi" })).await;
        let vm = until_domain(&story, "web", "/memory/guest", &json!("3Gi")).await;
        assert_eq!(vm["metadata"]["labels"]["team"], "red");
        let selector = at(&vm, "/spec/template/spec/nodeSelector");
        assert_eq!(selector, &json!({ "kubernetes.io/arch": "amd64" }));
    });
}

#[test]
fn new_cloud_init_data_waits_in_its_secret_for_a_restart() {
    tell(async {
        let story = Story::begin().await;
        let data = |host: &str| json!({ "userData": format!("#cloud-config\nhostname: {host}\n") });
        let spec = json!({ "template": "small", "cloudInit": data("one") });
        story.machine("web", spec).await;
        story.until_phase("web", "Running").await;
        let before = story.get("Secret", "web-cloud-init").await;

        story
            .change("web", json!({ "cloudInit": data("two") }))
            .await;
        let required = story
            .until_condition("web", "RestartRequired", "True")
            .await;
        assert!(required["message"].as_str().unwrap().contains("cloud-init"));
        let after = story.get("Secret", "web-cloud-init").await;
        assert_ne!(before["data"]["userdata"], after["data"]["userdata"]);
        assert_eq!(uid(&before), uid(&after));

        let asked = json!({ "restartedAt": "2026-11-15T12:00:00Z" });
        story.change("web", asked).await;
        story
            .until_condition("web", "RestartRequired", "False")
            .await;
        story.until_phase("web", "Running").await;
    });
}

#[test]
fn a_machine_waits_for_the_secret_that_it_names() {
    tell(async {
        let story = Story::begin().await;
        let spec = json!({
            "template": "small",
            "cloudInit": { "secretRef": { "name": "seed", "key": "data" } },
        });
        story.machine("web", spec).await;
        let ready = story
            .until("Machine", "web", |machine| {
                condition(machine, "SpecValid")["status"] == "False"
            })
            .await;
        let message = condition(&ready, "SpecValid")["message"].as_str().unwrap();
        assert!(message.contains("\"seed\""), "{message}");
        assert!(story.find("VirtualMachine", "web").await.is_none());

        // It is there, but without the key.
        let secret = |key: &str| {
            json!({
                "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "seed" },
                "stringData": { key: "#cloud-config\n" },
            })
        };
        story.give(secret("wrong")).await;
        let machine = story
            .until("Machine", "web", |machine| {
                let valid = condition(machine, "SpecValid");
                let message = valid["message"].as_str().unwrap_or_default();
                message.contains("\"data\"")
            })
            .await;
        assert_eq!(machine["status"]["phase"], "Failed");

        story.give(secret("data")).await;
        story.until_phase("web", "Running").await;
        let made = story.get("Secret", "web-cloud-init").await;
        let theirs = story.get("Secret", "seed").await;
        assert_eq!(made["data"]["userdata"], theirs["data"]["data"]);
    });
}

#[test]
fn a_machine_that_is_changed_while_it_is_made_becomes_what_was_asked_last() {
    tell(async {
        let story = Story::begin().await;
        story.machine("web", json!({ "template": "small" })).await;
        story.until_phase("web", "Creating").await;
        story.change("web", json!({ "memory": "3Gi" })).await;
        let machine = story.until_phase("web", "Running").await;
        let generation = machine["metadata"]["generation"].clone();
        // Where time is real the guest may have started with the size before.
        let machine = story
            .until("Machine", "web", |machine| {
                let status = &machine["status"];
                status["observedGeneration"] == generation
                    && [&status["memory"], &status["requestedMemory"]].contains(&&json!("3Gi"))
            })
            .await;
        until_domain(&story, "web", "/memory/guest", &json!("3Gi")).await;
        assert_eq!(machine["status"]["phase"], "Running");
    });
}

#[test]
fn many_quick_changes_end_in_the_last_one_with_few_writes() {
    tell(async {
        let story = Story::begin().await;
        let spec = json!({ "template": "small", "powerState": "Stopped" });
        story.machine("web", spec).await;
        story.until_phase("web", "Stopped").await;
        story.wait(5).await;
        let before = story.writes("");
        for gib in 3..=22 {
            story
                .change("web", json!({ "memory": format!("{gib}Gi") }))
                .await;
        }
        until_domain(&story, "web", "/memory/guest", &json!("22Gi")).await;
        story.wait(5).await;
        let vm = story.get("VirtualMachine", "web").await;
        assert_eq!(at(&vm, &format!("{DOMAIN}/memory/guest")), "22Gi");
        let machine = story.get("Machine", "web").await;
        assert_eq!(machine["status"]["memory"], "22Gi");
        assert_eq!(
            machine["status"]["observedGeneration"],
            machine["metadata"]["generation"]
        );
        let writes = story.writes("") - before;
        assert!(writes <= 42, "{writes} writes for 20 changes");
    });
}

#[test]
fn what_changes_while_the_operator_is_away_is_done_when_it_is_back() {
    tell(async {
        let mut story = Story::begin().await;
        story.machine("web", json!({ "template": "small" })).await;
        story.until_phase("web", "Running").await;
        story.stop_operator().await;

        story.change("web", json!({ "memory": "3Gi" })).await;
        story.machine("shop", json!({ "template": "small" })).await;
        story.wait(5).await;
        let machine = story.get("Machine", "web").await;
        assert_eq!(machine["status"]["memory"], "2Gi", "nobody is there");

        story.start_operator();
        until_domain(&story, "web", "/memory/guest", &json!("3Gi")).await;
        story.until_phase("shop", "Running").await;
    });
}

#[test]
fn a_mistake_in_the_spec_does_not_touch_a_guest_that_runs() {
    tell(async {
        let story = Story::begin().await;
        story.machine("web", json!({ "template": "small" })).await;
        story.until_phase("web", "Running").await;
        let before = story.get("VirtualMachine", "web").await;

        story.change("web", json!({ "template": "smal" })).await;
        let valid = story.until_condition("web", "SpecValid", "False").await;
        assert_eq!(valid["reason"], "TemplateNotFound");
        story.wait(5).await;
        let machine = story.get("Machine", "web").await;
        assert_eq!(machine["status"]["phase"], "Running");
        assert_eq!(condition(&machine, "Ready")["status"], "False");
        assert_eq!(condition(&machine, "Ready")["reason"], "TemplateNotFound");
        assert_eq!(
            machine["status"]["observedGeneration"],
            machine["metadata"]["generation"]
        );
        let after = story.get("VirtualMachine", "web").await;
        assert_eq!(
            before["metadata"]["generation"],
            after["metadata"]["generation"]
        );

        story.change("web", json!({ "template": "small" })).await;
        story.until_condition("web", "Ready", "True").await;
        story.until_condition("web", "SpecValid", "True").await;
    });
}
