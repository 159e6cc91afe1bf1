//! virt-handler: boots, monitors and shuts down the guests of its node.

use serde_json::{Value, json};

use super::{
    edit::{difference, hash, new_condition, probed, put_condition, set},
    hotplug, interfaces,
    launcher::{current_pod, is_terminating},
    names::{VM, VMI},
    run,
    vmi::{record_phase, vmis_on},
};
use crate::{
    Actor, Caches, Context, Kind, Step,
    kind::{NODE, POD},
    nodes::is_unready,
    object::{
        Key, Object, condition, controller_key, is_deleted, is_true, list, seconds, text, uid,
    },
};

/// Time from a ready pod to a running guest.
const BOOT: Step = Step::seconds(4);
/// Time from a running guest to a connected guest agent.
const AGENT: Step = Step::seconds(12);
/// Time from the shutdown signal to the end of the guest.
const SHUTDOWN: Step = Step::seconds(3);

/// Time from the deletion of the launcher pod to the end of the guest; must be shorter than the
/// pod's own termination.
const LAUNCHER_SHUTDOWN: Step = Step::millis(500);

/// virt-handler of all nodes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Handler;

impl Actor for Handler {
    fn name(&self) -> &'static str {
        "virt-handler"
    }

    fn watches(&self) -> &[Kind] {
        &[VMI, VM, POD, NODE]
    }

    fn keys(&self, kind: Kind, object: &Value, caches: &Caches) -> Vec<Key> {
        match kind {
            VMI => vec![Key::of(object)],
            POD => controller_key(object, VMI).into_iter().collect(),
            NODE => vmis_on(caches, object),
            _ => Vec::new(),
        }
    }

    fn reconcile(&self, ctx: &mut Context<'_>) {
        let Some(vmi) = ctx.observed(VMI) else {
            return;
        };
        let node = ctx.caches.find(NODE, "", text(&vmi, "/status/nodeName"));
        if node.is_some_and(|node| is_unready(node)) {
            return;
        }
        let phase = text(&vmi, "/status/phase").to_owned();
        let mut next = Value::clone(&vmi);
        match phase.as_str() {
            "Scheduled" | "Running" if is_deleted(&vmi) => shut_down(ctx, &vmi, &mut next),
            "Scheduled" => boot(ctx, &vmi, &mut next),
            "Running" => monitor(ctx, &vmi, &mut next),
            _ => return,
        }
        record_phase(&mut next, &phase, &seconds(ctx.now));
        let Some(patch) = difference(&vmi, &next) else {
            return;
        };
        ctx.patch(VMI, &vmi, patch);
        let now = text(&next, "/status/phase");
        if now != phase {
            match now {
                "Running" => ctx.normal(VMI, &vmi, "Started", "VirtualMachineInstance started."),
                "Succeeded" => {
                    let message = "The VirtualMachineInstance was shut down.";
                    ctx.normal(VMI, &vmi, "Stopped", message);
                }
                _ => ctx.warning(VMI, &vmi, "Stopped", "The VirtualMachineInstance crashed."),
            }
        }
    }
}

fn shut_down(ctx: &mut Context<'_>, vmi: &Value, next: &mut Value) {
    if ctx.waited(format!("shutdown {}", uid(vmi)), SHUTDOWN) {
        set(next, "/status/phase", "Succeeded");
    }
}

fn boot(ctx: &mut Context<'_>, vmi: &Object, next: &mut Value) {
    let Some(pod) = current_pod(ctx.caches, vmi)
        .filter(|pod| !is_terminating(pod))
        .cloned()
    else {
        return;
    };
    if !ctx.waited(format!("boot {}", uid(vmi)), BOOT) {
        return;
    }
    let attempt = controller_key(vmi, VM)
        .and_then(|key| ctx.caches.get(VM, &key))
        .map_or(0, |vm| run::failures(vm));
    let crashes = ctx.fault(VMI, vmi, "CrashLoopBackOff");
    if crashes.is_some_and(|fault| fault.fails_attempt(attempt)) {
        set(next, "/status/phase", "Failed");
        return;
    }
    set(next, "/status/phase", "Running");
    set(next, "/status/selinuxContext", "none");
    let machine = text(vmi, "/spec/domain/machine/type");
    let machine = if machine == "q35" {
        "pc-q35-rhel9.6.0"
    } else {
        machine
    };
    set(next, "/status/machine/type", machine);
    show_interfaces(next, &pod);
    show_targets(next);
    show_migratability(next);
    if text(vmi, "/spec/startStrategy") == "Paused" {
        put_condition(next, paused(ctx.now));
    }
}

