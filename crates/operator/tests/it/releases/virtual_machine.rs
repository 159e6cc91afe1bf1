//! Fields of KubeVirt's VirtualMachine that Machines are rendered to.

use serde_json::{Value, json};

/// OpenAPI schema of these fields. It allows no others.
pub(super) fn schema() -> Value {
    expand(&fields())
}

/// Fields by name, with `!` if required. A text is a type; `open` is an object with any fields.
fn fields() -> Value {
    let enabled = || json!({ "enabled": "boolean" });
    let present = || json!({ "present": "boolean" });
    let policy = || json!({ "tickPolicy": "string" });
    let secret = || json!({ "name": "string" });
    let hyperv = json!({
        "frequencies": enabled(), "ipi": enabled(), "reenlightenment": enabled(),
        "relaxed": enabled(), "reset": enabled(), "runtime": enabled(), "synic": enabled(),
        "tlbflush": enabled(), "vapic": enabled(), "vpindex": enabled(),
        "spinlocks": { "enabled": "boolean", "spinlocks": "integer" },
        "synictimer": { "enabled": "boolean", "direct": enabled() },
    });
    let devices = json!({
        "networkInterfaceMultiqueue": "boolean", "logSerialConsole": "boolean",
        "tpm": { "persistent": "boolean" }, "rng": {},
        "gpus": [{ "name!": "string", "deviceName!": "string" }],
        "hostDevices": [{ "name!": "string", "deviceName!": "string" }],
        "watchdog": { "name!": "string", "i6300esb": { "action": "string" } },
        "disks": [{
            "name!": "string", "bootOrder": "integer",
            "cdrom": { "bus": "string" }, "disk": { "bus": "string" },
        }],
        "interfaces": [{
            "name!": "string", "bootOrder": "integer", "macAddress": "string", "model": "string",
            "bridge": {}, "masquerade": {},
        }],
    });
    let domain = json!({
        "clock": {
            "timer": {
                "hpet": present(), "hyperv": present(), "pit": policy(), "rtc": policy(),
            },
            "utc": {},
        },
        "cpu": {
            "cores": "integer", "sockets": "integer", "threads": "integer",
            "dedicatedCpuPlacement": "boolean",
        },
        "devices!": devices,
        "features": { "acpi": enabled(), "apic": enabled(), "hyperv": hyperv, "smm": enabled() },
        "firmware": {
            "bootloader": { "bios": {}, "efi": { "secureBoot": "boolean" } },
            "serial": "string", "uuid": "string",
        },
        "machine": { "type": "string" },
        "memory": { "guest": "quantity", "hugepages": { "pageSize": "string" } },
    });
    let credential = json!({
        "sshPublicKey": {
            "source!": { "secret": { "secretName!": "string" } },
            "propagationMethod!": {
                "configDrive": {}, "noCloud": {}, "qemuGuestAgent": { "users!": ["string"] },
            },
        },
    });
    let toleration = json!({
        "key": "string", "operator": "string", "value": "string", "effect": "string",
        "tolerationSeconds": "integer",
    });
    let spread = json!({
        "maxSkew!": "integer", "topologyKey!": "string", "whenUnsatisfiable!": "string",
        "labelSelector": "open",
    });
    let instance = json!({
        "accessCredentials": [credential],
        "affinity": "open",
        "domain!": domain,
        "evictionStrategy": "string",
        "hostname": "string",
        "nodeSelector": "open",
        "priorityClassName": "string",
        "tolerations": [toleration],
        "topologySpreadConstraints": [spread],
        "networks": [{ "name!": "string", "multus": { "networkName!": "string" }, "pod": {} }],
        "volumes": [{
            "name!": "string",
            "cloudInitNoCloud": { "networkDataSecretRef": secret(), "secretRef": secret() },
            "dataVolume": { "name!": "string" },
            "persistentVolumeClaim": { "claimName!": "string" },
        }],
    });
    json!({
        "apiVersion": "string", "kind": "string", "metadata": {},
        "spec!": {
            "runStrategy": "string", "template!": { "metadata": "open", "spec": instance },
        },
    })
}

fn expand(field: &Value) -> Value {
    match field {
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, field)| {
                let optional = name.trim_end_matches('!');
                (optional, optional != name, expand(field))
            });
            let fields: Vec<_> = fields.collect();
            let required = fields.iter().filter(|(_, is_required, _)| *is_required);
            let required: Vec<_> = required.map(|(name, ..)| *name).collect();
            let properties: serde_json::Map<_, _> = fields
                .iter()
                .map(|(name, _, schema)| ((*name).to_owned(), schema.clone()))
                .collect();
            let mut schema = json!({ "type": "object", "properties": properties });
            if !required.is_empty() {
                schema["required"] = json!(required);
            }
            schema
        }
        Value::Array(items) => json!({ "type": "array", "items": expand(&items[0]) }),
        Value::String(name) => match name.as_str() {
            "open" => json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true }),
            "quantity" => json!({
                "anyOf": [{ "type": "integer" }, { "type": "string" }],
                "x-kubernetes-int-or-string": true,
            }),
            name => json!({ "type": name }),
        },
        other => panic!("{other} is no field"),
    }
}
