//! Initial states of a Machine's world.

use proptest::{option, prelude::*, sample::select};
use serde_json::{Value, json};

pub(crate) const MACHINE_UID: &str = "machine-1";

/// Origin of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Created for this Machine.
    Own,
    /// Created for this Machine, with the policy to retain it.
    Retained,
    /// Created for an earlier Machine of this name.
    Earlier,
    /// Created for something else.
    Foreign,
}

/// An existing disk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DiskState {
    pub(crate) origin: Origin,
    pub(crate) gibibytes: u32,
    pub(crate) is_bound: bool,
    pub(crate) is_deleted: bool,
}

/// An existing VirtualMachine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VmState {
    pub(crate) origin: Origin,
    pub(crate) is_deleted: bool,
    pub(crate) is_halted: bool,
    pub(crate) memory: &'static str,
    pub(crate) has_data_disk: bool,
}

/// An existing instance.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InstanceState {
    pub(crate) phase: &'static str,
    pub(crate) is_deleted: bool,
    pub(crate) is_paused: bool,
}

/// The world before the first reconcile.
#[derive(Clone, Debug)]
pub(crate) struct State {
    pub(crate) spec: Value,
    pub(crate) adopts: bool,
    pub(crate) is_deleted: bool,
    pub(crate) has_finalizer: bool,
    pub(crate) root: Option<DiskState>,
    pub(crate) data: Option<DiskState>,
    pub(crate) removed: Option<DiskState>,
    pub(crate) vm: Option<VmState>,
    pub(crate) instance: Option<InstanceState>,
}

fn origin() -> impl Strategy<Value = Origin> {
    prop_oneof![
        4 => Just(Origin::Own),
        2 => Just(Origin::Retained),
        1 => Just(Origin::Earlier),
        1 => Just(Origin::Foreign),
    ]
}

fn disk() -> impl Strategy<Value = DiskState> {
    let sizes = select(&[5_u32, 20, 40][..]);
    (origin(), sizes, any::<bool>(), prop::bool::weighted(0.1)).prop_map(
        |(origin, gibibytes, is_bound, is_deleted)| DiskState {
            origin,
            gibibytes,
            is_bound,
            is_deleted,
        },
    )
}

fn vm() -> impl Strategy<Value = VmState> {
    (
        prop_oneof![
            4 => Just(Origin::Own),
            // Someone has removed its owner reference.
            1 => Just(Origin::Retained),
            1 => Just(Origin::Earlier),
            1 => Just(Origin::Foreign),
        ],
        prop::bool::weighted(0.2),
        any::<bool>(),
        select(&["2Gi", "4Gi"][..]),
        any::<bool>(),
    )
        .prop_map(
            |(origin, is_deleted, is_halted, memory, has_data_disk)| VmState {
                origin,
                is_deleted,
                is_halted,
                memory,
                has_data_disk,
            },
        )
}

fn instance() -> impl Strategy<Value = InstanceState> {
    let phases = select(&["Pending", "Scheduling", "Running", "Succeeded", "Failed"][..]);
    (phases, prop::bool::weighted(0.2), prop::bool::weighted(0.2)).prop_map(
        |(phase, is_deleted, is_paused)| InstanceState {
            phase,
            is_deleted,
            is_paused,
        },
    )
}

fn spec() -> impl Strategy<Value = Value> {
    (
        option::of(select(&["small", "large", "missing"][..])),
        select(vec![json!(null), json!([{"name": "data", "size": "10Gi"}])]),
        option::of(select(&["Running", "Stopped", "Paused"][..])),
        option::of(select(&["Delete", "Retain"][..])),
        option::of(Just("2026-01-01T00:00:00Z")),
        option::of(Just(json!({"userData": "#cloud-config"}))),
    )
        .prop_map(|(template, disks, power, policy, restarted, cloud_init)| {
            let fields = json!({
                "template": template, "disks": disks, "powerState": power,
                "deletionPolicy": policy, "restartedAt": restarted, "cloudInit": cloud_init,
            });
            let Value::Object(mut fields) = fields else {
                return fields;
            };
            fields.retain(|_, value| !value.is_null());
            Value::Object(fields)
        })
}

pub(crate) fn state() -> impl Strategy<Value = State> {
    (
        spec(),
        prop::bool::weighted(0.2),
        prop::bool::weighted(0.25),
        prop::bool::weighted(0.8),
        option::of(disk()),
        option::of(disk()),
        option::of(disk()),
        option::of(vm()),
        option::of(instance()),
    )
        .prop_map(
            |(spec, adopts, is_deleted, has_finalizer, root, data, removed, vm, instance)| State {
                spec,
                adopts,
                is_deleted,
                has_finalizer,
                root,
                data,
                removed,
                instance: instance.filter(|_| vm.is_some()),
                vm,
            },
        )
}
