//! Random changes of Machines, and interference with their children.

use serde_json::{Value, json};

use super::{Dice, create, delete, patch};
use crate::decision::{Action, Decision, Effect, Propagation, Trigger};

const PROPAGATIONS: [Propagation; 3] = [
    Propagation::Background,
    Propagation::Foreground,
    Propagation::Orphan,
];

/// A foreign VirtualMachine that uses a claim.
pub fn foreign_machine(name: &str, claim: &str, runs: bool) -> Action {
    let strategy = if runs { "Always" } else { "Halted" };
    create(
        "VirtualMachine",
        name,
        json!({
            "runStrategy": strategy,
            "template": { "spec": {
                "domain": {
                    "devices": { "disks": [{ "name": "disk", "disk": { "bus": "virtio" } }] },
                    "memory": { "guest": "1Gi" },
                },
                "volumes": [{ "name": "disk", "persistentVolumeClaim": { "claimName": claim } }],
            } },
        }),
    )
}

fn claim(name: &str) -> Action {
    let spec = json!({
        "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } },
    });
    create("PersistentVolumeClaim", name, spec)
}

/// Networks, MachineClasses and foreign objects.
pub fn seed_objects() -> Vec<Action> {
    let class = |name, cores| {
        let spec = json!({
            "cpu": { "cores": cores }, "memory": { "quantity": "1Gi" },
            "disks": [{ "name": "root", "size": "2Gi" }],
        });
        create("MachineClass", name, spec)
    };
    vec![
        create("NetworkConfiguration", "lan", json!({ "bridge": "br0" })),
        create(
            "NetworkConfiguration",
            "wan",
            json!({ "bridge": "br1", "vlan": 7 }),
        ),
        class("one", 1),
        class("two", 2),
        claim("theirs-disk"),
        foreign_machine("theirs", "theirs-disk", true),
        Action::Create {
            kind: "Secret",
            object: json!({ "metadata": { "name": "theirs" }, "stringData": { "key": "value" } }),
        },
    ]
}

fn disks(dice: &mut Dice) -> Value {
    let all = [
        json!({ "name": "data", "size": "1Gi", "source": { "blank": {} } }),
        json!({ "name": "logs", "size": "1Gi" }),
        json!({ "name": "root", "size": "8Gi" }),
        json!({ "name": "cache", "size": "1Gi", "bus": "scsi" }),
    ];
    let chosen: Vec<_> = all.into_iter().filter(|_| dice.once_in(2)).collect();
    if chosen.is_empty() {
        Value::Null
    } else {
        Value::Array(chosen)
    }
}

fn policy(dice: &mut Dice) -> Value {
    [Value::Null, "Delete".into(), "Retain".into()][dice.below(3)].clone()
}

fn cloud_init(dice: &mut Dice) -> Value {
    [
        Value::Null,
        json!({ "userData": "#!/bin/sh\necho one\n" }),
        json!({ "userData": "#!/bin/sh\necho two\n" }),
        json!({ "userData": "#!/bin/sh\necho one\n", "networkData": "version: 2\n" }),
    ][dice.below(4)]
    .clone()
}

/// Merge patch of one part of the spec: every field to every kind of value and back.
fn change(dice: &mut Dice) -> Value {
    match dice.below(12) {
        0 => json!({ "disks": disks(dice) }),
        1 => json!({ "disks": disks(dice), "deletionPolicy": policy(dice) }),
        2 => json!({ "deletionPolicy": policy(dice) }),
        3 => json!({ "cloudInit": cloud_init(dice) }),
        4 | 5 => json!({ "powerState": dice.pick(&["Running", "Stopped", "Paused"]) }),
        6 => json!({ "restartedAt": format!("2026-01-0{}T00:00:00Z", 1 + dice.below(9)) }),
        7 => {
            let cores =
                [Value::Null, 1.into(), 2.into(), 4.into(), 64.into()][dice.below(5)].clone();
            json!({ "resources": { "cpu": { "cores": cores }, "memory": { "size": "1Gi" } } })
        }
        8 => json!({ "resources": null }),
        9 => {
            let name = dice.pick(&["lan", "wan"]);
            let one = json!([{ "name": "net", "networkName": name }]);
            json!({ "networks": dice.maybe(one) })
        }
        10 => {
            let machine = dice.maybe(json!({ "type": "pc-q35" }));
            let loader = json!({ "bootloader": { "efi": true, "secureBoot": false } });
            let firmware = dice.maybe(loader);
            let features = dice.maybe(json!({ "hyperv": true }));
            json!({ "domain": { "machine": machine, "firmware": firmware, "features": features } })
        }
        _ => match dice.below(3) {
            0 => json!({ "template": "small", "machineClass": null }),
            1 => json!({ "template": null, "machineClass": "one" }),
            _ => json!({ "template": null, "machineClass": "two" }),
        },
    }
}

fn spec(dice: &mut Dice) -> Value {
    let mut spec = json!({});
    if dice.once_in(2) {
        spec["template"] = "small".into();
    } else {
        spec["machineClass"] = "one".into();
    }
    for (field, value) in [
        ("disks", disks(dice)),
        ("deletionPolicy", policy(dice)),
        ("cloudInit", cloud_init(dice)),
    ] {
        if !value.is_null() && dice.once_in(2) {
            spec[field] = value;
        }
    }
    if dice.once_in(4) {
        spec["networks"] = json!([{ "name": "net", "networkName": "lan" }]);
    }
    if dice.once_in(6) {
        spec["powerState"] = "Stopped".into();
    }
    spec
}

