//! Hotplug of network interfaces.
//!
//! An interface that is added to a VM is added to its VMI if it has bridge or SR-IOV binding; the
//! guest gets it by a migration, which KubeVirt starts if the guest is migratable. An interface
//! marked `absent` is removed from the guest at once, then from the specs of VMI and VM. All other
//! changes require a restart.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    edit::{new_condition, put_condition, remove, remove_condition, set},
    live_update::{Change, is_migrating},
};
use crate::{
    Context, Step,
    object::{condition, is_deleted, is_true, list, text, time},
};

const TEMPLATE: &str = "/spec/template/spec";
const INTERFACES: &str = "/domain/devices/interfaces";
/// Condition of a VMI that needs a migration.
const CONDITION: &str = "MigrationRequired";
/// Time in which another controller could plug the interface without a migration.
const GRACE: Step = Step::seconds(15);

fn named<'a>(items: &'a [Value], name: &str) -> Option<&'a Value> {
    items.iter().find(|item| text(item, "/name") == name)
}

fn is_absent(interface: &Value) -> bool {
    text(interface, "/state") == "absent"
}

fn template<'a>(vm: &'a Value, pointer: &str) -> &'a [Value] {
    list(vm, &format!("{TEMPLATE}{pointer}"))
}

/// Whether a change of the VM's interfaces and networks cannot be made while the guest runs.
pub fn need_restart(vm: &Value, at_start: &Value, vmi: &Value) -> bool {
    let stateless = |interface: &Value| {
        let mut interface = interface.clone();
        remove(&mut interface, "/state");
        interface
    };
    let wanted = template(vm, INTERFACES);
    let started = list(at_start, &format!("/template/spec{INTERFACES}"));
    let changed = list(vmi, &format!("/spec{INTERFACES}"))
        .iter()
        .any(|current| {
            let name = text(current, "/name");
            let Some(wanted) = named(wanted, name).map(stateless) else {
                return true;
            };
            // Defaults set at the start are no change.
            wanted != stateless(current) && named(started, name).map(stateless) != Some(wanted)
        });
    let networks = template(vm, "/networks");
    let current = list(vmi, "/spec/networks");
    let movable = is_true(vmi, "LiveMigratable");
    let comparable = |network: &Value| {
        let mut network = network.clone();
        if movable && network.get("multus").is_some() {
            remove(&mut network, "/multus/networkName");
        }
        network
    };
    let is_of_pod = |network: &&Value| network.get("pod").is_some();
    let gets_pod_network = networks.iter().any(|network| is_of_pod(&network))
        && !current.iter().any(|network| is_of_pod(&network));
    changed
        || gets_pod_network
        || current.iter().any(|current| {
            named(networks, text(current, "/name")).map(comparable) != Some(comparable(current))
        })
}

/// Change of a running VMI's interfaces that its VM asks for.
pub fn change(vm: &Value, vmi: &Value) -> Change {
    if is_deleted(vmi) {
        return Change::None;
    }
    let mut interfaces = list(vmi, &format!("/spec{INTERFACES}")).to_vec();
    let mut networks = list(vmi, "/spec/networks").to_vec();
    for wanted in template(vm, INTERFACES) {
        let name = text(wanted, "/name");
        let hot = wanted.get("bridge").is_some() || wanted.get("sriov").is_some();
        match interfaces
            .iter_mut()
            .find(|interface| text(interface, "/name") == name)
        {
            None if hot && !is_absent(wanted) => {
                interfaces.push(wanted.clone());
                networks.extend(named(template(vm, "/networks"), name).cloned());
            }
            Some(current)
                if !is_absent(current) && text(current, "/state") != text(wanted, "/state") =>
            {
                match wanted.get("state") {
                    Some(state) => set(current, "/state", state.clone()),
                    None => drop(remove(current, "/state")),
                }
            }
            _ => {}
        }
    }
    let shown = list(vmi, "/status/interfaces");
    interfaces.retain(|interface| {
        !is_absent(interface) || named(shown, text(interface, "/name")).is_some()
    });
    networks.retain(|network| named(&interfaces, text(network, "/name")).is_some());
    if is_true(vmi, "LiveMigratable") {
        for network in &mut networks {
            let wanted = named(template(vm, "/networks"), text(network, "/name"))
                .map(|wanted| text(wanted, "/multus/networkName"))
                .unwrap_or_default();
            if network.get("multus").is_some() && !wanted.is_empty() {
                set(network, "/multus/networkName", wanted);
            }
        }
    }
    if interfaces == list(vmi, &format!("/spec{INTERFACES}"))
        && networks == list(vmi, "/spec/networks")
    {
        return Change::None;
    }
    Change::Patch(json!({ "spec": {
        "networks": networks,
        "domain": { "devices": { "interfaces": interfaces } },
    } }))
}

