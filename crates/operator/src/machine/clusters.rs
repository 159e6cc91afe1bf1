//! Requests to the two clusters of a Machine: its own, and that of its virtual machine.

use plan::machine::Kind;

use crate::requests::Requests;

/// The clusters of a Machine, which may be the same.
#[derive(Clone)]
pub(super) struct Clusters {
    /// Machines, networks, address ledgers, and the Secrets and ConfigMaps of users.
    pub(super) management: Requests,
    /// Virtual machines, disks, and the Secrets of the operator.
    pub(super) workload: Requests,
}

impl Clusters {
    /// The cluster of an object of a Machine.
    pub(super) fn of(&self, kind: Kind) -> &Requests {
        match kind {
            Kind::NetworkConfiguration => &self.management,
            Kind::PersistentVolumeClaim
            | Kind::DataVolume
            | Kind::VirtualMachine
            | Kind::VirtualMachineInstance
            | Kind::NetworkAttachmentDefinition => &self.workload,
        }
    }
}
