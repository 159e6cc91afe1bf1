//! Representative scenarios of both operators for the exhaustive campaign: a crash, a lost answer and a
//! stale watch at every request of each.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    cluster::REGISTRY,
    decision::{
        Action, Decision, Effect, Fault, Propagation, QUIET_PERIOD, Script, Subject, Trigger,
    },
    run::{RunOutcome, run},
};

/// A scenario without faults.
pub struct Scenario {
    pub name: &'static str,
    pub script: Script,
}

/// Faults that are injected at each request of a scenario.
pub const INJECTED: [(&str, Fault); 3] = [
    (
        "crash",
        Fault::Crash {
            down: Duration::from_secs(1),
        },
    ),
    ("lost answer", Fault::Lost),
    (
        "stale view",
        Fault::Stale {
            resource: None,
            lasts: Duration::from_secs(180),
        },
    ),
];

impl Scenario {
    /// Runs the scenario without faults.
    pub fn clean(&self) -> RunOutcome {
        run(&self.script)
    }

    /// Runs the scenario with a fault at one request.
    pub fn with(&self, fault: Fault, index: u32) -> RunOutcome {
        let mut script = self.script.clone();
        script.decisions.push(Decision {
            trigger: Trigger::After(index),
            effect: Effect::Fault(fault),
        });
        run(&script)
    }
}

fn scenario(subject: Subject, name: &'static str, steps: Vec<(u64, Action)>) -> Scenario {
    let decisions = steps.into_iter();
    let decisions = decisions.map(|(at, action)| Decision::at(at, action));
    Scenario {
        name,
        script: Script {
            subject,
            seed: 1,
            replicas: 1,
            quiet: QUIET_PERIOD,
            decisions: decisions.collect(),
        },
    }
}

/// The scenarios of an operator.
pub fn all(subject: Subject) -> Vec<Scenario> {
    match subject {
        Subject::Machine => machines(),
        Subject::Kubevirt => installations(),
    }
}

fn machine(spec: Value) -> (u64, Action) {
    let object = json!({ "metadata": { "name": "a" }, "spec": spec });
    let kind = "Machine";
    (1, Action::Create { kind, object })
}

fn change(at: u64, spec: Value) -> (u64, Action) {
    let patch = json!({ "spec": spec });
    (
        at,
        Action::Patch {
            kind: "Machine",
            name: "a".to_owned(),
            patch,
        },
    )
}

fn delete(at: u64, propagation: Propagation) -> (u64, Action) {
    (
        at,
        Action::Delete {
            kind: "Machine",
            name: "a".to_owned(),
            propagation,
        },
    )
}

