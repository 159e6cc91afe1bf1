//! The sandbox as people use it: the real kubectl against `kubevirt-operator sandbox` on a
//! loopback port.
//!
//! Needs kubectl 1.20 or newer on PATH, or its path in KUBECTL. Tests share one sandbox and have a
//! namespace each; they wait for what they want to see, never for time to pass.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod access;
mod admission;
mod apply;
mod command;
mod create;
mod delete;
mod edit;
mod kept;
mod kubectl;
mod machines;
mod nodes;
mod operator;
mod process;
mod read;
mod readme;
mod running;
mod workloads;

use std::path::Path;

/// The root of the repository.
fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}
