//! Adoption of VirtualMachines of others: of the Go operator of the Viti stack, and made by hand.

use std::collections::BTreeMap;

use api::labels;
use kube::api::{DeleteParams, Patch, PatchParams, PropagationPolicy};
use serde_json::{Value, json};

use crate::{
    runner::{run_scenario, run_scenario_in_sandbox},
    scenario::{Scenario, condition},
};

const CLAIM: &str = "PersistentVolumeClaim";
const INSTANCE: &str = "VirtualMachineInstance";

fn managed(machine: &str) -> Value {
    json!({ labels::MANAGED_BY: labels::MANAGER, labels::SOURCE_MACHINE: machine })
}

fn claim(name: &str, labels: &Value) -> Value {
    json!({
        "metadata": { "name": name, "labels": labels },
        "spec": {
            "accessModes": ["ReadWriteOnce"], "volumeMode": "Block",
            "resources": { "requests": { "storage": "20Gi" } },
        },
    })
}

/// A VirtualMachine with one disk, as vitistack/kubevirt-operator 63ee0ee creates it on the pod network.
fn virtual_machine(name: &str, labels: &Value, disks: &[(&str, &str)]) -> Value {
    let devices: Vec<Value> = disks
        .iter()
        .enumerate()
        .map(|(index, (disk, _))| {
            let mut device = json!({ "name": disk, "disk": { "bus": "virtio" } });
            if index == 0 {
                device["bootOrder"] = 1.into();
            }
            device
        })
        .collect();
    let volumes: Vec<Value> = disks
        .iter()
        .map(|(disk, claim)| {
            json!({ "name": disk, "persistentVolumeClaim": { "claimName": claim } })
        })
        .collect();
    json!({
        "metadata": { "name": name, "labels": labels },
        "spec": { "runStrategy": "Always", "template": {
            "metadata": { "labels": labels },
            "spec": {
                "domain": {
                    "cpu": { "model": "host-model", "cores": 2, "sockets": 1, "threads": 1 },
                    "memory": { "guest": "4Gi" },
                    "firmware": { "bootloader": { "efi": { "secureBoot": false } } },
                    "devices": {
                        "autoattachPodInterface": false, "networkInterfaceMultiqueue": true,
                        "disks": devices,
                        "interfaces": [{ "name": "default", "model": "virtio", "bridge": {},
                            "macAddress": "02:00:00:00:00:01" }],
                    },
                },
                "networks": [{ "name": "default", "pod": {} }],
                "volumes": volumes,
            },
        } },
    })
}

/// The Machine that the Go operator has such a VirtualMachine for, with its finalizer.
fn machine(name: &str, annotations: &Value) -> Value {
    json!({
        "metadata": {
            "name": name, "finalizers": [labels::FORMER_FINALIZER], "annotations": annotations,
        },
        "spec": {
            "provider": "kubevirt", "instanceType": "small",
            "cpu": { "cores": 2, "sockets": 1, "threadsPerCore": 1 }, "memory": 4_294_967_296_i64,
            "disks": [{ "name": "disk-0", "sizeGB": 20, "boot": true }],
        },
    })
}

fn adopts(value: &str) -> Value {
    json!({ "metadata": { "annotations": { labels::ADOPT: value } } })
}

/// Creates the objects that the Go operator leaves of a Machine, and waits for the guest.
async fn create_go_made(scenario: &Scenario, name: &str) {
    let labels = managed(name);
    scenario.create("Machine", machine(name, &json!({}))).await;
    let status = Patch::Merge(json!({ "status": { "phase": "Running", "state": "Running" } }));
    let (machines, params) = (scenario.api("Machine"), PatchParams::default());
    machines.patch_status(name, &params, &status).await.unwrap();
    scenario.create(CLAIM, claim(name, &labels)).await;
    let vm = virtual_machine(name, &labels, &[("disk-0", name)]);
    scenario.create("VirtualMachine", vm).await;
}

async fn until_running(scenario: &Scenario, name: &str) {
    let connected = |vmi: &Value| condition(vmi, "AgentConnected")["status"] == "True";
    scenario.until(INSTANCE, name, connected).await;
}

