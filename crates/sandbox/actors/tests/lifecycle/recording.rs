//! Recordings of a VM's life: watch events of a VirtualMachine, its instances and its claim.
//!
//! In the fixture an event has a merge patch of the last object of its kind, or the whole object if it is
//! added.

use std::{collections::BTreeMap, env, fs, path::PathBuf};

use actors::{Kind, kubevirt::default_vm, object::merge};
use serde_json::{Value, json};

/// File of the fixture, in this crate.
const FILE: &str = "tests/lifecycle/vm-lifecycle.jsonl";

const KINDS: [&str; 4] = [
    "VirtualMachine",
    "VirtualMachineInstance",
    "PersistentVolumeClaim",
    "ControllerRevision",
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Fixtures,
    RealData,
}

#[derive(Debug)]
pub(crate) struct Recorded {
    pub(crate) at: f64,
    pub(crate) of_type: String,
    pub(crate) object: Value,
}

impl Source {
    pub(crate) fn recording(self) -> Vec<Recorded> {
        let file = match self {
            Self::Fixtures => PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(FILE),
            Self::RealData => {
                let data = env::var_os("KUBEVIRT_OPERATOR_DATA").map(PathBuf::from);
                let data =
                    data.expect("KUBEVIRT_OPERATOR_DATA names the folder with the recording");
                data.join("kubevirt/transcripts/vm-lifecycle-v1.9.0.jsonl")
            }
        };
        let lines =
            fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let mut last: BTreeMap<String, Value> = BTreeMap::new();
        let events = lines.lines().map(|line| {
            let event: Value = serde_json::from_str(line).unwrap();
            let of_type = event["type"].as_str().unwrap().to_owned();
            let object = match event.get("patch") {
                None => event["object"].clone(),
                Some(patch) => {
                    let object = last.entry(event["kind"].to_string()).or_default();
                    if of_type == "ADDED" {
                        *object = patch.clone();
                    } else {
                        merge(object, patch);
                    }
                    object.clone()
                }
            };
            Recorded {
                at: event["t"].as_f64().unwrap(),
                of_type,
                object,
            }
        });
        events.collect()
    }
}

/// The recorded object of a kind at a time.
pub(crate) fn at(recording: &[Recorded], kind: Kind, at: f64) -> &Value {
    let event = recording
        .iter()
        .filter(|event| event.object["kind"] == kind.kind)
        .find(|event| (event.at - at).abs() < 0.005)
        .unwrap_or_else(|| panic!("no {} at {at}", kind.kind));
    &event.object
}

/// Writes the fixture.
pub(crate) fn write(events: &[Recorded]) {
    let mut last: BTreeMap<&str, &Value> = BTreeMap::new();
    let mut lines = String::new();
    for Recorded {
        at,
        of_type,
        object,
    } in events
    {
        let kind = object["kind"].as_str().unwrap();
        if !KINDS.contains(&kind) {
            continue;
        }
        let patch = match last.get(kind) {
            Some(last) if of_type != "ADDED" => difference(last, object),
            _ => object.clone(),
        };
        last.insert(kind, object);
        let at = (at * 100.0).round() / 100.0;
        let line = json!({ "t": at, "type": of_type, "kind": kind, "patch": patch });
        lines.push_str(&line.to_string());
        lines.push('\n');
    }
    fs::write(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(FILE), lines).unwrap();
}

/// Merge patch from one value to another.
fn difference(from: &Value, to: &Value) -> Value {
    let (Value::Object(from), Value::Object(to)) = (from, to) else {
        return to.clone();
    };
    let removed = from.keys().filter(|name| !to.contains_key(*name));
    let removed = removed.map(|name| (name.clone(), Value::Null));
    let changed = to
        .iter()
        .filter(|(name, value)| from.get(*name) != Some(value));
    let changed = changed.map(|(name, value)| {
        let from = from.get(name).unwrap_or(&Value::Null);
        (name.clone(), difference(from, value))
    });
    removed
        .chain(changed)
        .collect::<serde_json::Map<_, _>>()
        .into()
}

/// What a user and the node write in the fixture.
pub(crate) fn inputs() -> Vec<Recorded> {
    let spec = json!({
        "runStrategy": "Always",
        "template": {
            "metadata": { "labels": { "app": "x" } },
            "spec": {
                "domain": {
                    "cpu": { "cores": 2, "sockets": 1, "threads": 1 },
                    "devices": {
                        "disks": [{ "name": "root", "disk": { "bus": "virtio" } }],
                        "interfaces": [{ "name": "default", "masquerade": {} }],
                    },
                    "memory": { "guest": "4Gi" },
                },
                "networks": [{ "name": "default", "pod": {} }],
                "volumes": [{ "name": "root", "persistentVolumeClaim": { "claimName": "x-root" } }],
            },
        },
    });
    let mut vm = json!({
        "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine",
        "metadata": { "name": "x", "namespace": "default" },
        "spec": spec,
    });
    let applied = vm.to_string();
    default_vm(&mut vm, None, 7);
    let metadata = &mut vm["metadata"];
    metadata["annotations"] =
        json!({ "kubectl.kubernetes.io/last-applied-configuration": applied });
    metadata["creationTimestamp"] = "2026-11-15T02:15:37Z".into();
    metadata["generation"] = 1.into();
    metadata["uid"] = "vm".into();
    let claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": { "name": "x-root", "namespace": "default", "uid": "claim" },
        "spec": {
            "accessModes": ["ReadWriteMany"], "storageClassName": "standard",
            "resources": { "requests": { "storage": "10Gi" } },
        },
        "status": {
            "accessModes": ["ReadWriteMany"], "capacity": { "storage": "10Gi" }, "phase": "Bound",
        },
    });
    let instance = |phase: &str, ready: &str| {
        json!({
            "kind": "VirtualMachineInstance",
            "status": {
                "phase": phase,
                "interfaces": [{ "name": "default", "ipAddress": "192.0.2.1" }],
                "conditions": [{ "type": "Ready", "status": ready }],
            },
        })
    };
    let events = [
        (5.36, vm),
        (11.52, claim),
        (21.95, instance("Running", "True")),
        (61.37, instance("Running", "True")),
        (65.76, instance("Failed", "False")),
    ];
    let events = events.into_iter().map(|(at, object)| Recorded {
        at,
        of_type: "ADDED".to_owned(),
        object,
    });
    events.collect()
}