#[allow(clippy::too_many_lines, reason = "a table")]
fn machines() -> Vec<Scenario> {
    let small = || machine(json!({ "template": "small" }));
    let with_disks = |policy: Value| {
        machine(json!({
            "template": "small",
            "deletionPolicy": policy,
            "disks": [
                { "name": "data", "size": "1Gi", "source": { "blank": {} } },
                { "name": "logs", "size": "1Gi" },
            ],
            "cloudInit": { "userData": "#!/bin/sh\n" },
        }))
    };
    let add = json!({ "disks": [{ "name": "logs", "size": "1Gi" }] });
    let adopt = Action::Patch {
        kind: "Machine",
        name: "a".to_owned(),
        patch: json!({ "metadata": { "annotations": { "vitistack.io/adopt-disks": "true" } } }),
    };
    let again = (120, with_disks("Retain".into()).1);
    let network = json!({ "networks": [{ "name": "net", "networkName": "lan" }] });
    let cloud_init = json!({ "cloudInit": { "userData": "#!/bin/sh\necho two\n" } });
    let of = |name, steps| scenario(Subject::Machine, name, steps);
    vec![
        of("create", vec![small()]),
        of("create with everything", vec![with_disks("Delete".into())]),
        of(
            "resize",
            vec![
                small(),
                change(60, json!({ "resources": { "cpu": { "cores": 4 } } })),
            ],
        ),
        of("add a disk", vec![small(), change(60, add.clone())]),
        of(
            "grow a disk",
            vec![
                machine(
                    json!({ "template": "small", "disks": [{ "name": "logs", "size": "1Gi" }] }),
                ),
                change(60, json!({ "disks": [{ "name": "logs", "size": "2Gi" }] })),
            ],
        ),
        of(
            "remove a disk that is kept",
            vec![
                with_disks(Value::Null),
                change(60, json!({ "disks": null })),
            ],
        ),
        of(
            "remove a disk that is deleted",
            vec![
                with_disks("Delete".into()),
                change(60, json!({ "disks": null })),
            ],
        ),
        of(
            "attach and detach a network",
            vec![
                small(),
                change(60, network),
                change(120, json!({ "networks": null })),
            ],
        ),
        of(
            "change cloud-init",
            vec![with_disks(Value::Null), change(60, cloud_init)],
        ),
        of(
            "stop and start",
            vec![
                small(),
                change(60, json!({ "powerState": "Stopped" })),
                change(120, json!({ "powerState": "Running" })),
            ],
        ),
        of(
            "restart",
            vec![
                small(),
                change(60, json!({ "restartedAt": "2026-01-01T00:00:00Z" })),
            ],
        ),
        of(
            "delete",
            vec![with_disks(Value::Null), delete(60, Propagation::Background)],
        ),
        of(
            "delete in the foreground",
            vec![
                with_disks("Delete".into()),
                delete(60, Propagation::Foreground),
            ],
        ),
        of(
            "delete and retain",
            vec![
                with_disks("Retain".into()),
                delete(60, Propagation::Background),
            ],
        ),
        of(
            "delete and orphan",
            vec![with_disks(Value::Null), delete(60, Propagation::Orphan)],
        ),
        of(
            "adopt",
            vec![
                with_disks("Retain".into()),
                delete(60, Propagation::Background),
                again,
                (150, adopt),
            ],
        ),
        of("address ledger", on_network_namespace()),
        of(
            "delete with an address ledger",
            on_network_namespace()
                .into_iter()
                .chain([delete(250, Propagation::Background)])
                .collect(),
        ),
        of("adopt a VirtualMachine", adoption(&["true"])),
        of(
            "adopt a VirtualMachine, apply and delete",
            adoption(&["true", "apply"])
                .into_iter()
                .chain([delete(450, Propagation::Background)])
                .collect(),
        ),
        of(
            "adopt a VirtualMachine and orphan it",
            adoption(&["true"])
                .into_iter()
                .chain([delete(450, Propagation::Orphan)])
                .collect(),
        ),
    ]
}

/// A guest of the Go operator of the Viti stack, and its Machine, which gets these values of the annotation
/// `vitistack.io/adopt`. A stale view has ended before the Machine is deleted: one that was not adopted would
/// be left to the Go operator.
fn adoption(values: &[&str]) -> Vec<(u64, Action)> {
    let labels = json!({
        "vitistack.io/managed-by": "kubevirt-operator", "vitistack.io/source-machine": "a",
    });
    let create = |kind, object| Action::Create { kind, object };
    let metadata = json!({ "name": "a", "labels": labels });
    let claim = json!({
        "metadata": metadata,
        "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } },
        },
    });
    let template = json!({
        "domain": {
            "cpu": { "cores": 1 }, "memory": { "guest": "2Gi" },
            "devices": {
                "disks": [{ "name": "disk-0", "disk": { "bus": "virtio" }, "bootOrder": 1 }],
                "interfaces": [{ "name": "default", "bridge": {}, "model": "virtio" }],
            },
        },
        "networks": [{ "name": "default", "pod": {} }],
        "volumes": [{ "name": "disk-0", "persistentVolumeClaim": { "claimName": "a" } }],
    });
    let vm = json!({
        "metadata": metadata,
        "spec": {
            "runStrategy": "Always",
            "template": { "metadata": { "labels": labels }, "spec": template },
        },
    });
    let machine = json!({
        "metadata": { "name": "a", "finalizers": ["machine.vitistack.io/finalizer"] },
        "spec": {
            "provider": "kubevirt", "instanceType": "small", "memory": "2Gi",
            "disks": [{ "name": "disk-0", "sizeGB": 1, "boot": true }],
        },
    });
    let steps = [
        (1, create("PersistentVolumeClaim", claim)),
        (1, create("VirtualMachine", vm)),
        (2, create("Machine", machine)),
    ];
    let annotated = values.iter().zip([60, 250]).map(|(value, at)| {
        let annotations = json!({ "vitistack.io/adopt": value });
        let patch = json!({ "metadata": { "annotations": annotations } });
        let name = "a".to_owned();
        let kind = "Machine";
        (at, Action::Patch { kind, name, patch })
    });
    steps.into_iter().chain(annotated).collect()
}

