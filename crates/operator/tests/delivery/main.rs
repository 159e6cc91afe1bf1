//! Delivery: config/, the chart and `kubevirt-operator manifests` contain the same objects, and the real
//! kubectl and Helm can install, upgrade and remove them.
//!
//! Tests that need Helm are ignored by default; with helm 3.17 or newer on PATH they run with `cargo
//! test -p kubevirt-operator --test delivery -- --ignored`, as `.ci/run` does.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]
#![allow(
    clippy::format_push_string,
    reason = "shorter, and tests are not hurried"
)]

#[path = "../kubectl/kubectl.rs"]
#[allow(dead_code, reason = "each suite needs a part of it")]
mod kubectl;
#[path = "../kubectl/operator_process.rs"]
#[allow(dead_code, reason = "each suite needs a part of it")]
mod operator_process;
#[path = "../kubectl/process.rs"]
#[allow(dead_code, reason = "each suite needs a part of it")]
mod process;

mod chart;
mod coexistence;
mod config;
mod docs;
mod generated;
mod helm;
mod install;
mod objects;
mod pods;
mod release;
mod toggles;
mod values;
mod variables;

use std::path::Path;

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

fn text(file: &str) -> String {
    let path = root().join(file);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{file}: {error}"))
}