/// What an adoption must not change: UIDs, the specs of VirtualMachines and claims, and instances.
async fn unchangeable(scenario: &Scenario) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    for kind in ["VirtualMachine", INSTANCE, CLAIM] {
        for object in scenario.list(kind).await {
            let name = object["metadata"]["name"].as_str().unwrap();
            let uid = object["metadata"]["uid"].clone();
            let spec = if kind == INSTANCE {
                Value::Null
            } else {
                object["spec"].clone()
            };
            found.insert(format!("{kind} {name}"), json!([uid, spec]));
        }
    }
    found
}

fn is_adopted(machine: &Value) -> bool {
    condition(machine, "SpecApplied")["reason"] == "Adopted"
        && machine["status"]["phase"] == "Running"
}

#[test]
fn a_machine_of_the_go_operator_is_adopted_without_a_restart() {
    run_scenario(async {
        let mut scenario = Scenario::without_operator().await;
        create_go_made(&scenario, "web").await;
        until_running(&scenario, "web").await;
        let before = unchangeable(&scenario).await;
        scenario.patch("Machine", "web", adopts("true")).await;
        scenario.start_operator();

        let adopted = scenario.until("Machine", "web", is_adopted).await;
        assert_eq!(
            adopted["metadata"]["finalizers"],
            json!([labels::FINALIZER])
        );
        let disk = &adopted["status"]["disks"][0];
        assert_eq!(disk["name"], "disk-0");
        assert_eq!(disk["pvcName"], "web");
        assert!(disk["device"].is_string());
        assert_eq!(unchangeable(&scenario).await, before);
        let vm = scenario.get("VirtualMachine", "web").await;
        let owner = &vm["metadata"]["ownerReferences"][0];
        assert_eq!(owner["uid"], adopted["metadata"]["uid"]);
        assert!(scenario.has_event("web", "Adopted").await);

        // A change of the Machine is shown, and reaches the VirtualMachine only on request.
        scenario.patch_spec("web", json!({ "memory": "5Gi" })).await;
        let differs = |found: &Value| condition(found, "SpecApplied")["reason"] == "SpecDiffers";
        let found = scenario.until("Machine", "web", differs).await;
        let message = condition(&found, "SpecApplied")["message"].clone();
        assert!(
            message.as_str().unwrap().contains("domain.memory.guest"),
            "{message}"
        );
        assert_eq!(unchangeable(&scenario).await, before);
        scenario.patch("Machine", "web", adopts("apply")).await;
        let is_applied = |vm: &Value| {
            let template = &vm["spec"]["template"]["spec"];
            template["domain"]["memory"]["guest"] == "5Gi"
        };
        let vm = scenario.until("VirtualMachine", "web", is_applied).await;
        let template = &vm["spec"]["template"]["spec"];
        assert_eq!(template["domain"]["cpu"]["model"], "host-model");
        assert_eq!(
            template["volumes"][0]["persistentVolumeClaim"]["claimName"],
            "web"
        );
        let applied = |found: &Value| condition(found, "SpecApplied").is_null();
        scenario.until("Machine", "web", applied).await;
        let after = unchangeable(&scenario).await;
        assert_eq!(after.len(), before.len(), "no disk is created");
        for kind in [CLAIM, INSTANCE] {
            let key = format!("{kind} web");
            assert_eq!(after[&key], before[&key]);
        }
    });
}

#[test]
fn a_virtual_machine_made_by_hand_is_adopted() {
    run_scenario(async {
        let scenario = Scenario::start().await;
        let none = json!({});
        scenario.create(CLAIM, claim("old-disk", &none)).await;
        let vm = virtual_machine("web", &none, &[("disk-0", "old-disk")]);
        scenario.create("VirtualMachine", vm).await;
        until_running(&scenario, "web").await;
        let before = unchangeable(&scenario).await;
        let mut wanted = machine("web", &json!({ labels::ADOPT: "true" }));
        wanted["metadata"]["finalizers"] = json!([]);
        scenario.create("Machine", wanted).await;
        let adopted = scenario.until("Machine", "web", is_adopted).await;
        assert_eq!(adopted["status"]["disks"][0]["pvcName"], "old-disk");
        let mut after = unchangeable(&scenario).await;
        // The template is labelled, so that the operator sees the next instance.
        let template = &mut after.get_mut("VirtualMachine web").unwrap()[1]["template"];
        let labelled = template["metadata"]["labels"].take();
        assert_eq!(labelled[labels::MANAGED_BY], labels::MANAGER);
        let mut before = before;
        before.get_mut("VirtualMachine web").unwrap()[1]["template"]["metadata"]["labels"].take();
        after.get_mut("VirtualMachine web").unwrap()[1]["template"]["metadata"]["labels"].take();
        assert_eq!(after, before);
    });
}

