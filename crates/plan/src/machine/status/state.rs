//! State of a virtual machine in a word, for people and other programs of the stack.

use api::Phase;

use super::{guest::Guest, view::View};

/// KubeVirt's word is used while the machine starts only: at other times it lags behind the instance.
pub(super) fn evaluate(view: &View<'_>, phase: Phase, guest: Guest) -> String {
    match guest {
        _ if phase == Phase::Failed => "Failed",
        Guest::Running | Guest::NotReady => "Running",
        Guest::Paused => "Paused",
        Guest::Lost => "Unknown",
        Guest::Stopping { .. } => "Stopping",
        Guest::Ended(_) | Guest::Off => "Stopped",
        Guest::Absent => "Pending",
        Guest::Starting => match view.vm.map(|vm| vm.status.printable_status.as_str()) {
            // The words for what has not begun or has ended.
            None | Some("" | "Stopped" | "Running") => "Starting",
            Some(word) => word,
        },
    }
    .to_owned()
}
