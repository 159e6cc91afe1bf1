//! Size of the guest, and the requested size where it differs.

use api::{
    MachineStatus, QuantityValue,
    kubevirt::{InstancePhase, InstanceStatus, ObservedInstance},
};

use super::{Resolved, view::View};
use crate::{Quantity, machine::ResolvedMachine};

/// Guest memory is a whole number of pages, and hot-plugged memory of 2Mi blocks: smaller differences from
/// the requested amount are ignored.
const MEMORY_BLOCK: i64 = 2 * 1024 * 1024;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) vcpus: Option<i32>,
    pub(super) memory: Option<QuantityValue>,
    pub(super) memory_quantity: Option<String>,
    pub(super) requested_vcpus: Option<i32>,
    pub(super) requested_memory: Option<String>,
}

impl Size {
    /// The size of a running guest, else of the next one. While the Machine is being deleted or its spec
    /// is invalid, the reported size stays.
    pub(super) fn of(view: &View<'_>, old: &MachineStatus) -> Self {
        match view.input.resolved {
            Resolved::Valid(machine) if !view.is_terminating() => {
                Self::compared(machine, view.instance)
            }
            _ => Self::in_bytes(Self::reported(old)),
        }
    }

    /// Earlier versions reported the memory as text only.
    fn in_bytes(mut self) -> Self {
        if let Some(QuantityValue::Quantity(text)) = &self.memory
            && let Ok(memory) = text.parse()
        {
            self.memory_quantity = Some(text.clone());
            self.memory = Some(bytes(memory));
        }
        self
    }

    /// The size that a status reports.
    pub(super) fn reported(status: &MachineStatus) -> Self {
        Self {
            // Definitions of others have only `cpus`.
            vcpus: status.vcpus.or(status.cpus),
            memory: status.memory.clone(),
            memory_quantity: status.memory_quantity.clone(),
            requested_vcpus: status.requested_vcpus,
            requested_memory: status.requested_memory.clone(),
        }
    }

    fn compared(machine: &ResolvedMachine, instance: Option<&ObservedInstance>) -> Self {
        let guest = instance.map(|it| &it.status).filter(|it| has_guest(it));
        let requested_vcpus = i32::try_from(machine.vcpus()).unwrap_or(i32::MAX);
        let requested_memory = machine.memory.to_string();
        let vcpus = guest
            .and_then(current_vcpus)
            .filter(|vcpus| *vcpus != requested_vcpus);
        let memory = guest
            .and_then(current_memory)
            .filter(|memory| !is_about(*memory, machine.memory))
            .map(in_mebibytes);
        let shown = memory.unwrap_or(machine.memory);
        Self {
            vcpus: Some(vcpus.unwrap_or(requested_vcpus)),
            requested_vcpus: vcpus.map(|_| requested_vcpus),
            memory: Some(bytes(shown)),
            memory_quantity: Some(shown.to_string()),
            requested_memory: memory.map(|_| requested_memory),
        }
    }
}

/// The guest may still run on an unreachable node.
fn has_guest(status: &InstanceStatus) -> bool {
    matches!(
        status.phase,
        InstancePhase::Running | InstancePhase::Unknown
    )
}

/// Missing counts are one, as in KubeVirt.
fn current_vcpus(status: &InstanceStatus) -> Option<i32> {
    let topology = status.current_cpu_topology?;
    let counts = [topology.sockets, topology.cores, topology.threads];
    let vcpus = counts.map(|count| count.max(1)).into_iter();
    let vcpus = vcpus.fold(1_u32, u32::saturating_mul);
    Some(i32::try_from(vcpus).unwrap_or(i32::MAX))
}

fn current_memory(status: &InstanceStatus) -> Option<Quantity> {
    let current = match status.memory.as_ref()?.guest_current.as_ref()? {
        QuantityValue::Bytes(bytes) => Quantity::from_bytes(*bytes),
        QuantityValue::Quantity(text) => text.parse().ok()?,
    };
    Some(current).filter(|current| current.is_positive())
}

fn is_about(current: Quantity, requested: Quantity) -> bool {
    let difference = (current - requested).nanos().abs();
    difference < Quantity::from_bytes(MEMORY_BLOCK).nanos()
}

/// What does not fit stays a quantity: no schema accepts such a Machine.
fn bytes(memory: Quantity) -> QuantityValue {
    let bytes = i64::try_from(memory.rounded_up().nanos() / 1_000_000_000);
    bytes.map_or_else(
        |_| QuantityValue::Quantity(memory.to_string()),
        QuantityValue::Bytes,
    )
}

fn in_mebibytes(memory: Quantity) -> Quantity {
    let mebibyte = Quantity::MEBIBYTE.nanos();
    let count = (memory.nanos() + mebibyte / 2) / mebibyte;
    let bytes = i64::try_from(count).ok();
    let bytes = bytes.and_then(|count| count.checked_mul(1024 * 1024));
    bytes.map_or(memory, Quantity::from_bytes)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn quantity(text: &str) -> Quantity {
        text.parse().unwrap()
    }

    #[rstest]
    #[case("2Gi", "2147483648", true)]
    #[case("1500M", "1500000256", true)]
    #[case("2Gi", "2146Mi", false)]
    #[case("2Gi", "2046Mi", false)]
    #[case("2Gi", "2047Mi", true)]
    fn ignores_differences_below_a_memory_block(
        #[case] requested: &str,
        #[case] current: &str,
        #[case] expected: bool,
    ) {
        let is_same = is_about(quantity(current), quantity(requested));
        assert_eq!(is_same, expected);
    }

    #[rstest]
    #[case("2Gi", "2Gi")]
    #[case("1500000256", "1431Mi")]
    #[case("1G", "954Mi")]
    #[case("9223372036854775807", "9223372036854775807")]
    fn memory_is_printed_in_mebibytes(#[case] memory: &str, #[case] expected: &str) {
        assert_eq!(in_mebibytes(quantity(memory)).to_string(), expected);
    }

    #[rstest]
    #[case("2Gi", 2_147_483_648)]
    #[case("1500M", 1_500_000_000)]
    #[case("1500m", 2)]
    fn memory_is_counted_in_bytes(#[case] memory: &str, #[case] expected: i64) {
        assert_eq!(bytes(quantity(memory)), QuantityValue::Bytes(expected));
    }

    #[rstest]
    #[case(json!({"memory": "2Gi"}), json!({"memory": 2_147_483_648_i64, "memoryQuantity": "2Gi"}))]
    #[case(json!({"memory": "broken"}), json!({"memory": "broken"}))]
    fn memory_of_an_earlier_version_becomes_bytes(#[case] old: Value, #[case] expected: Value) {
        let old: MachineStatus = serde_json::from_value(old).unwrap();
        let size = Size::reported(&old).in_bytes();
        let new = MachineStatus {
            memory: size.memory,
            memory_quantity: size.memory_quantity,
            ..MachineStatus::default()
        };
        assert_eq!(serde_json::to_value(new).unwrap(), expected);
    }
}
