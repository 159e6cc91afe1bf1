//! How Machines take their size from MachineClasses.

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::{
    ground::tell_alone,
    story::{Story, condition},
};

const DOMAIN: &str = "/spec/template/spec/domain";

fn class(name: &str, cores: i64, memory: &str) -> Value {
    json!({
        "apiVersion": api::API_VERSION, "kind": "MachineClass",
        "metadata": { "name": name },
        "spec": {
            "cpu": { "cores": cores },
            "memory": { "quantity": memory },
            "disks": [{ "name": "root", "size": "12Gi" }],
        },
    })
}

fn default_class(name: &str, cores: i64, memory: &str) -> Value {
    let mut class = class(name, cores, memory);
    class["spec"]["default"] = true.into();
    class
}

fn memory(vm: &Value) -> &Value {
    vm.pointer(&format!("{DOMAIN}/memory/guest"))
        .unwrap_or(&Value::Null)
}

async fn until_memory(story: &Story, vm: &str, amount: &str) -> Value {
    let found = story.until("VirtualMachine", vm, |vm| memory(vm) == amount);
    found.await
}

/// A Machine of the class `gold`, which has changed from 3Gi to 6Gi since.
async fn behind_its_class() -> Story {
    let story = Story::begin().await;
    story.give(class("gold", 2, "3Gi")).await;
    story
        .machine("web", json!({ "machineClass": "gold" }))
        .await;
    story.until_phase("web", "Running").await;
    let machine = story.get("Machine", "web").await;
    assert_eq!(
        condition(&machine, "MachineClassCurrent")["reason"],
        "ClassCurrent"
    );
    story.give(class("gold", 2, "6Gi")).await;
    let current = story
        .until_condition("web", "MachineClassCurrent", "False")
        .await;
    assert_eq!(current["reason"], "NewerClassAvailable");
    story
}

#[test]
fn a_machine_has_the_size_of_the_class_that_it_names() {
    tell_alone(&[], async {
        let story = Story::begin().await;
        let mut gold = class("gold", 2, "3Gi");
        gold["spec"]["disks"] = json!([
            { "name": "root", "size": "12Gi" },
            { "name": "data", "size": "5Gi", "storageClass": "fixed" },
        ]);
        story.give(gold).await;
        for (machine, field) in [
            ("one", "machineClass"),
            ("two", "template"),
            ("three", "instanceType"),
        ] {
            story.machine(machine, json!({ field: "gold" })).await;
            let found = story.until_phase(machine, "Running").await;
            assert_eq!(found["status"]["memory"], "3Gi");
            assert_eq!(found["status"]["vcpus"], 2);
            let root = format!("{machine}-root");
            let root = story.get("PersistentVolumeClaim", &root).await;
            assert_eq!(root["spec"]["resources"]["requests"]["storage"], "12Gi");
            let data = format!("{machine}-data");
            let data = story.get("PersistentVolumeClaim", &data).await;
            assert_eq!(data["spec"]["storageClassName"], "fixed");
        }
    });
}

#[test]
fn a_machine_that_names_no_size_has_that_of_the_default_class() {
    tell_alone(&[], async {
        let story = Story::begin().await;
        story.give(class("gold", 8, "16Gi")).await;
        story.give(default_class("house", 3, "5Gi")).await;
        story.machine("web", json!({})).await;
        let machine = story.until_phase("web", "Running").await;
        assert_eq!(machine["status"]["memory"], "5Gi");
        assert_eq!(machine["status"]["vcpus"], 3);
    });
}

#[test]
fn a_missing_class_holds_a_machine_until_it_is_there() {
    tell_alone(&[], async {
        let story = Story::begin().await;
        story
            .machine("web", json!({ "machineClass": "gold" }))
            .await;
        let machine = story.until_phase("web", "Failed").await;
        assert_eq!(condition(&machine, "Ready")["reason"], "TemplateNotFound");
        assert_eq!(condition(&machine, "SpecValid")["status"], "False");
        story.wait(3600).await;

        story.give(class("gold", 2, "3Gi")).await;
        let created = Instant::now();
        until_memory(&story, "web", "3Gi").await;
        assert!(created.elapsed() < story.ground.patience_of(2));
        story.until_phase("web", "Running").await;
        story.until_condition("web", "SpecValid", "True").await;
    });
}

