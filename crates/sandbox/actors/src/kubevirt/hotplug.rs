//! Hotplug of volumes that a VM marks `hotpluggable`.
//!
//! The VM controller copies them to the VMI, virt-controller attaches them to the node with an
//! attachment pod, and virt-handler reports the phases: Bound, `AttachedToNode`, `MountedToPod`,
//! Ready, and on removal `UnMountedFromPod`. A removed volume is shown until its attachment pod is
//! deleted.

use serde_json::{Value, json};

use super::{
    edit::{hash, set},
    launcher::{current_pod, is_terminating},
    live_update::Change,
    names::{APP_LABEL, VMI},
    storage::{self, claim_name},
};
use crate::{
    Caches, Context,
    kind::{CLAIM, POD, STORAGE_CLASS},
    object::{
        Key, Object, controlled_by, is_deleted, is_true, label as label_of, list, name, namespace,
        text, uid,
    },
};

const APP: &str = "hotplug-disk";
const DISKS: &str = "/spec/domain/devices/disks";
const IMAGE: &str = "quay.io/kubevirt/virt-launcher:v1.9.0";

pub fn is_hotpluggable(volume: &Value) -> bool {
    [
        "/dataVolume/hotpluggable",
        "/persistentVolumeClaim/hotpluggable",
    ]
    .iter()
    .any(|pointer| volume.pointer(pointer) == Some(&json!(true)))
}

/// Change of a running VMI's volumes that its VM asks for.
pub fn change(vm: &Value, vmi: &Value) -> Change {
    if text(vmi, "/status/phase") != "Running" || is_deleted(vmi) {
        return Change::None;
    }
    let wanted = list(vm, "/spec/template/spec/volumes");
    let wanted_disks = list(vm, "/spec/template/spec/domain/devices/disks");
    let current = list(vmi, "/spec/volumes");
    let current_disks = list(vmi, DISKS);
    let mut volumes: Vec<Value> = current
        .iter()
        .filter(|volume| {
            !is_hotpluggable(volume)
                || named(wanted, text(volume, "/name"))
                    .is_some_and(|wanted| !is_hotpluggable(wanted) || wanted == *volume)
        })
        .cloned()
        .collect();
    for volume in wanted.iter().filter(|volume| is_hotpluggable(volume)) {
        let name = text(volume, "/name");
        // A volume that is being detached is attached again only after it is detached.
        let leaving = named(list(vmi, "/status/volumeStatus"), name).is_some();
        if named(current, name).is_none() && !leaving {
            volumes.push(volume.clone());
        }
    }
    let mut disks: Vec<Value> = current_disks
        .iter()
        .filter(|disk| {
            let name = text(disk, "/name");
            named(&volumes, name).is_some() || named(current, name).is_none()
        })
        .cloned()
        .collect();
    for disk in wanted_disks {
        let name = text(disk, "/name");
        let is_new = named(&volumes, name).is_some_and(is_hotpluggable)
            && named(current_disks, name).is_none();
        if is_new {
            if let Some(problem) = bus_problem(disk) {
                return Change::Refused(problem);
            }
            disks.push(disk.clone());
        }
    }
    if volumes == current && disks == current_disks {
        return Change::None;
    }
    Change::Patch(json!({ "spec": {
        "volumes": volumes,
        "domain": { "devices": { "disks": disks } },
    } }))
}

/// virt-api's message for a disk that cannot be hot-plugged.
fn bus_problem(disk: &Value) -> Option<String> {
    let name = text(disk, "/name");
    let denied = |what: String| {
        Some(format!(
            "admission webhook \"virtualmachineinstances-update-validator.kubevirt.io\" denied the \
             request: Hotplug configuration for {what}"
        ))
    };
    if disk.get("lun").is_some() {
        let bus = text(disk, "/lun/bus");
        return (bus != "scsi")
            .then(|| format!("LUN [{name}] requires bus to be 'scsi'. [{bus}] is not permitted."))
            .and_then(denied);
    }
    if disk.get("cdrom").is_some() {
        return denied(format!(
            "[{name}] requires diskDevice of type 'disk' or 'lun' to be used."
        ));
    }
    let bus = text(disk, "/disk/bus");
    (!matches!(bus, "scsi" | "virtio"))
        .then(|| {
            format!(
                "disk [{name}] requires bus to be 'scsi' or 'virtio'. [{bus}] is not permitted."
            )
        })
        .and_then(denied)
}

fn named<'a>(items: &'a [Value], name: &str) -> Option<&'a Value> {
    items.iter().find(|item| text(item, "/name") == name)
}

/// Attachment pods of a launcher pod.
fn attachments<'a>(caches: &'a Caches, launcher: &Value) -> impl Iterator<Item = &'a Object> {
    caches
        .children(POD, launcher)
        .filter(|pod| label_of(pod, APP_LABEL) == Some(APP))
}

