//! Sizes of Machines from MachineClasses.

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::{
    runner::run_scenario_alone,
    scenario::{Scenario, condition},
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

async fn until_memory(scenario: &Scenario, vm: &str, amount: &str) -> Value {
    let found = scenario.until("VirtualMachine", vm, |vm| memory(vm) == amount);
    found.await
}

/// Machine with a snapshot of the class `gold` that is older than its change from 3Gi to 6Gi.
async fn start_with_outdated_class_snapshot() -> Scenario {
    let scenario = Scenario::start().await;
    scenario.apply_object(class("gold", 2, "3Gi")).await;
    scenario
        .create_machine("web", json!({ "machineClass": "gold" }))
        .await;
    scenario.until_phase("web", "Running").await;
    let machine = scenario.get("Machine", "web").await;
    assert_eq!(
        condition(&machine, "MachineClassCurrent")["reason"],
        "ClassCurrent"
    );
    scenario.apply_object(class("gold", 2, "6Gi")).await;
    let current = scenario
        .until_condition("web", "MachineClassCurrent", "False")
        .await;
    assert_eq!(current["reason"], "NewerClassAvailable");
    scenario
}

#[test]
fn a_machine_has_the_size_of_the_class_that_it_names() {
    run_scenario_alone(&[], async {
        let scenario = Scenario::start().await;
        let mut gold = class("gold", 2, "3Gi");
        gold["spec"]["disks"] = json!([
            { "name": "root", "size": "12Gi" },
            { "name": "data", "size": "5Gi", "storageClass": "fixed" },
        ]);
        scenario.apply_object(gold).await;
        for (machine, field) in [
            ("one", "machineClass"),
            ("two", "template"),
            ("three", "instanceType"),
        ] {
            scenario
                .create_machine(machine, json!({ field: "gold" }))
                .await;
            let found = scenario.until_phase(machine, "Running").await;
            assert_eq!(found["status"]["memoryQuantity"], "3Gi");
            assert_eq!(found["status"]["vcpus"], 2);
            let root = format!("{machine}-root");
            let root = scenario.get("PersistentVolumeClaim", &root).await;
            assert_eq!(root["spec"]["resources"]["requests"]["storage"], "12Gi");
            let data = format!("{machine}-data");
            let data = scenario.get("PersistentVolumeClaim", &data).await;
            assert_eq!(data["spec"]["storageClassName"], "fixed");
        }
    });
}

#[test]
fn a_machine_without_a_class_has_the_size_of_the_default_class() {
    run_scenario_alone(&[], async {
        let scenario = Scenario::start().await;
        scenario.apply_object(class("gold", 8, "16Gi")).await;
        scenario
            .apply_object(default_class("house", 3, "5Gi"))
            .await;
        scenario.create_machine("web", json!({})).await;
        let machine = scenario.until_phase("web", "Running").await;
        assert_eq!(machine["status"]["memoryQuantity"], "5Gi");
        assert_eq!(machine["status"]["vcpus"], 3);
    });
}

#[test]
fn a_machine_waits_for_a_missing_class() {
    run_scenario_alone(&[], async {
        let scenario = Scenario::start().await;
        scenario
            .create_machine("web", json!({ "machineClass": "gold" }))
            .await;
        let machine = scenario.until_phase("web", "Failed").await;
        assert_eq!(condition(&machine, "Ready")["reason"], "TemplateNotFound");
        assert_eq!(condition(&machine, "SpecValid")["status"], "False");
        scenario.wait(3600).await;

        scenario.apply_object(class("gold", 2, "3Gi")).await;
        let created = Instant::now();
        until_memory(&scenario, "web", "3Gi").await;
        assert!(created.elapsed() < scenario.cluster.timeout_of(2));
        scenario.until_phase("web", "Running").await;
        scenario.until_condition("web", "SpecValid", "True").await;
    });
}

#[test]
fn a_changed_class_does_not_affect_running_machines() {
    run_scenario_alone(&[], async {
        let scenario = start_with_outdated_class_snapshot().await;
        scenario.wait(120).await;
        let vm = scenario.get("VirtualMachine", "web").await;
        assert_eq!(memory(&vm), "3Gi");
        let machine = scenario.get("Machine", "web").await;
        assert_eq!(condition(&machine, "Ready")["status"], "True");
        assert_eq!(condition(&machine, "RestartRequired")["status"], "False");
        assert_eq!(machine["status"]["memoryQuantity"], "3Gi");

        // Another change does not apply the new class.
        scenario
            .patch_spec("web", json!({ "cpu": { "sockets": 2 } }))
            .await;
        let vm = scenario
            .until("VirtualMachine", "web", |vm| {
                vm.pointer(&format!("{DOMAIN}/cpu/sockets")) == Some(&json!(2))
            })
            .await;
        assert_eq!(memory(&vm), "3Gi");
    });
}

#[test]
fn a_restart_applies_the_current_class() {
    run_scenario_alone(&[], async {
        let scenario = start_with_outdated_class_snapshot().await;
        let before = scenario.get("VirtualMachineInstance", "web").await;
        let requested = json!({ "restartedAt": "2026-11-15T12:00:00Z" });
        scenario.patch_spec("web", requested).await;
        scenario
            .until_condition("web", "MachineClassCurrent", "True")
            .await;
        let instance = scenario
            .until("VirtualMachineInstance", "web", |instance| {
                instance["metadata"]["uid"] != before["metadata"]["uid"]
            })
            .await;
        assert_eq!(instance["spec"]["domain"]["memory"]["guest"], "6Gi");
        let machine = scenario.until_phase("web", "Running").await;
        assert_eq!(machine["status"]["memoryQuantity"], "6Gi");
    });
}

#[test]
fn a_stopped_machine_gets_the_current_class() {
    run_scenario_alone(&[], async {
        let scenario = start_with_outdated_class_snapshot().await;
        scenario
            .patch_spec("web", json!({ "powerState": "Stopped" }))
            .await;
        scenario.until_phase("web", "Stopped").await;
        until_memory(&scenario, "web", "6Gi").await;
        scenario
            .patch_spec("web", json!({ "powerState": "Running" }))
            .await;
        scenario.until_phase("web", "Running").await;
        let instance = scenario.get("VirtualMachineInstance", "web").await;
        assert_eq!(instance["spec"]["domain"]["memory"]["guest"], "6Gi");
    });
}

#[test]
fn a_machine_that_follows_its_class_gets_changes_immediately() {
    run_scenario_alone(&[], async {
        let scenario = start_with_outdated_class_snapshot().await;
        let follow = json!({ "metadata": { "annotations": {
        "vitistack.io/follow-machine-class": "true",
    } } });
        scenario.patch("Machine", "web", follow).await;
        until_memory(&scenario, "web", "6Gi").await;
        scenario
            .until_condition("web", "MachineClassCurrent", "True")
            .await;

        scenario.apply_object(class("gold", 2, "7Gi")).await;
        until_memory(&scenario, "web", "7Gi").await;
    });
}

#[test]
fn machines_keep_running_when_their_class_is_deleted() {
    run_scenario_alone(&[], async {
        let scenario = Scenario::start().await;
        scenario.apply_object(class("gold", 2, "3Gi")).await;
        scenario
            .create_machine("web", json!({ "machineClass": "gold" }))
            .await;
        scenario.until_phase("web", "Running").await;
        scenario.delete("MachineClass", "gold").await;
        scenario
            .until_condition("web", "MachineClassCurrent", "False")
            .await;
        scenario.wait(120).await;
        let machine = scenario.get("Machine", "web").await;
        assert_eq!(machine["status"]["phase"], "Running");
        assert_eq!(condition(&machine, "Ready")["status"], "True");

        scenario.patch_spec("web", json!({ "memory": "4Gi" })).await;
        until_memory(&scenario, "web", "4Gi").await;
    });
}

#[test]
fn a_new_default_class_is_for_new_machines_only() {
    run_scenario_alone(&[], async {
        let scenario = Scenario::start().await;
        scenario.create_machine("old", json!({})).await;
        scenario.until_phase("old", "Running").await;
        scenario
            .apply_object(default_class("house", 3, "5Gi"))
            .await;
        // Classes and Machines have separate watches: let the operator observe the class first.
        scenario.wait(1).await;
        scenario.create_machine("new", json!({})).await;
        scenario.until_phase("new", "Running").await;
        scenario.wait(60).await;

        restart(&scenario, "old").await;
        let old = scenario.get("Machine", "old").await;
        assert_eq!(old["status"]["memoryQuantity"], "2Gi");
        let vm = scenario.get("VirtualMachine", "old").await;
        assert_eq!(memory(&vm), "2Gi");
        let new = scenario.get("Machine", "new").await;
        assert_eq!(new["status"]["memoryQuantity"], "5Gi");
    });
}

/// Restarts a Machine and waits until it runs again.
async fn restart(scenario: &Scenario, machine: &str) {
    let before = scenario.get("VirtualMachineInstance", machine).await;
    let requested = json!({ "restartedAt": "2026-11-15T12:00:00Z" });
    scenario.patch_spec(machine, requested).await;
    let is_another = |it: &Value| it["metadata"]["uid"] != before["metadata"]["uid"];
    scenario
        .until("VirtualMachineInstance", machine, is_another)
        .await;
    scenario.until_phase(machine, "Running").await;
}

/// Asserts that a Machine and its disk have the size of the class `house`.
async fn assert_size_of_house(scenario: &Scenario, machine: &str) {
    let found = scenario.get("Machine", machine).await;
    assert_eq!(found["status"]["memoryQuantity"], "5Gi");
    assert_eq!(found["status"]["vcpus"], 3);
    assert_eq!(condition(&found, "Ready")["status"], "True");
    let instance = scenario.get("VirtualMachineInstance", machine).await;
    assert_eq!(instance["spec"]["domain"]["memory"]["guest"], "5Gi");
    let root = format!("{machine}-root");
    let root = scenario.get("PersistentVolumeClaim", &root).await;
    assert_eq!(root["spec"]["resources"]["requests"]["storage"], "12Gi");
}

#[test]
fn a_machine_keeps_the_size_of_a_deleted_class_across_restarts() {
    run_scenario_alone(&[], async {
        let scenario = Scenario::start().await;
        scenario
            .apply_object(default_class("house", 3, "5Gi"))
            .await;
        let machines = [
            ("unnamed", json!({})),
            ("named", json!({ "machineClass": "house" })),
        ];
        for (machine, spec) in machines.clone() {
            scenario.create_machine(machine, spec).await;
            scenario.until_phase(machine, "Running").await;
        }
        let off = json!({ "spec": { "enabled": false } });
        scenario.patch("MachineClass", "house", off).await;
        for (why, is_deleted) in [("is disabled", false), ("was deleted", true)] {
            if is_deleted {
                scenario.delete("MachineClass", "house").await;
            }
            for (machine, _) in &machines {
                let matches = |found: &Value| {
                    let current = condition(found, "MachineClassCurrent");
                    let message = current["message"].as_str().unwrap_or_default();
                    current["reason"] == "ClassUnavailable"
                        && message.contains(&format!(
                            "MachineClass \"house\", which the Machine is sized by, {why}"
                        ))
                };
                scenario.until("Machine", machine, matches).await;
                assert_size_of_house(&scenario, machine).await;
            }
        }
        for (machine, _) in &machines {
            restart(&scenario, machine).await;
            assert_size_of_house(&scenario, machine).await;
            for state in ["Stopped", "Running"] {
                scenario
                    .patch_spec(machine, json!({ "powerState": state }))
                    .await;
                scenario.until_phase(machine, state).await;
            }
            assert_size_of_house(&scenario, machine).await;
        }

        // The remedy of the message works.
        let medium = json!({ "template": "medium", "machineClass": null });
        scenario.patch_spec("named", medium).await;
        until_memory(&scenario, "named", "4Gi").await;
    });
}

#[test]
fn a_disabled_class_accepts_no_new_machines() {
    run_scenario_alone(&[], async {
        let scenario = Scenario::start().await;
        scenario.apply_object(class("gold", 2, "3Gi")).await;
        scenario
            .create_machine("old", json!({ "machineClass": "gold" }))
            .await;
        scenario.until_phase("old", "Running").await;
        let off = json!({ "spec": { "enabled": false } });
        scenario.patch("MachineClass", "gold", off).await;

        scenario
            .create_machine("new", json!({ "machineClass": "gold" }))
            .await;
        let new = scenario.until_phase("new", "Failed").await;
        assert_eq!(condition(&new, "SpecValid")["status"], "False");
        let old = scenario.get("Machine", "old").await;
        assert_eq!(condition(&old, "Ready")["status"], "True");

        let on = json!({ "spec": { "enabled": true } });
        scenario.patch("MachineClass", "gold", on).await;
        scenario.until_phase("new", "Running").await;
    });
}