/// A Machine on the network of a NetworkNamespace, which appears later. Then someone strips, deletes and
/// edits what the operator created for it.
fn on_network_namespace() -> Vec<(u64, Action)> {
    let create = |kind, object| Action::Create { kind, object };
    let definition = json!({
        "metadata": { "name": "networknamespaces.vitistack.io" },
        "spec": {
            "group": "vitistack.io", "scope": "Namespaced",
            "names": { "kind": "NetworkNamespace", "plural": "networknamespaces",
                       "singular": "networknamespace", "listKind": "NetworkNamespaceList" },
            "versions": [{
                "name": "v1alpha1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                } },
            }],
        },
    });
    let namespace = json!({
        "metadata": { "name": "tenant" }, "spec": {}, "status": { "vlanId": 42 },
    });
    let spec = json!({
        "template": "small", "network": { "networkNamespaceName": "tenant" },
    });
    let ledger = "NetworkConfiguration";
    let patch = |kind, name: &str, patch| Action::Patch {
        kind,
        name: name.to_owned(),
        patch,
    };
    let stripped = json!({ "metadata": { "ownerReferences": null, "labels": null } });
    let edited = json!({ "spec": { "config": "{}" } });
    vec![
        (1, create("CustomResourceDefinition", definition)),
        machine(spec),
        (10, create("NetworkNamespace", namespace)),
        (60, patch(ledger, "a", stripped.clone())),
        (
            100,
            Action::Delete {
                kind: ledger,
                name: "a".to_owned(),
                propagation: Propagation::Background,
            },
        ),
        (150, patch("NetworkAttachmentDefinition", "vlan42", edited)),
        (249, patch(ledger, "a", stripped)),
    ]
}

fn installations() -> Vec<Scenario> {
    let install = |version: &str| {
        let spec = json!({ "imageTag": version, "imageRegistry": REGISTRY });
        let object = json!({ "metadata": { "name": "kubevirt" }, "spec": spec });
        let kind = "KubeVirt";
        (20, Action::Create { kind, object })
    };
    let version = |at, version: &str| {
        let patch = json!({ "spec": { "imageTag": version } });
        let name = "kubevirt".to_owned();
        let kind = "KubeVirt";
        (at, Action::Patch { kind, name, patch })
    };
    let delete = |at, kind, name: &str| {
        let propagation = Propagation::Background;
        let name = name.to_owned();
        (
            at,
            Action::Delete {
                kind,
                name,
                propagation,
            },
        )
    };
    let of = |name, steps| scenario(Subject::Kubevirt, name, steps);
    vec![
        of("install", vec![install("v1.9.0")]),
        of("upgrade", vec![install("v1.8.4"), version(600, "v1.9.0")]),
        of("roll back", vec![install("v1.9.0"), version(600, "v1.8.4")]),
        of(
            "remove",
            vec![install("v1.9.0"), delete(600, "KubeVirt", "kubevirt")],
        ),
        of(
            "replace certificates",
            vec![
                install("v1.9.0"),
                delete(600, "Secret", "kubevirt-virt-api-certs"),
                delete(700, "Secret", "kubevirt-ca"),
            ],
        ),
    ]
}
