//! Minimal structural schemas: required fields, and types of the fields that the actors read.

use serde_json::{Map, Value, json};

/// A kind with any spec.
pub fn anything() -> Value {
    object(open(&[], json!({})), None)
}

pub fn vm() -> Value {
    let data_volume = open(
        &["spec"],
        json!({ "metadata": free(), "spec": open(&[], json!({})) }),
    );
    let spec = open(
        &["template"],
        json!({
            "running": { "type": "boolean" },
            "runStrategy": { "type": "string" },
            "template": template(),
            "dataVolumeTemplates": array(data_volume),
        }),
    );
    let request = open(
        &["action"],
        json!({ "action": string(), "uid": string(), "data": { "type": "object", "additionalProperties": string() } }),
    );
    let snapshot = open(
        &["enabled", "name"],
        json!({ "enabled": { "type": "boolean" }, "name": string(), "reason": string() }),
    );
    let status = open(
        &[],
        json!({
            "conditions": conditions(),
            "created": { "type": "boolean" },
            "ready": { "type": "boolean" },
            "desiredGeneration": integer(),
            "observedGeneration": integer(),
            "printableStatus": { "type": "string", "default": "Stopped" },
            "runStrategy": string(),
            "stateChangeRequests": array(request),
            "volumeSnapshotStatuses": array(snapshot),
        }),
    );
    object(spec, Some(status))
}

pub fn vmi() -> Value {
    let status = open(
        &[],
        json!({
            "conditions": conditions(),
            "phase": string(),
            "nodeName": string(),
            "interfaces": array(open(&[], json!({ "name": string(), "ipAddress": string() }))),
            "activePods": { "type": "object", "additionalProperties": string() },
            "phaseTransitionTimestamps": array(open(&[], json!({ "phase": string() }))),
            "volumeStatus": array(open(&["name", "target"], json!({ "name": string(), "target": string() }))),
        }),
    );
    object(instance_spec(), Some(status))
}

pub fn migration() -> Value {
    let labels = json!({ "type": "object", "additionalProperties": string() });
    let spec = open(
        &[],
        json!({ "vmiName": string(), "addedNodeSelector": labels }),
    );
    object(
        spec,
        Some(open(
            &[],
            json!({ "phase": string(), "conditions": conditions() }),
        )),
    )
}

pub fn replica_set() -> Value {
    let spec = open(
        &["selector", "template"],
        json!({
            "replicas": { "type": "integer", "format": "int32" },
            "paused": { "type": "boolean" },
            "selector": open(&[], json!({})),
            "template": template(),
        }),
    );
    let count = json!({ "type": "integer", "format": "int32" });
    let status = json!({
        "replicas": count,
        "readyReplicas": count,
        "labelSelector": string(),
        "conditions": conditions(),
    });
    object(spec, Some(open(&[], status)))
}

pub fn snapshot() -> Value {
    let spec = open(
        &["source"],
        json!({ "source": reference(), "deletionPolicy": string(), "failureDeadline": string() }),
    );
    let status = json!({
        "phase": string(),
        "readyToUse": { "type": "boolean" },
        "creationTime": { "type": "string", "format": "date-time", "nullable": true },
        "conditions": conditions(),
        "error": open(&[], json!({ "message": string(), "time": { "type": "string", "format": "date-time" } })),
        "virtualMachineSnapshotContentName": string(),
    });
    object(spec, Some(open(&[], status)))
}

pub fn snapshot_content() -> Value {
    let backup = open(
        &["persistentVolumeClaim", "volumeName"],
        json!({ "persistentVolumeClaim": free(), "volumeName": string(), "volumeSnapshotName": string() }),
    );
    let spec = open(
        &["source"],
        json!({
            "source": free(),
            "virtualMachineSnapshotName": string(),
            "volumeBackups": array(backup),
        }),
    );
    let status = json!({
        "readyToUse": { "type": "boolean" },
        "creationTime": { "type": "string", "format": "date-time", "nullable": true },
        "error": open(&[], json!({ "message": string(), "time": { "type": "string", "format": "date-time" } })),
    });
    object(spec, Some(open(&[], status)))
}

pub fn restore() -> Value {
    let policy = json!({
        "type": "string",
        "default": "WaitGracePeriod",
        "enum": ["StopTarget", "WaitGracePeriod", "FailImmediate", "WaitEventually"],
    });
    let spec = open(
        &["target", "virtualMachineSnapshotName"],
        json!({
            "target": reference(),
            "virtualMachineSnapshotName": string(),
            "targetReadinessPolicy": policy,
            "patches": array(string()),
        }),
    );
    let status = json!({
        "complete": { "type": "boolean" },
        "restoreTime": { "type": "string", "format": "date-time" },
        "conditions": conditions(),
    });
    object(spec, Some(open(&[], status)))
}

