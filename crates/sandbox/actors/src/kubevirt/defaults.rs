//! Defaults that virt-api's mutating webhooks set.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    amount::{bytes, units},
    edit::{add_finalizer, is_unset, set, set_default, set_entry, uuid},
    live_update,
    names::{FOREGROUND_FINALIZER, PCI_TOPOLOGY_ANNOTATION},
};
use crate::object::{self, list, number, seconds, text};

/// Default limit of CPU and memory hotplug, as a multiple of the initial size.
const MAX_HOTPLUG_RATIO: i64 = 4;
/// Maximum number of vCPUs of any machine type.
const MAX_VCPUS: i64 = 512;
/// User that virt-launcher runs as.
const NON_ROOT_USER: i64 = 107;

/// Defaults a VM as virt-api does: always architecture and machine type; on creation (`old` is
/// `None`) also firmware identity, derived from `seed`, and PCI topology.
pub fn default_vm(vm: &mut Value, old: Option<&Value>, seed: u64) {
    if object::is_deleted(vm) {
        return;
    }
    let Some(template) = vm.pointer_mut("/spec/template") else {
        return;
    };
    if !template.is_object() {
        return;
    }
    set_default(template, "/spec/architecture", "amd64");
    let machine = default_machine(text(template, "/spec/architecture"));
    set_default(template, "/spec/domain/machine/type", machine);
    set_default(template, "/spec/domain/resources", json!({}));
    set_default(template, "/spec/domain/devices", json!({}));
    if old.is_none() {
        for field in ["uuid", "serial"] {
            let pointer = format!("/spec/domain/firmware/{field}");
            set_default(template, &pointer, uuid(seed, field));
        }
        if has_pcie(template.get("spec").unwrap_or(&Value::Null)) {
            set_default_topology(template);
        }
    }
}

/// Defaults a new VMI as virt-api does: fields that its VM leaves out, hotplug limits, and the
/// initial status.
pub fn default_vmi(vmi: &mut Value, now: Timestamp) {
    if let Some(spec) = vmi.get_mut("spec") {
        default_spec(spec);
    }
    if vmi.get("spec").is_some_and(has_pcie) {
        set_default_topology(vmi);
    }
    let spec = vmi.get("spec").cloned().unwrap_or_default();
    let guest = spec.pointer("/domain/memory/guest").cloned();
    if let Some(guest) = guest {
        for field in ["guestAtBoot", "guestCurrent", "guestRequested"] {
            set(vmi, &format!("/status/memory/{field}"), guest.clone());
        }
    }
    set(vmi, "/status/currentCPUTopology", topology(&spec));
    set_default(vmi, "/status/guestOSInfo", json!({}));
    set(vmi, "/status/runtimeUser", NON_ROOT_USER);
    set(vmi, "/status/phase", "Pending");
    set(
        vmi,
        "/status/phaseTransitionTimestamps",
        json!([{ "phase": "Pending", "phaseTransitionTimestamp": seconds(now) }]),
    );
    add_finalizer(vmi, FOREGROUND_FINALIZER);
}

/// Sockets, cores and threads for the status.
pub fn topology(spec: &Value) -> Value {
    let count = |of: &str| number(spec, &format!("/domain/cpu/{of}")).unwrap_or_default();
    json!({ "sockets": count("sockets"), "cores": count("cores"), "threads": count("threads") })
}

/// Number of vCPUs; missing factors count as one.
pub fn vcpus(cpu: &Value) -> i64 {
    ["/sockets", "/cores", "/threads"]
        .iter()
        .map(|field| number(cpu, field).unwrap_or_default().max(1))
        .fold(1, i64::saturating_mul)
}

pub(super) fn default_spec(spec: &mut Value) {
    set_default(spec, "/architecture", "amd64");
    let architecture = text(spec, "/architecture").to_owned();
    set_default(spec, "/domain/machine/type", default_machine(&architecture));
    set_default(spec, "/domain/resources", json!({}));
    set_default(spec, "/domain/devices", json!({}));
    if let Some(limit) = spec.pointer("/domain/resources/limits/cpu").cloned() {
        set_default(spec, "/domain/resources/requests/cpu", limit);
    }
    default_memory(spec);
    default_topology(spec);
    default_network(spec);
    default_disks(spec);
    set_default(spec, "/domain/features/acpi/enabled", true);
    set_default(spec, "/domain/firmware", json!({}));
    let model = if architecture == "arm64" {
        "host-passthrough"
    } else {
        "host-model"
    };
    set_default(spec, "/domain/cpu/model", model);
    if architecture != "arm64" {
        default_room(spec);
    }
}