#[test]
fn a_machine_without_a_virtual_machine_to_adopt_creates_nothing() {
    run_scenario(async {
        let scenario = Scenario::start().await;
        let wanted = machine("web", &json!({ labels::ADOPT: "true" }));
        scenario.create("Machine", wanted).await;
        let found = scenario.until_reason("web", "ForeignObject").await;
        let message = condition(&found, "Ready")["message"].clone();
        assert!(
            message
                .as_str()
                .unwrap()
                .contains("no VirtualMachine \"web\" to adopt"),
            "{message}"
        );
        assert_eq!(scenario.list(CLAIM).await.len(), 0);
        // Without the Go operator's finalizer it is an ordinary Machine.
        scenario.patch("Machine", "web", adopts("false")).await;
        let change = json!({ "metadata": { "finalizers": null } });
        scenario.patch("Machine", "web", change).await;
        scenario.until_phase("web", "Running").await;
    });
}

#[test]
fn what_a_pool_controls_is_not_adopted() {
    run_scenario(async {
        let scenario = Scenario::start().await;
        let mut vm = virtual_machine("web", &json!({}), &[]);
        vm["metadata"]["ownerReferences"] = json!([{
            "apiVersion": "pool.kubevirt.io/v1beta1", "kind": "VirtualMachinePool", "name": "farm",
            "uid": "00000000-0000-4000-8000-000000000001", "controller": true,
        }]);
        vm["spec"]["runStrategy"] = "Halted".into();
        let recording = scenario.record(&["VirtualMachine"]).await;
        let created = scenario.create("VirtualMachine", vm).await;
        let mut wanted = machine("web", &json!({ labels::ADOPT: "apply" }));
        wanted["metadata"]["finalizers"] = json!([]);
        scenario.create("Machine", wanted).await;
        let found = scenario.until_reason("web", "ForeignObject").await;
        let message = condition(&found, "Ready")["message"].clone();
        assert!(
            message
                .as_str()
                .unwrap()
                .contains("VirtualMachinePool \"farm\""),
            "{message}"
        );
        let labels = &created["metadata"]["labels"];
        for change in recording.of("VirtualMachine", "web") {
            assert_eq!(&change.object["metadata"]["labels"], labels);
        }
    });
}

/// Adopts, and the operator dies after this number of writes without having got the last answer.
async fn adopt_with_crash(value: &str, writes: Option<u32>) -> BTreeMap<String, Value> {
    let mut scenario = Scenario::without_operator().await;
    create_go_made(&scenario, "web").await;
    until_running(&scenario, "web").await;
    let before = unchangeable(&scenario).await;
    scenario.patch("Machine", "web", adopts(value)).await;
    if let Some(writes) = writes {
        scenario.faults.hang_after_writes(writes);
        scenario.start_operator();
        scenario.until_writes(writes).await;
        scenario.kill_operator().await;
        scenario.faults.clear();
    }
    scenario.start_operator();
    let is_done = |found: &Value| {
        let reason = condition(found, "SpecApplied")["reason"].clone();
        found["status"]["phase"] == "Running"
            && found["metadata"]["finalizers"] == json!([labels::FINALIZER])
            && (value == "true" && reason == "Adopted" || value == "apply" && reason.is_null())
    };
    scenario.until("Machine", "web", is_done).await;
    scenario.wait(30).await;
    let after = unchangeable(&scenario).await;
    let mut end = BTreeMap::new();
    for (key, object) in &after {
        assert_eq!(object[0], before[key][0], "{key}");
        if !key.starts_with("VirtualMachine ") {
            assert_eq!(object, &before[key]);
        }
        end.insert(key.clone(), object[1].clone());
    }
    end
}

