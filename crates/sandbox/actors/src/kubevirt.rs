//! KubeVirt, as virt-api, virt-controller and virt-handler behave.
//!
//! Each of KubeVirt's controllers is an [`Actor`] of its own, decides from what it
//! has observed, and writes what the real one writes, in the same order: a test holds the phases,
//! conditions and words of a VM's life against a recording of KubeVirt v1.9.0.
//!
//! What virt-api does is a set of functions that an API server can call: [`default_vm`] and
//! [`admit_vm`] when a VM is written, [`subresource`] for `subresources.kubevirt.io`. Beside a real
//! API server, where nobody calls them, the controllers fill in VMs when they first see them.

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
        Decision, Effect, SubresourceRequest, SubresourceResponse, decide as decide_subresource,
        subresource, subresource_api_resources,
    },
    vm::VmController,
    vmi::VmiController,
};

pub(crate) use self::managed::node_labels;

use self::managed::{Managed, Needs, NodeLabeller};
use crate::Actor;

/// All controllers of KubeVirt.
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