/// An instancetype, namespaced or cluster-scoped.
pub fn instancetype() -> Value {
    let cpu = open(
        &["guest"],
        json!({ "guest": { "type": "integer", "format": "int32" } }),
    );
    let memory = open(&["guest"], json!({ "guest": quantity() }));
    object(
        open(&["cpu", "memory"], json!({ "cpu": cpu, "memory": memory })),
        None,
    )
}

fn template() -> Value {
    json!({ "type": "object", "properties": { "metadata": free(), "spec": instance_spec() } })
}

fn instance_spec() -> Value {
    let named = || array(open(&["name"], json!({ "name": string() })));
    let count = || json!({ "type": "integer", "format": "int32" });
    let disk = open(
        &["name"],
        json!({ "name": string(), "bootOrder": { "type": "integer" } }),
    );
    let interface = open(
        &["name"],
        json!({ "name": string(), "bootOrder": { "type": "integer" }, "macAddress": string(), "model": string() }),
    );
    let filesystem = open(
        &["name", "virtiofs"],
        json!({ "name": string(), "virtiofs": open(&[], json!({})) }),
    );
    let resources = json!({ "type": "object", "additionalProperties": quantity() });
    let domain = open(
        &["devices"],
        json!({
            "cpu": open(
                &[],
                json!({ "sockets": count(), "cores": count(), "threads": count(), "maxSockets": count(), "model": string() }),
            ),
            "memory": open(&[], json!({ "guest": quantity(), "maxGuest": quantity() })),
            "resources": open(&[], json!({ "requests": resources, "limits": resources })),
            "machine": open(&[], json!({ "type": string() })),
            "firmware": open(&[], json!({ "uuid": string(), "serial": string() })),
            "devices": open(
                &[],
                json!({
                    "disks": array(disk),
                    "interfaces": array(interface),
                    "filesystems": array(filesystem),
                    "gpus": named(),
                    "hostDevices": named(),
                }),
            ),
        }),
    );
    open(
        &["domain"],
        json!({
            "architecture": string(),
            "domain": domain,
            "evictionStrategy": string(),
            "networks": named(),
            "nodeSelector": { "type": "object", "additionalProperties": string() },
            "startStrategy": string(),
            "terminationGracePeriodSeconds": integer(),
            "volumes": named(),
        }),
    )
}

fn object(spec: Value, status: Option<Value>) -> Value {
    let mut properties = Map::new();
    properties.insert("apiVersion".to_owned(), string());
    properties.insert("kind".to_owned(), string());
    properties.insert("metadata".to_owned(), json!({ "type": "object" }));
    properties.insert("spec".to_owned(), spec);
    if let Some(status) = status {
        properties.insert("status".to_owned(), status);
    }
    json!({ "type": "object", "required": ["spec"], "properties": properties })
}

/// An object that preserves unknown fields.
fn open(required: &[&str], properties: Value) -> Value {
    let mut schema = Map::new();
    schema.insert("type".to_owned(), "object".into());
    schema.insert("properties".to_owned(), properties);
    schema.insert(
        "x-kubernetes-preserve-unknown-fields".to_owned(),
        true.into(),
    );
    if !required.is_empty() {
        schema.insert("required".to_owned(), json!(required));
    }
    schema.into()
}

fn free() -> Value {
    json!({ "type": "object", "nullable": true, "x-kubernetes-preserve-unknown-fields": true })
}

fn reference() -> Value {
    json!({
        "type": "object",
        "required": ["kind", "name"],
        "properties": { "apiGroup": string(), "kind": string(), "name": string() },
        "x-kubernetes-map-type": "atomic",
    })
}

fn conditions() -> Value {
    let time = json!({ "type": "string", "format": "date-time", "nullable": true });
    array(json!({
        "type": "object",
        "required": ["status", "type"],
        "properties": {
            "type": string(),
            "status": string(),
            "reason": string(),
            "message": string(),
            "lastProbeTime": time,
            "lastTransitionTime": time,
        },
    }))
}

fn quantity() -> Value {
    json!({
        "anyOf": [{ "type": "integer" }, { "type": "string" }],
        "pattern": r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$",
        "x-kubernetes-int-or-string": true,
    })
}

fn array(items: Value) -> Value {
    let mut schema = Map::new();
    schema.insert("type".to_owned(), "array".into());
    schema.insert("items".to_owned(), items);
    schema.into()
}

fn string() -> Value {
    json!({ "type": "string" })
}

fn integer() -> Value {
    json!({ "type": "integer", "format": "int64" })
}
