//! KubeVirt's rules for which changes of a VirtualMachine reach a running guest.
//!
//! Sockets and memory can be hot-plugged up to the maximum that KubeVirt sets at the start, four times the
//! initial amount by default; hot-pluggable disks can be added and removed; interfaces on Multus networks
//! can be added; placement is updated. Everything else needs a restart.

use api::labels;
use serde_json::Value;

use super::{
    Change, changes,
    changes::{name, named},
};
use crate::Quantity;

/// KubeVirt's default ratio of maximum to initial size.
const ROOM: i128 = 4;
/// KubeVirt hot-plugs no memory into smaller guests.
const LEAST_MEMORY: i128 = 1 << 30;
const NANOS: i128 = 1_000_000_000;

/// The fields of a VirtualMachine whose change needs a restart. `before` and `after` are specs of
/// VirtualMachines. Less can be changed in a guest that cannot be live-migrated.
pub fn restart_needed(before: &Value, after: &Value, is_migratable: bool) -> Vec<String> {
    let template = |spec: &Value| spec["template"]["spec"].clone();
    let (old, new) = (template(before), template(after));
    let mut waiting: Vec<String> = changes(&old, &new)
        .into_iter()
        .filter(|change| !is_live(change, &old, &new, is_migratable))
        .map(|change| format!("spec.template.spec.{}", change.path))
        .collect();
    let cloud_init =
        |spec: &Value| spec["template"]["metadata"]["annotations"][labels::CLOUD_INIT].clone();
    if cloud_init(before) != cloud_init(after) {
        waiting.push("cloud-init's data".to_owned());
    }
    waiting
}

fn is_live(change: &Change, old: &Value, new: &Value, is_migratable: bool) -> bool {
    let path = change.path.as_str();
    let begins = |beginning: &str| {
        path.strip_prefix(beginning)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    };
    let is_hotpluggable = |disk: &str| {
        [old, new]
            .iter()
            .filter_map(|spec| item(spec, "/volumes", disk))
            .all(is_marked)
    };
    if begins("nodeSelector") || begins("affinity") || begins("tolerations") {
        return true;
    }
    match path {
        "domain.cpu.sockets" => sockets_fit(change),
        "domain.memory.guest" => is_migratable && memory_fits(change),
        _ => {
            let in_list = |list: &str| path.strip_prefix(list)?.strip_suffix(']');
            let comes_or_goes = change.from.is_none() || change.to.is_none();
            let disk = in_list("volumes[").or(in_list("domain.devices.disks["));
            let interface = in_list("networks[").or(in_list("domain.devices.interfaces["));
            match (disk, interface) {
                (Some(disk), _) => comes_or_goes && is_hotpluggable(disk),
                (_, Some(interface)) => {
                    let network = item(new, "/networks", interface);
                    change.from.is_none() && network.is_some_and(|it| it["multus"].is_object())
                }
                (None, None) => {
                    is_migratable
                        && path.starts_with("networks[")
                        && path.ends_with("].multus.networkName")
                }
            }
        }
    }
}

fn item<'a>(spec: &'a Value, list: &str, desired: &str) -> Option<&'a Value> {
    let items = spec.pointer(list)?.as_array()?;
    named(items, desired).filter(|item| !name(item).is_empty())
}

fn is_marked(volume: &Value) -> bool {
    ["persistentVolumeClaim", "dataVolume"]
        .iter()
        .any(|source| volume[source]["hotpluggable"] == true)
}

fn sockets_fit(change: &Change) -> bool {
    let count = |value: &Option<Value>| value.as_ref().and_then(Value::as_i64).map(i128::from);
    fits(count(&change.from), count(&change.to))
}

fn memory_fits(change: &Change) -> bool {
    let bytes = |value: &Option<Value>| {
        let quantity: Quantity = value.as_ref()?.as_str()?.parse().ok()?;
        Some(quantity.nanos() / NANOS)
    };
    let (from, to) = (bytes(&change.from), bytes(&change.to));
    fits(from, to) && from.is_some_and(|from| from >= LEAST_MEMORY)
}

