//! KubeVirt: the behaviour of virt-api, virt-controller and virt-handler.
//!
//! Each controller is an [`Actor`] that writes what the real one writes, in the same order. A test
//! compares the phases, conditions and messages of a VM's life with a recording of KubeVirt v1.9.0.
//!
//! virt-api is a set of functions for an API server to call: [`default_vm`] and [`admit_vm`] on
//! writes of VMs, [`subresource`] for `subresources.kubevirt.io`. With an API server that does not
//! call them, the controllers default VMs when they first observe them.

mod admission;
mod amount;
mod crds;
mod defaults;
mod edit;
mod evacuation;
mod handler;
mod hotplug;
mod interfaces;
mod launcher;
mod live_update;
mod managed;
mod migration;
mod names;
mod printable;
mod restore;
mod run;
mod snapshot;
mod storage;
mod strategy;
mod subresource;
#[cfg(test)]
mod tests;
mod vm;
mod vmi;

pub use self::{
    admission::{Cause, VM_WEBHOOK, admit_vm, rejection},
    crds::crds,
    defaults::{default_vm, default_vmi},
    evacuation::{EvacuationController, Eviction, LAUNCHER_WEBHOOK, evict, guest_of},
    handler::Handler,
    managed::Mode,
    migration::MigrationController,
    names::{MIGRATION, RESTORE, SNAPSHOT, SNAPSHOT_CONTENT, VM, VMI},
    restore::RestoreController,
    snapshot::SnapshotController,
    storage::SNAPSHOT_CLASS_ANNOTATION,
    strategy::{Strategies, synthetic_objects, synthetic_strategy},
    subresource::{
        Decision, Effect, GuestService, SubresourceRequest, SubresourceResponse, check_console,
        decide as decide_subresource, guest_service, subresource, subresource_api_resources,
    },
    vm::VmController,
    vmi::VmiController,
};

pub(crate) use self::managed::node_labels;

use self::managed::{Managed, Needs, NodeLabeller};
use crate::Actor;

pub fn actors(mode: Mode) -> Vec<Box<dyn Actor>> {
    let actors: [(Box<dyn Actor>, Needs); 7] = [
        (Box::new(VmController), Needs::Controller),
        (Box::new(VmiController), Needs::Controller),
        (Box::new(Handler), Needs::Handler),
        (Box::new(MigrationController), Needs::Controller),
        (Box::new(EvacuationController), Needs::Controller),
        (Box::new(SnapshotController), Needs::Controller),
        (Box::new(RestoreController), Needs::Controller),
    ];
    let actors = actors.into_iter();
    match mode {
        Mode::BuiltIn => actors.map(|(actor, _)| actor).collect(),
        Mode::Managed => actors
            .map(|(actor, needs)| Box::new(Managed::new(actor, needs)) as Box<dyn Actor>)
            .chain([Box::new(NodeLabeller) as Box<dyn Actor>])
            .collect(),
    }
}