#[test]
fn a_class_that_changes_does_not_touch_the_machines_that_run() {
    tell_alone(&[], async {
        let story = behind_its_class().await;
        story.wait(120).await;
        let vm = story.get("VirtualMachine", "web").await;
        assert_eq!(memory(&vm), "3Gi");
        let machine = story.get("Machine", "web").await;
        assert_eq!(condition(&machine, "Ready")["status"], "True");
        assert_eq!(condition(&machine, "RestartRequired")["status"], "False");
        assert_eq!(machine["status"]["memory"], "3Gi");

        // Another change does not bring it along.
        story
            .change("web", json!({ "cpu": { "sockets": 2 } }))
            .await;
        let vm = story
            .until("VirtualMachine", "web", |vm| {
                vm.pointer(&format!("{DOMAIN}/cpu/sockets")) == Some(&json!(2))
            })
            .await;
        assert_eq!(memory(&vm), "3Gi");
    });
}

#[test]
fn a_restart_takes_the_class_as_it_is_now() {
    tell_alone(&[], async {
        let story = behind_its_class().await;
        let before = story.get("VirtualMachineInstance", "web").await;
        let asked = json!({ "restartedAt": "2026-11-15T12:00:00Z" });
        story.change("web", asked).await;
        story
            .until_condition("web", "MachineClassCurrent", "True")
            .await;
        let instance = story
            .until("VirtualMachineInstance", "web", |instance| {
                instance["metadata"]["uid"] != before["metadata"]["uid"]
            })
            .await;
        assert_eq!(instance["spec"]["domain"]["memory"]["guest"], "6Gi");
        let machine = story.until_phase("web", "Running").await;
        assert_eq!(machine["status"]["memory"], "6Gi");
    });
}

#[test]
fn a_machine_that_was_stopped_takes_the_class_as_it_is_now() {
    tell_alone(&[], async {
        let story = behind_its_class().await;
        story
            .change("web", json!({ "powerState": "Stopped" }))
            .await;
        story.until_phase("web", "Stopped").await;
        until_memory(&story, "web", "6Gi").await;
        story
            .change("web", json!({ "powerState": "Running" }))
            .await;
        story.until_phase("web", "Running").await;
        let instance = story.get("VirtualMachineInstance", "web").await;
        assert_eq!(instance["spec"]["domain"]["memory"]["guest"], "6Gi");
    });
}

#[test]
fn a_machine_that_follows_its_class_takes_it_at_once() {
    tell_alone(&[], async {
        let story = behind_its_class().await;
        let follow = json!({ "metadata": { "annotations": {
        "vitistack.io/follow-machine-class": "true",
    } } });
        story.patch("Machine", "web", follow).await;
        until_memory(&story, "web", "6Gi").await;
        story
            .until_condition("web", "MachineClassCurrent", "True")
            .await;

        story.give(class("gold", 2, "7Gi")).await;
        until_memory(&story, "web", "7Gi").await;
    });
}

#[test]
fn a_class_may_go_and_its_machines_keep_running() {
    tell_alone(&[], async {
        let story = Story::begin().await;
        story.give(class("gold", 2, "3Gi")).await;
        story
            .machine("web", json!({ "machineClass": "gold" }))
            .await;
        story.until_phase("web", "Running").await;
        story.delete("MachineClass", "gold").await;
        story
            .until_condition("web", "MachineClassCurrent", "False")
            .await;
        story.wait(120).await;
        let machine = story.get("Machine", "web").await;
        assert_eq!(machine["status"]["phase"], "Running");
        assert_eq!(condition(&machine, "Ready")["status"], "True");

        story.change("web", json!({ "memory": "4Gi" })).await;
        until_memory(&story, "web", "4Gi").await;
    });
}

#[test]
fn a_new_default_class_is_for_new_machines_only() {
    tell_alone(&[], async {
        let story = Story::begin().await;
        story.machine("old", json!({})).await;
        story.until_phase("old", "Running").await;
        story.give(default_class("house", 3, "5Gi")).await;
        // The watches of classes and Machines are apart: let the operator observe the class first.
        story.wait(1).await;
        story.machine("new", json!({})).await;
        story.until_phase("new", "Running").await;
        story.wait(60).await;

        restart(&story, "old").await;
        let old = story.get("Machine", "old").await;
        assert_eq!(old["status"]["memory"], "2Gi");
        let vm = story.get("VirtualMachine", "old").await;
        assert_eq!(memory(&vm), "2Gi");
        let new = story.get("Machine", "new").await;
        assert_eq!(new["status"]["memory"], "5Gi");
    });
}

