//! The real kubectl against `kubevirt-operator sandbox` on a loopback port.
//!
//! Needs kubectl 1.20 or newer on PATH, or its path in KUBECTL. Tests share one sandbox and have a
//! namespace each; they wait for states, never for time to pass.
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
mod kubectl;
mod machines;
mod nodes;
mod operations;
mod operator;
mod operator_process;
mod persistence;
mod plugin;
mod process;
mod read;
mod readme;
mod viti;
mod workloads;

use std::path::Path;

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}
