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

/// Logs at one of two levels. A call site of `tracing` has a constant level.
macro_rules! log_either {
    ($condition:expr => $then:ident, else $otherwise:ident, $($event:tt)*) => {
        if $condition {
            tracing::$then!($($event)*);
        } else {
            tracing::$otherwise!($($event)*);
        }
    };
}
pub(crate) use log_either;