/// Restarts a Machine, and waits until it runs again.
async fn restart(story: &Story, machine: &str) {
    let before = story.get("VirtualMachineInstance", machine).await;
    let asked = json!({ "restartedAt": "2026-11-15T12:00:00Z" });
    story.change(machine, asked).await;
    let is_another = |it: &Value| it["metadata"]["uid"] != before["metadata"]["uid"];
    story
        .until("VirtualMachineInstance", machine, is_another)
        .await;
    story.until_phase(machine, "Running").await;
}

/// That a Machine has the size of the class `house`, and its disk too.
async fn is_of_the_house(story: &Story, machine: &str) {
    let found = story.get("Machine", machine).await;
    assert_eq!(found["status"]["memory"], "5Gi");
    assert_eq!(found["status"]["vcpus"], 3);
    assert_eq!(condition(&found, "Ready")["status"], "True");
    let instance = story.get("VirtualMachineInstance", machine).await;
    assert_eq!(instance["spec"]["domain"]["memory"]["guest"], "5Gi");
    let root = format!("{machine}-root");
    let root = story.get("PersistentVolumeClaim", &root).await;
    assert_eq!(root["spec"]["resources"]["requests"]["storage"], "12Gi");
}

#[test]
fn a_machine_keeps_the_size_of_a_class_that_goes_over_restarts() {
    tell_alone(&[], async {
        let story = Story::begin().await;
        story.give(default_class("house", 3, "5Gi")).await;
        let machines = [
            ("unnamed", json!({})),
            ("named", json!({ "machineClass": "house" })),
        ];
        for (machine, spec) in machines.clone() {
            story.machine(machine, spec).await;
            story.until_phase(machine, "Running").await;
        }
        let off = json!({ "spec": { "enabled": false } });
        story.patch("MachineClass", "house", off).await;
        for (why, goes) in [("is disabled", false), ("was deleted", true)] {
            if goes {
                story.delete("MachineClass", "house").await;
            }
            for (machine, _) in &machines {
                let told = |found: &Value| {
                    let current = condition(found, "MachineClassCurrent");
                    let message = current["message"].as_str().unwrap_or_default();
                    current["reason"] == "ClassUnavailable"
                        && message.contains(&format!(
                            "MachineClass \"house\", which the Machine is sized by, {why}"
                        ))
                };
                story.until("Machine", machine, told).await;
                is_of_the_house(&story, machine).await;
            }
        }
        for (machine, _) in &machines {
            restart(&story, machine).await;
            is_of_the_house(&story, machine).await;
            for state in ["Stopped", "Running"] {
                story.change(machine, json!({ "powerState": state })).await;
                story.until_phase(machine, state).await;
            }
            is_of_the_house(&story, machine).await;
        }

        // What the message says helps.
        let medium = json!({ "template": "medium", "machineClass": null });
        story.change("named", medium).await;
        until_memory(&story, "named", "4Gi").await;
    });
}

#[test]
fn a_class_that_is_switched_off_takes_no_new_machines() {
    tell_alone(&[], async {
        let story = Story::begin().await;
        story.give(class("gold", 2, "3Gi")).await;
        story
            .machine("old", json!({ "machineClass": "gold" }))
            .await;
        story.until_phase("old", "Running").await;
        let off = json!({ "spec": { "enabled": false } });
        story.patch("MachineClass", "gold", off).await;

        story
            .machine("new", json!({ "machineClass": "gold" }))
            .await;
        let new = story.until_phase("new", "Failed").await;
        assert_eq!(condition(&new, "SpecValid")["status"], "False");
        let old = story.get("Machine", "old").await;
        assert_eq!(condition(&old, "Ready")["status"], "True");

        let on = json!({ "spec": { "enabled": true } });
        story.patch("MachineClass", "gold", on).await;
        story.until_phase("new", "Running").await;
    });
}
