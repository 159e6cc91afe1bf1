//! virt-launcher pods.

use serde_json::{Value, json};

use super::{
    amount::{bytes, units},
    defaults::vcpus,
    edit::{annotate, label, set},
    hotplug::is_hotpluggable,
    names::{
        APP_LABEL, CREATED_BY_LABEL, DOMAIN_ANNOTATION, MIGRATION_JOB_LABEL, OVERHEAD_ANNOTATION,
        VM_NAME_LABEL, VMI,
    },
    storage::claim_name,
};
use crate::{
    Caches, faults,
    kind::POD,
    object::{
        Object, controlled_by, is_deleted, label as label_of, list, name, namespace, text, truth,
        uid,
    },
};

const MIB: i64 = 1 << 20;
/// Memory of virt-launcher, its monitor, virtlogd, virtqemud and QEMU.
const FIXED_OVERHEAD: i64 = 220 * MIB;
/// For each vCPU and for the I/O thread.
const THREAD_OVERHEAD: i64 = 8 * MIB;
const VIDEO_OVERHEAD: i64 = 32 * MIB;
const MILLICPUS_PER_VCPU: i64 = 100;
/// Default termination grace period of a guest, in seconds.
const GRACE_PERIOD: i64 = 30;

const ARCHITECTURE_LABEL: &str = "kubernetes.io/arch";

/// Alphabet of generated names.
const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// Launcher pods of a VMI, including migration targets.
pub fn pods<'a>(caches: &'a Caches, vmi: &Value) -> impl Iterator<Item = &'a Object> {
    caches
        .children(POD, vmi)
        .filter(|pod| label_of(pod, APP_LABEL) == Some("virt-launcher"))
}

/// The launcher pod on the VMI's node, or the one that is being scheduled.
pub fn current_pod<'a>(caches: &'a Caches, vmi: &Value) -> Option<&'a Object> {
    let node = text(vmi, "/status/nodeName");
    pods(caches, vmi)
        .filter(|pod| {
            if node.is_empty() {
                label_of(pod, MIGRATION_JOB_LABEL).is_none()
            } else {
                text(pod, "/spec/nodeName") == node
            }
        })
        .max_by_key(|pod| {
            let created = text(pod, "/metadata/creationTimestamp");
            (label_of(pod, MIGRATION_JOB_LABEL).is_some(), created)
        })
}

/// Whether a pod is finished or being deleted.
pub fn is_terminating(pod: &Value) -> bool {
    is_deleted(pod) || matches!(text(pod, "/status/phase"), "Succeeded" | "Failed")
}

/// Memory overhead of a launcher pod.
pub fn overhead(spec: &Value) -> i64 {
    let cpu = spec.pointer("/domain/cpu").unwrap_or(&Value::Null);
    let threads = vcpus(cpu).saturating_add(1);
    let page_tables = units(spec, "/domain/resources/requests/memory").unwrap_or_default() / 512;
    let video = if spec.pointer("/domain/devices/autoattachGraphicsDevice") == Some(&json!(false)) {
        0
    } else {
        VIDEO_OVERHEAD
    };
    FIXED_OVERHEAD
        .saturating_add(threads.saturating_mul(THREAD_OVERHEAD))
        .saturating_add(page_tables)
        .saturating_add(video)
}

/// Hostname of a guest: the one of the spec, or the VMI's name up to the first dot.
pub fn hostname(vmi: &Value) -> &str {
    const LONGEST: usize = 63;
    match text(vmi, "/spec/hostname") {
        "" => {
            let first = name(vmi).split('.').next().unwrap_or_default();
            first.get(..LONGEST).unwrap_or(first)
        }
        hostname => hostname,
    }
}