fn fits(from: Option<i128>, to: Option<i128>) -> bool {
    matches!((from, to), (Some(from), Some(to)) if from < to && to <= from.saturating_mul(ROOM))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn spec() -> Value {
        let claim = |hotpluggable: bool| json!({"claimName": "x", "hotpluggable": hotpluggable});
        json!({"template": {
            "metadata": {"annotations": {"vitistack.io/cloud-init": "1"}, "labels": {"a": "b"}},
            "spec": {
                "domain": {
                    "cpu": {"cores": 1, "sockets": 1, "threads": 1},
                    "memory": {"guest": "2Gi"},
                    "devices": {
                        "disks": [{"name": "root"}, {"name": "data"}],
                        "interfaces": [{"name": "default", "masquerade": {}}],
                    },
                },
                "networks": [
                    {"name": "default", "pod": {}},
                    {"name": "lan", "multus": {"networkName": "lan"}},
                ],
                "volumes": [
                    {"name": "root", "persistentVolumeClaim": claim(false)},
                    {"name": "data", "persistentVolumeClaim": claim(true)},
                ],
            },
        }})
    }

    #[rstest]
    #[case::more_sockets("domain/cpu/sockets", json!(4), true)]
    #[case::too_many_sockets("domain/cpu/sockets", json!(5), false)]
    #[case::fewer_sockets("domain/cpu/sockets", json!(0), false)]
    #[case::cores("domain/cpu/cores", json!(2), false)]
    #[case::more_memory("domain/memory/guest", json!("4Gi"), true)]
    #[case::too_much_memory("domain/memory/guest", json!("16Gi"), false)]
    #[case::less_memory("domain/memory/guest", json!("1Gi"), false)]
    #[case::placement("nodeSelector", json!({"zone": "a"}), true)]
    #[case::tolerations("tolerations", json!([{"key": "a"}]), true)]
    #[case::firmware("domain/firmware", json!({"bootloader": {"bios": {}}}), false)]
    #[case::another_network("networks/1/multus/networkName", json!("wan"), true)]
    #[case::another_card("domain/devices/interfaces/0/model", json!("e1000"), false)]
    #[case::boot_order("domain/devices/disks/0/bootOrder", json!(1), false)]
    fn changes_that_kubevirt_hotplugs_need_no_restart(
        #[case] field: &str,
        #[case] value: Value,
        #[case] is_live: bool,
    ) {
        let (before, mut after) = (spec(), spec());
        let (parent, name) = field.rsplit_once('/').unwrap_or(("", field));
        let parent = format!("/template/spec/{parent}");
        let parent = parent.trim_end_matches('/');
        after.pointer_mut(parent).unwrap()[name] = value;
        let waiting = restart_needed(&before, &after, true);
        assert_eq!(waiting.is_empty(), is_live, "{waiting:?}");
    }

    #[rstest]
    #[case::plugged("data", true)]
    #[case::fixed("root", false)]
    fn a_hotpluggable_disk_is_unplugged_without_a_restart(
        #[case] disk: &str,
        #[case] is_live: bool,
    ) {
        let (before, mut after) = (spec(), spec());
        for list in ["domain/devices/disks", "volumes"] {
            let list = after
                .pointer_mut(&format!("/template/spec/{list}"))
                .unwrap();
            list.as_array_mut().unwrap().retain(|it| it["name"] != disk);
        }
        assert_eq!(restart_needed(&before, &after, true).is_empty(), is_live);
        assert_eq!(restart_needed(&after, &before, true).is_empty(), is_live);
    }

    #[test]
    fn an_interface_comes_to_a_running_guest_and_does_not_go() {
        let (mut before, after) = (spec(), spec());
        let networks = before.pointer_mut("/template/spec/networks").unwrap();
        networks.as_array_mut().unwrap().pop();
        assert!(restart_needed(&before, &after, true).is_empty());
        let waiting = restart_needed(&after, &before, true);
        assert_eq!(waiting, ["spec.template.spec.networks[lan]"]);
    }

    #[test]
    fn a_guest_that_cannot_be_moved_gets_no_memory() {
        let (before, mut after) = (spec(), spec());
        after["template"]["spec"]["domain"]["memory"]["guest"] = json!("4Gi");
        assert!(!restart_needed(&before, &after, false).is_empty());
    }

    #[test]
    fn cloud_init_is_read_at_the_start_and_labels_are_not() {
        let (before, mut after) = (spec(), spec());
        after["template"]["metadata"]["labels"]["a"] = json!("c");
        assert!(restart_needed(&before, &after, true).is_empty());
        after["template"]["metadata"]["annotations"]["vitistack.io/cloud-init"] = json!("2");
        assert_eq!(restart_needed(&before, &after, true), ["cloud-init's data"]);
    }
}