fn has_volume(pod: &Value, volume: &str) -> bool {
    named(list(pod, "/spec/volumes"), volume).is_some()
}

/// Maintains one attachment pod for all hot-plugged volumes with usable claims. Another set of
/// volumes needs another pod; the old one is deleted once the new one is ready and the guest has
/// released the removed volumes.
pub(super) fn attach(ctx: &mut Context<'_>, vmi: &Object) {
    let Some(launcher) = current_pod(ctx.caches, vmi)
        .filter(|pod| !is_terminating(pod))
        .cloned()
    else {
        return;
    };
    let volumes: Vec<Value> = list(vmi, "/spec/volumes")
        .iter()
        .filter(|volume| is_hotpluggable(volume) && can_attach(ctx.caches, vmi, volume))
        .filter_map(|volume| {
            let source = json!({ "claimName": claim_name(volume)? });
            Some(json!({ "name": text(volume, "/name"), "persistentVolumeClaim": source }))
        })
        .collect();
    let identity = format!("{} {}", uid(&launcher), Value::from(volumes.clone()));
    let wanted = format!("hp-volume-{:05x}", hash(&identity) & 0xf_ffff);
    let existing: Vec<Object> = attachments(ctx.caches, &launcher).cloned().collect();
    let current = existing.iter().find(|pod| name(pod) == wanted);
    if current.is_none() && !volumes.is_empty() {
        ctx.create(POD, attachment_pod(&launcher, &wanted, &volumes));
        return;
    }
    let is_replaced = volumes.is_empty() || current.is_some_and(|pod| is_true(pod, "Ready"));
    for old in existing.iter().filter(|pod| name(pod) != wanted) {
        let released = list(vmi, "/status/volumeStatus")
            .iter()
            .filter(|status| has_volume(old, text(status, "/name")))
            .all(|status| {
                named(list(vmi, "/spec/volumes"), text(status, "/name")).is_some()
                    || text(status, "/phase") == "UnMountedFromPod"
            });
        if is_replaced && released && !is_deleted(old) {
            ctx.delete(POD, old);
        }
    }
}

/// Whether a claim is populated, and bound or waiting for its first consumer.
fn can_attach(caches: &Caches, vmi: &Value, volume: &Value) -> bool {
    let Some(claim) = claim_name(volume).and_then(|name| caches.find(CLAIM, namespace(vmi), name))
    else {
        return false;
    };
    let waits = caches
        .get(
            STORAGE_CLASS,
            &Key::cluster(text(claim, "/spec/storageClassName")),
        )
        .is_some_and(|class| text(class, "/volumeBindingMode") == "WaitForFirstConsumer");
    let filled = storage::data_volumes(caches, namespace(vmi), std::slice::from_ref(volume))
        .all(|volume| storage::is_usable(volume));
    filled && (text(claim, "/status/phase") == "Bound" || waits)
}

fn attachment_pod(launcher: &Value, pod: &str, volumes: &[Value]) -> Value {
    json!({
        "metadata": {
            "name": pod,
            "namespace": namespace(launcher),
            "labels": { APP_LABEL: APP },
            "ownerReferences": [controlled_by(POD, launcher)],
        },
        "spec": {
            "containers": [{
                "name": APP,
                "image": IMAGE,
                "command": ["/usr/bin/container-disk"],
                "resources": {
                    "requests": { "cpu": "10m", "memory": "2M" },
                    "limits": { "cpu": "100m", "memory": "80M" },
                },
            }],
            "terminationGracePeriodSeconds": 0,
            "tolerations": [{ "operator": "Exists" }],
            "nodeSelector": { "kubernetes.io/hostname": text(launcher, "/spec/nodeName") },
            "volumes": volumes,
        },
    })
}