/// The launcher pod of a VMI. `number` determines its name suffix.
pub fn launcher_pod(vmi: &Value, image: &str, number: u64) -> Value {
    let spec = vmi.get("spec").cloned().unwrap_or_default();
    let overhead = overhead(&spec);
    let grace = crate::object::number(&spec, "/terminationGracePeriodSeconds");
    let architecture = match text(&spec, "/architecture") {
        "" => "amd64",
        architecture => architecture,
    };
    let mut pod = json!({
        "metadata": {
            "name": format!("virt-launcher-{}-{}", name(vmi), suffix(number)),
            "namespace": namespace(vmi),
            "labels": vmi.pointer("/metadata/labels").cloned().unwrap_or_else(|| json!({})),
            "annotations": {},
            "ownerReferences": [controlled_by(VMI, vmi)],
        },
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": grace.unwrap_or(GRACE_PERIOD),
            "automountServiceAccountToken": false,
            "enableServiceLinks": false,
            "hostname": hostname(vmi),
            "containers": [{
                "name": "compute",
                "image": image,
                "imagePullPolicy": "IfNotPresent",
                "command": ["/usr/bin/virt-launcher-monitor"],
                "resources": resources(&spec, overhead),
            }],
            "volumes": volumes(&spec),
        },
    });
    if truth(&spec, "/domain/devices/logSerialConsole") {
        let mut containers = list(&pod, "/spec/containers").to_vec();
        containers.push(json!({
            "name": "guest-console-log",
            "image": image,
            "imagePullPolicy": "IfNotPresent",
            "command": ["/usr/bin/virt-tail"],
            "resources": {
                "requests": { "cpu": "5m", "memory": "35M" },
                "limits": { "cpu": "15m", "memory": "60M" },
            },
        }));
        set(&mut pod, "/spec/containers", containers);
    }
    for (key, value) in [
        (APP_LABEL, "virt-launcher"),
        (CREATED_BY_LABEL, uid(vmi)),
        (VM_NAME_LABEL, hostname(vmi)),
    ] {
        label(&mut pod, key, value);
    }
    let annotations = crate::object::map(vmi, "/metadata/annotations");
    for (key, value) in annotations.into_iter().flatten() {
        if let (true, Some(value)) = (reaches_pod(key), value.as_str()) {
            annotate(&mut pod, key, value);
        }
    }
    annotate(&mut pod, DOMAIN_ANNOTATION, name(vmi));
    annotate(&mut pod, OVERHEAD_ANNOTATION, &overhead.to_string());
    annotate(
        &mut pod,
        "kubectl.kubernetes.io/default-container",
        "compute",
    );
    let selector = json!({ "kubevirt.io/schedulable": "true", ARCHITECTURE_LABEL: architecture });
    select_nodes(&mut pod, &selector);
    select_nodes(&mut pod, spec.get("nodeSelector").unwrap_or(&Value::Null));
    for field in [
        "affinity",
        "tolerations",
        "priorityClassName",
        "schedulerName",
        "topologySpreadConstraints",
    ] {
        if let Some(value) = spec.get(field).filter(|value| !value.is_null()) {
            set(&mut pod, &format!("/spec/{field}"), value.clone());
        }
    }
    pod
}

/// The target pod of a migration, on another node than the source.
pub fn target_pod(vmi: &Value, migration: &Value, image: &str, number: u64) -> Value {
    let mut pod = launcher_pod(vmi, image, number);
    label(&mut pod, MIGRATION_JOB_LABEL, uid(migration));
    annotate(&mut pod, "kubevirt.io/migrationJobName", name(migration));
    let added = migration.pointer("/spec/addedNodeSelector");
    select_nodes(&mut pod, added.unwrap_or(&Value::Null));
    let apart = json!({
        "labelSelector": { "matchLabels": { CREATED_BY_LABEL: uid(vmi) } },
        "topologyKey": "kubernetes.io/hostname",
    });
    let rules = "/spec/affinity/podAntiAffinity/requiredDuringSchedulingIgnoredDuringExecution";
    let mut terms = list(&pod, rules).to_vec();
    terms.push(apart);
    set(&mut pod, rules, terms);
    pod
}

/// Whether an annotation of a VMI is copied to its pod. Faults of a guest are not those of its pod.
fn reaches_pod(annotation: &str) -> bool {
    let kept = [
        "kubectl.kubernetes.io",
        "kubevirt.io/storage-observed-api-version",
        "kubevirt.io/latest-observed-api-version",
        faults::ANNOTATION,
    ];
    !kept.iter().any(|prefix| annotation.starts_with(prefix))
}

/// Adds labels to the node selector.
fn select_nodes(pod: &mut Value, labels: &Value) {
    let mut selector = crate::object::map(pod, "/spec/nodeSelector")
        .cloned()
        .unwrap_or_default();
    selector.extend(labels.as_object().cloned().unwrap_or_default());
    set(pod, "/spec/nodeSelector", selector);
}

/// Copies the fault Unschedulable to a launcher pod.
pub fn make_unschedulable(pod: &mut Value) {
    annotate(pod, faults::ANNOTATION, "Unschedulable");
}