fn default_machine(architecture: &str) -> &'static str {
    match architecture {
        "arm64" => "virt",
        "s390x" => "s390-ccw-virtio",
        _ => "q35",
    }
}

fn has_pcie(spec: &Value) -> bool {
    let machine = text(spec, "/domain/machine/type");
    matches!(text(spec, "/architecture"), "amd64" | "arm64" | "")
        && (machine.is_empty() || machine.contains("q35") || machine.starts_with("virt"))
}

fn set_default_topology(object: &mut Value) {
    if object::annotation(object, PCI_TOPOLOGY_ANNOTATION).is_none() {
        set_default(object, "/metadata", json!({}));
        if let Some(metadata) = object.get_mut("metadata") {
            set_entry(metadata, "annotations", PCI_TOPOLOGY_ANNOTATION, "v3");
        }
    }
}

fn default_memory(spec: &mut Value) {
    if !is_unset(spec, "/domain/memory/guest") {
        return;
    }
    let from = [
        "/domain/resources/requests/memory",
        "/domain/resources/limits/memory",
        "/domain/memory/hugepages/pageSize",
    ];
    if let Some(guest) = from.iter().find_map(|from| spec.pointer(from)).cloned() {
        set(spec, "/domain/memory/guest", guest);
    }
}

fn default_topology(spec: &mut Value) {
    let given = ["sockets", "cores", "threads"]
        .iter()
        .any(|of| number(spec, &format!("/domain/cpu/{of}")).unwrap_or_default() != 0);
    if given {
        return;
    }
    let sockets = units(spec, "/domain/resources/limits/cpu")
        .or_else(|| units(spec, "/domain/resources/requests/cpu"))
        .unwrap_or(1);
    set(spec, "/domain/cpu/sockets", sockets);
    set(spec, "/domain/cpu/cores", 1);
    set(spec, "/domain/cpu/threads", 1);
}

fn default_network(spec: &mut Value) {
    let unwanted = spec.pointer("/domain/devices/autoattachPodInterface") == Some(&json!(false));
    if unwanted
        || !list(spec, "/networks").is_empty()
        || !list(spec, "/domain/devices/interfaces").is_empty()
    {
        return;
    }
    set(
        spec,
        "/domain/devices/interfaces",
        json!([{ "name": "default", "bridge": {} }]),
    );
    set(spec, "/networks", json!([{ "name": "default", "pod": {} }]));
}

fn default_disks(spec: &mut Value) {
    let mut disks = list(spec, "/domain/devices/disks").to_vec();
    let filesystems = list(spec, "/domain/devices/filesystems");
    for volume in list(spec, "/volumes") {
        let name = text(volume, "/name");
        let known = |devices: &[Value]| devices.iter().any(|one| text(one, "/name") == name);
        if !known(&disks) && !known(filesystems) {
            disks.push(json!({ "name": name }));
        }
    }
    for disk in &mut disks {
        let device = ["disk", "cdrom", "lun"]
            .into_iter()
            .find(|device| disk.get(device).is_some())
            .unwrap_or("disk");
        set_default(disk, &format!("/{device}/bus"), "sata");
        if device == "cdrom" {
            set_default(disk, "/cdrom/readonly", true);
            set_default(disk, "/cdrom/tray", "closed");
        }
    }
    if !disks.is_empty() {
        set(spec, "/domain/devices/disks", disks);
    }
}

/// Limits of CPU and memory hotplug.
fn default_room(spec: &mut Value) {
    if number(spec, "/domain/cpu/maxSockets").unwrap_or_default() == 0 {
        let count = |of: &str| number(spec, &format!("/domain/cpu/{of}")).unwrap_or_default();
        let sockets = count("sockets");
        let per_socket = count("cores")
            .max(1)
            .saturating_mul(count("threads").max(1));
        let room = sockets.saturating_mul(MAX_HOTPLUG_RATIO);
        let room = if room.saturating_mul(per_socket) > MAX_VCPUS {
            (MAX_VCPUS / per_socket).max(sockets)
        } else {
            room
        };
        set(spec, "/domain/cpu/maxSockets", room);
    }
    if is_unset(spec, "/domain/memory/maxGuest")
        && let Some(guest) = units(spec, "/domain/memory/guest")
    {
        let room = guest.saturating_mul(MAX_HOTPLUG_RATIO);
        if live_update::memory_problem(spec, Some(room)).is_none() {
            set(spec, "/domain/memory/maxGuest", bytes(room));
        }
    }
}