#[test]
fn an_adoption_survives_crashes_and_lost_answers() {
    run_scenario_in_sandbox("it starts a cluster for each crash", async {
        // Until the VirtualMachine is the Machine's, both values lead to the same writes.
        for (value, crashes) in [("true", 1..=4), ("apply", 4..=4)] {
            let expected = adopt_with_crash(value, None).await;
            for writes in crashes {
                let found = adopt_with_crash(value, Some(writes)).await;
                assert_eq!(found, expected, "{value} {writes}");
            }
        }
    });
}

#[test]
fn a_hundred_machines_of_the_go_operator_are_adopted_with_four_writes_each() {
    run_scenario_in_sandbox("it takes minutes in real time", async {
        const COUNT: usize = 100;
        let mut scenario = Scenario::without_operator_on(|setup| setup.nodes = COUNT).await;
        let names: Vec<String> = (0..COUNT).map(|index| format!("node-{index}")).collect();
        for name in &names {
            create_go_made(&scenario, name).await;
        }
        for name in &names {
            until_running(&scenario, name).await;
            scenario.patch("Machine", name, adopts("true")).await;
        }
        let before = unchangeable(&scenario).await;
        assert_eq!(before.len(), 3 * COUNT);
        scenario.calls.take();
        scenario.start_operator();
        for name in &names {
            scenario.until("Machine", name, is_adopted).await;
        }
        scenario.wait(60).await;
        assert_eq!(unchangeable(&scenario).await, before);
        let requests = scenario.calls.snapshot();
        assert!(scenario.writes("") <= 4 * COUNT as u64, "{requests:?}");
        scenario.calls.take();
        scenario.wait_long().await;
        assert_eq!(scenario.writes(""), 0);
    });
}

#[test]
fn the_go_operator_can_take_an_adopted_machine_back() {
    run_scenario(async {
        let mut scenario = Scenario::without_operator().await;
        create_go_made(&scenario, "web").await;
        until_running(&scenario, "web").await;
        let before = unchangeable(&scenario).await;
        scenario.patch("Machine", "web", adopts("true")).await;
        scenario.start_operator();
        scenario.until("Machine", "web", is_adopted).await;

        // docs/viti.md has these steps.
        scenario.stop_operator().await;
        let back = json!({ "metadata": {
            "annotations": { labels::ADOPT: null }, "finalizers": [labels::FORMER_FINALIZER],
        } });
        scenario.patch("Machine", "web", back).await;
        let free = json!({ "metadata": { "ownerReferences": [] } });
        scenario.patch("VirtualMachine", "web", free).await;
        scenario.wait(5).await;
        assert_eq!(unchangeable(&scenario).await, before);
        // What the Go operator selects its objects by.
        for kind in ["VirtualMachine", CLAIM, INSTANCE] {
            let found = scenario.get(kind, "web").await;
            let labels = &found["metadata"]["labels"];
            assert_eq!(labels[labels::MANAGED_BY], labels::MANAGER, "{kind}");
            assert_eq!(labels[labels::SOURCE_MACHINE], "web", "{kind}");
        }
    });
}

#[test]
fn a_machine_that_is_deleted_with_orphaning_leaves_an_adopted_guest_running() {
    run_scenario(async {
        let mut scenario = Scenario::without_operator().await;
        create_go_made(&scenario, "web").await;
        until_running(&scenario, "web").await;
        let before = unchangeable(&scenario).await;
        scenario.patch("Machine", "web", adopts("true")).await;
        scenario.start_operator();
        scenario.until("Machine", "web", is_adopted).await;
        let params = DeleteParams {
            propagation_policy: Some(PropagationPolicy::Orphan),
            ..DeleteParams::default()
        };
        scenario.delete_with("Machine", "web", params).await;
        scenario.until_gone("Machine", "web").await;
        scenario.wait(5).await;
        assert_eq!(unchangeable(&scenario).await, before);
        let again = machine("web", &json!({ labels::ADOPT: "true" }));
        scenario.create("Machine", again).await;
        scenario.until("Machine", "web", is_adopted).await;
        assert_eq!(unchangeable(&scenario).await, before);
    });
}