fn resources(spec: &Value, overhead: i64) -> Value {
    let cpu = spec.pointer("/domain/cpu").unwrap_or(&Value::Null);
    let processors = vcpus(cpu);
    let guest = units(spec, "/domain/memory/guest");
    let memory = units(spec, "/domain/resources/requests/memory").or(guest);
    let mut resources = json!({
        "requests": {
            "cpu": format!("{}m", processors.saturating_mul(MILLICPUS_PER_VCPU)),
            "memory": bytes(memory.unwrap_or_default().saturating_add(overhead)),
            "ephemeral-storage": "50M",
        },
        "limits": {},
    });
    for kind in ["requests", "limits"] {
        if let Some(amount) = spec.pointer(&format!("/domain/resources/{kind}/cpu")) {
            set(&mut resources, &format!("/{kind}/cpu"), amount.clone());
        }
    }
    if let Some(limit) = units(spec, "/domain/resources/limits/memory") {
        set(
            &mut resources,
            "/limits/memory",
            bytes(limit.saturating_add(overhead)),
        );
    }
    if cpu.get("dedicatedCpuPlacement") == Some(&json!(true)) {
        for kind in ["requests", "limits"] {
            set(
                &mut resources,
                &format!("/{kind}/cpu"),
                processors.to_string(),
            );
        }
        let memory = resources.pointer("/requests/memory").cloned();
        set(&mut resources, "/limits/memory", memory);
    }
    let pages = text(spec, "/domain/memory/hugepages/pageSize");
    if !pages.is_empty() {
        let guest = bytes(guest.unwrap_or_default());
        for kind in ["requests", "limits"] {
            set(&mut resources, &format!("/{kind}/memory"), bytes(overhead));
            set(
                &mut resources,
                &format!("/{kind}/hugepages-{pages}"),
                guest.clone(),
            );
        }
    }
    for kind in ["requests", "limits"] {
        if let Some(of_kind) = resources.get_mut(kind).and_then(Value::as_object_mut) {
            for device in devices(spec) {
                of_kind.insert(device, "1".into());
            }
        }
    }
    resources
}

/// Devices that a guest needs of its node: KVM, TUN and those of the spec.
fn devices(spec: &Value) -> Vec<String> {
    let mut devices = vec!["devices.kubevirt.io/kvm".to_owned()];
    if !list(spec, "/domain/devices/interfaces").is_empty() {
        devices.push("devices.kubevirt.io/tun".to_owned());
        devices.push("devices.kubevirt.io/vhost-net".to_owned());
    }
    for kind in ["/domain/devices/gpus", "/domain/devices/hostDevices"] {
        for device in list(spec, kind) {
            let resource = text(device, "/deviceName");
            if !resource.is_empty() {
                devices.push(resource.to_owned());
            }
        }
    }
    devices
}

fn volumes(spec: &Value) -> Vec<Value> {
    let mut volumes = Vec::new();
    for volume in list(spec, "/volumes") {
        let name = text(volume, "/name");
        if let Some(claim) = claim_name(volume).filter(|_| !is_hotpluggable(volume)) {
            let source = json!({ "claimName": claim });
            volumes.push(json!({ "name": name, "persistentVolumeClaim": source }));
        }
        for (what, secret) in secrets(volume) {
            let source = json!({ "secretName": secret });
            volumes.push(json!({ "name": format!("{name}{what}"), "secret": source }));
        }
    }
    for credential in list(spec, "/accessCredentials") {
        let secret = ["sshPublicKey", "userPassword"]
            .map(|kind| text(credential, &format!("/{kind}/source/secret/secretName")));
        for secret in secret.into_iter().filter(|secret| !secret.is_empty()) {
            let source = json!({ "secretName": secret });
            volumes.push(json!({ "name": format!("{secret}-access-cred"), "secret": source }));
        }
    }
    volumes
}

/// Secrets that a volume refers to.
pub fn secrets(volume: &Value) -> impl Iterator<Item = (&'static str, &str)> {
    [
        ("", "/secret/secretName"),
        ("-udata", "/cloudInitNoCloud/secretRef/name"),
        ("-ndata", "/cloudInitNoCloud/networkDataSecretRef/name"),
        ("-udata", "/cloudInitConfigDrive/secretRef/name"),
        ("-ndata", "/cloudInitConfigDrive/networkDataSecretRef/name"),
        ("", "/sysprep/secret/name"),
    ]
    .into_iter()
    .map(|(what, pointer)| (what, text(volume, pointer)))
    .filter(|(_, secret)| !secret.is_empty())
}

fn suffix(mut number: u64) -> String {
    let count = LETTERS.len() as u64;
    (0..5)
        .filter_map(|_| {
            let index = usize::try_from(number % count).ok()?;
            number /= count;
            LETTERS.get(index).copied().map(char::from)
        })
        .collect()
}
