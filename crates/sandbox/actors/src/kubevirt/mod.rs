//! KubeVirt, as virt-api, virt-controller and virt-handler behave.
//!
//! Each of KubeVirt's controllers is an [`Actor`](crate::Actor) of its own, decides from what it
//! has observed, and writes what the real one writes, in the same order: a test holds the phases,
//! conditions and words of a VM's life against a recording of KubeVirt v1.9.0.
//!
//! What virt-api does is a set of functions that an API server can call: [`default_vm`] and
//! [`admit_vm`] when a VM is written, [`subresource`] for `subresources.kubevirt.io`. Beside a real
//! API server, where nobody calls them, the controllers fill in VMs when they first see them.

mod amount;
mod defaults;
mod edit;
mod handler;
mod launcher;
mod live_update;
mod names;
mod printable;
mod run;
mod storage;
mod vm;
mod vmi;

pub use self::{
    defaults::{default_vm, default_vmi},
    handler::Handler,
    names::{MIGRATION, RESTORE, SNAPSHOT, SNAPSHOT_CONTENT, VM, VMI},
    storage::SNAPSHOT_CLASS_ANNOTATION,
    vm::VmController,
    vmi::VmiController,
};