/// Condition of a guest that a user paused.
pub(crate) fn paused(now: jiff::Timestamp) -> Value {
    let message = "VMI was paused by user";
    probed(new_condition(
        "Paused",
        "True",
        "PausedByUser",
        message,
        Some(now),
    ))
}

fn monitor(ctx: &mut Context<'_>, vmi: &Object, next: &mut Value) {
    for (fault, end) in [("Crash", "Failed"), ("Shutdown", "Succeeded")] {
        if ctx.fault(VMI, vmi, fault).is_some() {
            set(next, "/status/phase", end);
            return;
        }
    }
    if current_pod(ctx.caches, vmi).is_some_and(|pod| is_deleted(pod)) {
        // virt-launcher shuts its guest down before it exits.
        if ctx.waited(format!("end {}", uid(vmi)), LAUNCHER_SHUTDOWN) {
            set(next, "/status/phase", "Succeeded");
        }
        return;
    }
    hotplug::plug(ctx, vmi, next);
    if next.pointer("/status/volumeStatus") != vmi.pointer("/status/volumeStatus") {
        show_migratability(next);
    }
    interfaces::unplug(next);
    if is_true(vmi, "AgentConnected") || is_true(vmi, "Paused") {
        return;
    }
    if ctx.waited(format!("agent {}", uid(vmi)), AGENT) {
        let mut connected = new_condition("AgentConnected", "True", "", "", None);
        set(&mut connected, "/lastProbeTime", seconds(ctx.now));
        put_condition(next, connected);
        set(next, "/status/guestOSInfo", guest_os(vmi));
        let mut interfaces = list(next, "/status/interfaces").to_vec();
        for (index, interface) in interfaces.iter_mut().enumerate() {
            set(interface, "/infoSource", "domain, guest-agent");
            set(interface, "/interfaceName", format!("enp{}s0", index + 1));
        }
        set(next, "/status/interfaces", interfaces);
    }
}

/// Guest agent data of every guest in the sandbox.
pub(crate) fn guest_os(vmi: &Value) -> Value {
    let machine = match text(vmi, "/spec/architecture") {
        "arm64" => "aarch64",
        "s390x" => "s390x",
        _ => "x86_64",
    };
    json!({
        "id": "fedora",
        "kernelRelease": "6.14.0-63.fc42",
        "kernelVersion": "#1 SMP PREEMPT_DYNAMIC",
        "machine": machine,
        "name": "Fedora Linux",
        "prettyName": "Fedora Linux 42 (Cloud Edition)",
        "version": "42 (Cloud Edition)",
        "versionId": "42",
    })
}

/// Shows the guest's addresses: the pod's address on the pod network, on other networks one derived
/// from network and guest.
pub(crate) fn show_interfaces(next: &mut Value, pod: &Value) {
    let mut interfaces = list(next, "/status/interfaces").to_vec();
    let spec = list(next, "/spec/domain/devices/interfaces");
    let identity = uid(next);
    for (index, interface) in interfaces.iter_mut().enumerate() {
        let network = text(interface, "/name").to_owned();
        let number = hash(&format!("{identity} {network}"));
        let given = spec
            .iter()
            .find(|given| text(given, "/name") == network)
            .map_or("", |given| text(given, "/macAddress"));
        let mac = if given.is_empty() {
            random_mac(number)
        } else {
            given.to_owned()
        };
        let address = if text(interface, "/podInterfaceName") == "eth0" {
            text(pod, "/status/podIP").to_owned()
        } else {
            format!("192.168.{}.{}", 100 + index % 100, number % 253 + 2)
        };
        set(interface, "/mac", mac);
        set(interface, "/infoSource", "domain");
        set(interface, "/linkState", "up");
        set(interface, "/queueCount", 1);
        if !address.is_empty() {
            set(interface, "/ipAddress", address.clone());
            set(interface, "/ipAddresses", json!([address]));
        }
    }
    set(next, "/status/interfaces", interfaces);
}

fn random_mac(number: u64) -> String {
    let byte = |shift: u32| (number >> shift) & 0xff;
    format!("52:54:00:{:02x}:{:02x}:{:02x}", byte(0), byte(8), byte(16))
}