/// virt-controller's status of hot-plugged volumes. `statuses` are those of all volumes of the
/// spec, as if none were hot-plugged.
pub(super) fn show(caches: &Caches, vmi: &Value, statuses: &mut Vec<Value>) {
    let before = list(vmi, "/status/volumeStatus");
    let launcher = current_pod(caches, vmi);
    let pod_of = |volume: &str| {
        attachments(caches, launcher?)
            .filter(|pod| has_volume(pod, volume))
            .max_by_key(|pod| text(pod, "/metadata/creationTimestamp"))
    };
    for status in statuses.iter_mut() {
        let volume = text(status, "/name").to_owned();
        let spec = named(list(vmi, "/spec/volumes"), &volume);
        if !spec.is_some_and(is_hotpluggable) {
            continue;
        }
        let shown = named(before, &volume);
        for field in ["phase", "reason", "message", "hotplugVolume"] {
            if let Some(value) = shown.and_then(|shown| shown.get(field)) {
                set(status, &format!("/{field}"), value.clone());
            }
        }
        let phase = text(status, "/phase").to_owned();
        let pod = pod_of(&volume);
        if let Some(pod) = pod {
            let ready = if is_true(pod, "Ready") { uid(pod) } else { "" };
            let mut attached = json!({ "attachPodName": name(pod) });
            if !ready.is_empty() {
                set(&mut attached, "/attachPodUID", ready);
            }
            set(status, "/hotplugVolume", attached);
        } else if status.get("hotplugVolume").is_none() {
            set(status, "/hotplugVolume", json!({}));
        }
        let (phase, reason, message) = match (pod, phase.as_str()) {
            (Some(pod), "" | "Bound" | "Pending") => (
                "AttachedToNode",
                "SuccessfulCreate",
                format!(
                    "Created hotplug attachment pod {}, for volume {volume}",
                    name(pod)
                ),
            ),
            (None, phase) if phase != "Ready" => {
                claim_phase(caches, vmi, spec.and_then(claim_name).unwrap_or_default())
            }
            _ => continue,
        };
        set(status, "/phase", phase);
        set(status, "/reason", reason);
        set(status, "/message", message);
    }
    let removed = before.iter().filter(|status| {
        named(list(vmi, "/spec/volumes"), text(status, "/name")).is_none()
            && status.get("hotplugVolume").is_some()
            && pod_of(text(status, "/name")).is_some()
    });
    statuses.extend(removed.cloned());
    statuses.sort_by(|one, other| text(one, "/name").cmp(text(other, "/name")));
}

fn claim_phase(caches: &Caches, vmi: &Value, claim: &str) -> (&'static str, &'static str, String) {
    const NOT_READY: &str = "PVCNotReady";
    let Some(found) = caches.find(CLAIM, namespace(vmi), claim) else {
        let message = format!("PVC {claim} not found");
        return ("Pending", "FailedPvcNotFound", message);
    };
    match text(found, "/status/phase") {
        "Bound" => ("Bound", NOT_READY, "PVC is in phase Bound".to_owned()),
        "Lost" => ("Pending", NOT_READY, "PVC is in phase Lost".to_owned()),
        _ => (
            "Pending",
            NOT_READY,
            "PVC is in phase ClaimPending".to_owned(),
        ),
    }
}

/// virt-handler's part: mounts attached volumes, passes them to the guest, and unmounts removed
/// ones. One step per reconcile.
pub(super) fn plug(ctx: &mut Context<'_>, vmi: &Object, next: &mut Value) {
    let mut statuses = list(next, "/status/volumeStatus").to_vec();
    for status in &mut statuses {
        if status.get("hotplugVolume").is_none() {
            continue;
        }
        let volume = text(status, "/name").to_owned();
        let wanted = named(list(next, "/spec/volumes"), &volume).is_some();
        let attached = !text(status, "/hotplugVolume/attachPodUID").is_empty();
        let (phase, reason, message) = match text(status, "/phase") {
            "AttachedToNode" if wanted && attached => (
                "MountedToPod",
                "VolumeMountedToPod",
                format!("Volume {volume} has been mounted in virt-launcher pod"),
            ),
            "MountedToPod" if wanted => {
                let target = free_target(list(next, DISKS), &volume);
                set(status, "/target", target);
                (
                    "Ready",
                    "VolumeReady",
                    format!("Successfully attach hotplugged volume {volume} to VM"),
                )
            }
            // A volume removed before it was ready is unmounted too.
            phase if !wanted && phase != "UnMountedFromPod" => {
                set(status, "/target", "");
                (
                    "UnMountedFromPod",
                    "VolumeUnMountedFromPod",
                    format!("Volume {volume} has been unmounted from virt-launcher pod"),
                )
            }
            _ => continue,
        };
        ctx.normal(VMI, vmi, reason, message.clone());
        set(status, "/phase", phase);
        set(status, "/reason", reason);
        set(status, "/message", message);
    }
    if !statuses.is_empty() {
        set(next, "/status/volumeStatus", statuses);
    }
}

/// Next free device name of the disk's bus.
fn free_target(disks: &[Value], volume: &str) -> String {
    let bus = |disk: &Value| -> String {
        let of = ["/disk/bus", "/lun/bus", "/cdrom/bus"];
        let found = of.iter().map(|pointer| text(disk, pointer));
        found
            .into_iter()
            .find(|bus| !bus.is_empty())
            .unwrap_or("sata")
            .to_owned()
    };
    let own = named(disks, volume).map(bus).unwrap_or_default();
    let before = disks
        .iter()
        .take_while(|disk| text(disk, "/name") != volume)
        .filter(|disk| (bus(disk) == "virtio") == (own == "virtio"))
        .count();
    let letter = u8::try_from(before % 26).map_or('z', |letter| char::from(b'a' + letter));
    let prefix = if own == "virtio" { "vd" } else { "sd" };
    format!("{prefix}{letter}")
}