/// A child of a Machine.
fn child(dice: &mut Dice, machine: &str) -> (&'static str, String) {
    match dice.below(8) {
        0 | 1 => ("VirtualMachine", machine.to_owned()),
        2 => ("VirtualMachineInstance", machine.to_owned()),
        3 | 4 => ("PersistentVolumeClaim", format!("{machine}-root")),
        5 => ("DataVolume", format!("{machine}-data")),
        6 => ("PersistentVolumeClaim", format!("{machine}-logs")),
        _ => ("Secret", format!("{machine}-cloud-init")),
    }
}

/// Interference of another controller or an administrator with the children of a Machine.
fn hostile(dice: &mut Dice, machine: &str) -> Action {
    let (kind, name) = child(dice, machine);
    match dice.below(10) {
        0 | 1 => patch(
            kind,
            &name,
            json!({ "metadata": { "ownerReferences": null } }),
        ),
        2 => patch(
            kind,
            &name,
            json!({ "metadata": { "labels": { "vitistack.io/managed-by": null } } }),
        ),
        3 => patch(
            kind,
            &name,
            json!({ "metadata": { "labels": { "vitistack.io/machine": null } } }),
        ),
        4 => patch(kind, &name, json!({ "metadata": { "finalizers": null } })),
        5 | 6 => delete(kind, &name, *dice.pick(&PROPAGATIONS)),
        7 => foreign_machine("thief", &format!("{machine}-root"), dice.once_in(2)),
        8 => patch(
            "Machine",
            machine,
            json!({ "metadata": { "finalizers": null } }),
        ),
        _ => match kind {
            "VirtualMachine" => patch(kind, &name, json!({ "spec": { "runStrategy": "Halted" } })),
            "Secret" => patch(
                kind,
                &name,
                json!({ "stringData": { "userdata": "edited" } }),
            ),
            _ => patch(
                kind,
                &name,
                json!({ "metadata": { "annotations": { "vitistack.io/machine-uid": "other" } } }),
            ),
        },
    }
}

/// Fault of the cluster itself.
fn failing(dice: &mut Dice, machine: &str) -> Action {
    let fail = |kind, name: &str, word: &str| {
        let annotations = json!({ sandbox::faults::ANNOTATION: word });
        patch(
            kind,
            name,
            json!({ "metadata": { "annotations": annotations } }),
        )
    };
    match dice.below(7) {
        0 => fail("Node", &format!("node-{}", 1 + dice.below(3)), "NotReady"),
        1 => fail(
            "PersistentVolumeClaim",
            &format!("{machine}-root"),
            "ResizeFailed",
        ),
        2 => fail("VirtualMachineInstance", machine, "Crash"),
        3 => fail("VirtualMachineInstance", machine, "Shutdown"),
        4 => fail(
            "CustomResourceDefinition",
            "virtualmachines.kubevirt.io",
            "WebhookUnavailable",
        ),
        5 => fail("DataVolume", &format!("{machine}-data"), "ImportFailed*2"),
        _ => Action::Virtctl {
            call: ["stop", "restart"][dice.below(2)],
            name: machine.to_owned(),
        },
    }
}

fn of_class_or_network(dice: &mut Dice) -> Action {
    match dice.below(4) {
        0 => delete("MachineClass", "one", Propagation::Background),
        1 => patch(
            "MachineClass",
            "one",
            json!({ "spec": { "cpu": { "cores": 3 } } }),
        ),
        2 => patch(
            "NetworkConfiguration",
            "lan",
            json!({ "spec": { "vlan": 9 } }),
        ),
        _ => delete("NetworkConfiguration", "lan", *dice.pick(&PROPAGATIONS)),
    }
}

/// Creation, changes and deletion of one or two Machines.
pub fn decisions(dice: &mut Dice) -> Vec<Decision> {
    let mut decisions = Vec::new();
    let machines: &[&str] = if dice.once_in(3) { &["a", "b"] } else { &["a"] };
    for machine in machines {
        decisions.push(Decision::at(1, create("Machine", machine, spec(dice))));
    }
    for _ in 0..2 + dice.below(8) {
        let machine = *dice.pick(machines);
        let action = match dice.below(20) {
            0..=6 => patch("Machine", machine, json!({ "spec": change(dice) })),
            7..=12 => hostile(dice, machine),
            13 | 14 => delete("Machine", machine, *dice.pick(&PROPAGATIONS)),
            15 => create("Machine", machine, spec(dice)),
            16 => {
                let annotations = json!({ "vitistack.io/adopt-disks": "true" });
                patch(
                    "Machine",
                    machine,
                    json!({ "metadata": { "annotations": annotations } }),
                )
            }
            17 => of_class_or_network(dice),
            _ => failing(dice, machine),
        };
        let effect = Effect::Action(action);
        let trigger = dice.trigger(&effect, 600, 80);
        decisions.push(Decision { trigger, effect });
    }
    if dice.once_in(2) {
        let machine = *dice.pick(machines);
        if dice.once_in(3) {
            let spec = json!({ "spec": { "deletionPolicy": policy(dice) } });
            decisions.push(Decision::at(599, patch("Machine", machine, spec)));
        }
        let action = delete("Machine", machine, *dice.pick(&PROPAGATIONS));
        decisions.push(Decision::at(600, action));
        if dice.once_in(3) {
            let again = create("Machine", machine, spec(dice));
            let trigger = Trigger::At(std::time::Duration::from_secs(640));
            let effect = Effect::Action(again);
            decisions.push(Decision { trigger, effect });
        }
    }
    decisions
}
