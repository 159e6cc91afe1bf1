//! Live updates of a running guest, and changes that require a restart.
//!
//! KubeVirt compares the VM with the one that the guest was started from. Sockets and memory may
//! grow within the hotplug limits that were set at its start; placement follows the VM; other
//! changes require a restart.

use serde_json::{Value, json};

use super::{
    amount::{bytes, units},
    edit::{remove, set},
    hotplug::is_hotpluggable,
};
use crate::object::{condition, is_deleted, is_true, list, number, text, time};

const MIB: i64 = 1 << 20;
const GIB: i64 = 1 << 30;

/// Consequence of a difference between a VM and its running guest.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    None,
    /// A restart is required, for this reason.
    Restart(String),
    /// This patch of the VMI starts the change.
    Patch(Value),
    /// It is not possible now, for this reason.
    Refused(String),
}

/// Why memory of a guest with this VMI spec cannot be hot-plugged.
pub fn memory_problem(spec: &Value, max_guest: Option<i64>) -> Option<String> {
    let present = |pointer: &str| spec.pointer(pointer).is_some_and(|value| !value.is_null());
    if present("/domain/cpu/realtime") {
        return Some("Memory hotplug is not compatible with realtime VMs".to_owned());
    }
    if present("/domain/cpu/numa/guestMappingPassthrough") {
        return Some("Memory hotplug is not compatible with guest mapping passthrough".to_owned());
    }
    if present("/domain/launchSecurity") {
        return Some("Memory hotplug is not compatible with encrypted VMs".to_owned());
    }
    let Some(guest) = units(spec, "/domain/memory/guest") else {
        return Some("Guest memory must be configured when memory hotplug is enabled".to_owned());
    };
    let Some(max_guest) = max_guest else {
        return Some(
            "Max guest memory must be configured when memory hotplug is enabled".to_owned(),
        );
    };
    if guest > max_guest {
        return Some("Guest memory is greater than the configured maxGuest memory".to_owned());
    }
    let block = if text(spec, "/domain/memory/hugepages/pageSize") == "1Gi" {
        GIB
    } else {
        2 * MIB
    };
    if guest % block != 0 {
        return Some(format!("Guest memory must be {} aligned", bytes(block)));
    }
    if max_guest % block != 0 {
        return Some(format!("MaxGuest must be {} aligned", bytes(block)));
    }
    if text(spec, "/architecture") != "amd64" {
        return Some("Memory hotplug is only available for x86_64 VMs".to_owned());
    }
    (guest < GIB).then(|| {
        "Memory hotplug is only available for VMs with at least 1Gi of guest memory".to_owned()
    })
}

/// Whether the VM's spec has changes since the guest's start that cannot be made while it runs.
/// `networks` says whether interfaces and networks count.
pub fn needs_restart(at_start: &Value, now: &Value, networks: bool) -> bool {
    let comparable = |spec: &Value| {
        let mut spec = spec.pointer("/template/spec").cloned().unwrap_or_default();
        for live in [
            "/domain/cpu/sockets",
            "/domain/memory/guest",
            "/nodeSelector",
            "/affinity",
            "/tolerations",
        ] {
            remove(&mut spec, live);
        }
        if !networks {
            remove(&mut spec, "/domain/devices/interfaces");
            remove(&mut spec, "/networks");
        }
        if spec.pointer("/domain/memory") == Some(&json!({})) {
            remove(&mut spec, "/domain/memory");
        }
        // Hot-plugged volumes and their disks do not count.
        let hotplugged: Vec<String> = list(&spec, "/volumes")
            .iter()
            .filter(|volume| is_hotpluggable(volume))
            .map(|volume| text(volume, "/name").to_owned())
            .collect();
        for pointer in ["/volumes", "/domain/devices/disks"] {
            let mut items = list(&spec, pointer).to_vec();
            items.retain(|item| !hotplugged.iter().any(|name| name == text(item, "/name")));
            set(&mut spec, pointer, items);
        }
        spec
    };
    comparable(at_start) != comparable(now)
}

pub fn sockets(vm: &Value, vmi: &Value, migrating: bool) -> Change {
    let wanted = number(vm, "/spec/template/spec/domain/cpu/sockets").unwrap_or_default();
    let current = number(vmi, "/spec/domain/cpu/sockets").unwrap_or_default();
    let given = vm.pointer("/spec/template/spec/domain/cpu").is_some();
    if is_deleted(vmi) || !given || wanted == current || wanted == 0 {
        return Change::None;
    }
    if is_true(vmi, "HotVCPUChange") {
        return Change::Refused("another CPU hotplug is in progress".to_owned());
    }
    if migrating {
        return Change::Refused("CPU hotplug is not allowed while VMI is migrating".to_owned());
    }
    let room = number(vmi, "/spec/domain/cpu/maxSockets").unwrap_or_default();
    if wanted > room {
        return Change::Restart(
            "CPU sockets updated in template spec to a value higher than what's available"
                .to_owned(),
        );
    }
    if wanted < current {
        return Change::Restart("Reduction of CPU socket count requires a restart".to_owned());
    }
    if text(vm, "/spec/template/spec/architecture") == "arm64" {
        return Change::Restart("ARM doesn't support CPU hotplug".to_owned());
    }
    Change::Patch(json!({ "spec": { "domain": { "cpu": { "sockets": wanted } } } }))
}

pub fn memory(vm: &Value, vmi: &Value, migrating: bool) -> Change {
    let restart = |why: &str| Change::Restart(format!("memory updated in template spec{why}"));
    let template = vm
        .pointer("/spec/template/spec")
        .cloned()
        .unwrap_or_default();
    let (Some(wanted), Some(current), Some(_)) = (
        units(&template, "/domain/memory/guest"),
        units(vmi, "/spec/domain/memory/guest"),
        units(vmi, "/status/memory/guestCurrent"),
    ) else {
        return Change::None;
    };
    if is_deleted(vmi) {
        return Change::None;
    }
    let changing = condition(vmi, "HotMemoryChange").map(|change| text(change, "/status"));
    if changing == Some("False") {
        return restart(". Memory-hotplug failed and is not available for this VM configuration");
    }
    if wanted == current {
        return Change::None;
    }
    if !is_true(vmi, "LiveMigratable") {
        return restart(". Memory-hotplug is only available for migratable VMs");
    }
    let Some(room) = units(vmi, "/spec/domain/memory/maxGuest") else {
        return restart(". Memory-hotplug is not available for this VM configuration");
    };
    if changing == Some("True") {
        return Change::Refused("another memory hotplug is in progress".to_owned());
    }
    if migrating {
        return Change::Refused("memory hotplug is not allowed while VMI is migrating".to_owned());
    }
    if let Some(problem) = memory_problem(&template, Some(room)) {
        return Change::Restart(format!("memory hotplug not supported, {problem}"));
    }
    if units(vmi, "/status/memory/guestAtBoot").is_some_and(|at_boot| wanted < at_boot) {
        return restart(" to a value lower than what the VM started with");
    }
    let guest = template.pointer("/domain/memory/guest").cloned();
    Change::Patch(json!({ "spec": { "domain": { "memory": { "guest": guest } } } }))
}

pub fn is_migrating(vmi: &Value) -> bool {
    time(vmi, "/status/migrationState/startTimestamp").is_some()
        && time(vmi, "/status/migrationState/endTimestamp").is_none()
}