/// Patch of a VM that removes absent interfaces which its guest no longer has.
pub fn forget_absent(vm: &Value, vmi: Option<&Value>) -> Option<Value> {
    let wanted = template(vm, INTERFACES);
    let lives = |interface: &Value| {
        let name = text(interface, "/name");
        !is_absent(interface)
            || vmi.is_some_and(|vmi| {
                named(list(vmi, &format!("/spec{INTERFACES}")), name).is_some()
                    || named(list(vmi, "/status/interfaces"), name).is_some()
            })
    };
    if wanted.iter().all(lives) {
        return None;
    }
    let kept: Vec<&Value> = wanted.iter().filter(|interface| lives(interface)).collect();
    let networks: Vec<&Value> = template(vm, "/networks")
        .iter()
        .filter(|network| {
            kept.iter()
                .any(|interface| text(interface, "/name") == text(network, "/name"))
        })
        .collect();
    Some(json!({ "spec": { "template": { "spec": {
        "networks": networks,
        "domain": { "devices": { "interfaces": kept } },
    } } } }))
}

/// virt-handler's part: removes interfaces marked absent from the guest.
pub fn unplug(next: &mut Value) {
    let absent: Vec<String> = list(next, &format!("/spec{INTERFACES}"))
        .iter()
        .filter(|interface| is_absent(interface))
        .map(|interface| text(interface, "/name").to_owned())
        .collect();
    let mut shown = list(next, "/status/interfaces").to_vec();
    let before = shown.len();
    shown.retain(|status| !absent.iter().any(|name| name == text(status, "/name")));
    if shown.len() != before {
        set(next, "/status/interfaces", shown);
    }
}

/// Interfaces of the spec that the guest does not have.
pub fn missing(vmi: &Value) -> Vec<Value> {
    let shown = list(vmi, "/status/interfaces");
    list(vmi, &format!("/spec{INTERFACES}"))
        .iter()
        .filter(|interface| {
            !is_absent(interface) && named(shown, text(interface, "/name")).is_none()
        })
        .cloned()
        .collect()
}

/// Shows that the guest needs a migration to get an interface: pending during the grace period,
/// then true.
pub fn require_migration(ctx: &mut Context<'_>, next: &mut Value) {
    if is_migrating(next) {
        return;
    }
    let missing = missing(next);
    if missing.is_empty() {
        remove_condition(next, CONDITION);
        return;
    }
    let existing = condition(next, CONDITION).cloned();
    let status = existing.as_ref().map(|existing| text(existing, "/status"));
    if status == Some("True") {
        return;
    }
    let since: Option<Timestamp> = existing
        .as_ref()
        .and_then(|existing| time(existing, "/lastTransitionTime"));
    let at_once = missing
        .iter()
        .any(|interface| interface.get("sriov").is_some());
    let grace = ctx.speed.of(GRACE);
    let waited = since.is_some_and(|since| ctx.has_elapsed(since, grace));
    let shown = if at_once || waited {
        new_condition(
            CONDITION,
            "True",
            "AutoMigrationDueToLiveUpdate",
            "",
            Some(ctx.now),
        )
    } else {
        if since.is_none() {
            ctx.requeue_after(grace);
        }
        new_condition(
            CONDITION,
            "False",
            "AutoMigrationPending",
            "",
            Some(ctx.now),
        )
    };
    put_condition(next, shown);
}
