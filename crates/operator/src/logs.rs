//! Log lines of the operators.
//!
//! `info!(controller = "Machine", machine, namespace, phase, "Creating VirtualMachine resource")` is
//! a line with these fields in this order.

use runtime::logs::{Format, Level, Program};

const PROGRAM: Program = Program {
    crates: &["kubevirt_operator", "runtime", "plan", "api"],
    leading_fields: &["controller", "machine", "namespace", "phase"],
};

/// Starts logging to standard error.
pub(crate) fn init(level: Level, format: Format) {
    runtime::logs::init(PROGRAM, level, format);
}
