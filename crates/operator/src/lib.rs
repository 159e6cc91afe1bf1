//! The commands of `kubevirt-operator`, one file each in `cmd`.
//!
//! Commands read documents ([`documents`]), turn them into resources and what those refer to
//! ([`manifests`]), run the pure functions of the `plan` crate on them, and print.

mod certificates;
mod cmd;
pub mod documents;
mod fields;
pub mod installation;
pub mod kubevirt;
mod lists;
mod logs;
pub mod machine;
pub mod manifests;
pub mod metrics;
mod report;
mod requests;
pub mod review;
#[cfg(feature = "cel")]
pub mod schemas;
#[cfg(feature = "sandbox")]
pub mod services;
pub mod webhook_certificate;
pub mod yaml;

use std::process::ExitCode;

use clap::Parser;

/// Parses the command line, runs the command, and tells how it ended.
pub fn main() -> ExitCode {
    cmd::Cli::parse().run().into()
}