/// Shows the device names of the volumes.
fn show_targets(next: &mut Value) {
    let disks: Vec<(String, String)> = list(next, "/spec/domain/devices/disks")
        .iter()
        .map(|disk| {
            let bus = ["/disk/bus", "/cdrom/bus", "/lun/bus"]
                .iter()
                .map(|pointer| text(disk, pointer))
                .find(|bus| !bus.is_empty())
                .unwrap_or("sata");
            (text(disk, "/name").to_owned(), bus.to_owned())
        })
        .collect();
    let mut statuses = list(next, "/status/volumeStatus").to_vec();
    for status in &mut statuses {
        // Hot-plugged volumes get them later.
        if status.get("hotplugVolume").is_some() {
            continue;
        }
        let Some(place) = disks
            .iter()
            .position(|(name, _)| name == text(status, "/name"))
        else {
            continue;
        };
        let bus = disks.get(place).map_or("", |(_, bus)| bus.as_str());
        let before = disks
            .iter()
            .take(place)
            .filter(|(_, other)| other == bus)
            .count();
        let letter = u8::try_from(before % 26).map_or('z', |letter| char::from(b'a' + letter));
        let prefix = if bus == "virtio" { "vd" } else { "sd" };
        set(status, "/target", format!("{prefix}{letter}"));
    }
    if !statuses.is_empty() {
        set(next, "/status/volumeStatus", statuses);
    }
}

/// Shows whether the guest can be live-migrated: all its claims must be shared, and its binding to
/// the pod network must support it.
pub(crate) fn show_migratability(next: &mut Value) {
    let network = network_problem(next);
    let disks = disk_problem(next);
    let condition = match (&network, &disks) {
        (Some(message), _) => new_condition(
            "LiveMigratable",
            "False",
            "InterfaceNotLiveMigratable",
            message,
            None,
        ),
        (None, Some(message)) => new_condition(
            "LiveMigratable",
            "False",
            "DisksNotLiveMigratable",
            message,
            None,
        ),
        (None, None) => new_condition("LiveMigratable", "True", "", "", None),
    };
    put_condition(next, condition);
    let storage = match network {
        Some(message) => {
            let message = format!("InterfaceNotLiveMigratable: {message}");
            new_condition(
                "StorageLiveMigratable",
                "False",
                "NotMigratable",
                &message,
                None,
            )
        }
        None => new_condition("StorageLiveMigratable", "True", "", "", None),
    };
    put_condition(next, storage);
    let method = if disks.is_some() {
        "BlockMigration"
    } else {
        "LiveMigration"
    };
    set(next, "/status/migrationMethod", method);
}

fn network_problem(vmi: &Value) -> Option<String> {
    let of_pod = |interface: &Value| {
        list(vmi, "/spec/networks").iter().any(|network| {
            text(network, "/name") == text(interface, "/name") && network.get("pod").is_some()
        })
    };
    list(vmi, "/spec/domain/devices/interfaces")
        .iter()
        .filter(|interface| of_pod(interface))
        .any(|interface| interface.get("masquerade").is_none())
        .then(|| {
            "cannot migrate VMI which does not use masquerade or a migratable plugin to connect to \
             the pod network"
                .to_owned()
        })
}

fn disk_problem(vmi: &Value) -> Option<String> {
    list(vmi, "/status/volumeStatus")
        .iter()
        .filter_map(|status| status.get("persistentVolumeClaimInfo"))
        .find(|claim| {
            !list(claim, "/accessModes")
                .iter()
                .any(|mode| mode == "ReadWriteMany")
        })
        .map(|claim| {
            format!(
                "cannot migrate VMI: PVC {} is not shared, live migration requires that all PVCs \
                 must be shared (using ReadWriteMany access mode)",
                text(claim, "/claimName")
            )
        })
}

/// Completes CPU and memory changes that waited for a migration.
pub(crate) fn complete_changes(next: &mut Value) {
    if condition(next, "HotVCPUChange").is_some() {
        let topology = super::defaults::topology(next.get("spec").unwrap_or(&Value::Null));
        set(next, "/status/currentCPUTopology", topology);
        super::edit::remove_condition(next, "HotVCPUChange");
    }
    if is_true(next, "HotMemoryChange") {
        let guest = next.pointer("/spec/domain/memory/guest").cloned();
        for field in ["guestCurrent", "guestRequested"] {
            set(next, &format!("/status/memory/{field}"), guest.clone());
        }
        super::edit::remove_condition(next, "HotMemoryChange");
    }
}
