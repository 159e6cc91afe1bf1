//! Library of the binary `kubevirt-operator`: commands, and the two operators.
//!
//! Each command is a file in `cmd`. The Machine operator is [`machine`], the KubeVirt operator
//! [`kubevirt`]; both execute what the pure functions of the `plan` crate decide.

mod certificates;
mod cmd;
pub mod documents;
mod effects;
mod events;
pub mod installation;
mod kind_events;
#[cfg(feature = "plugin")]
pub mod kubectl;
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

/// Parses the command line and runs the command.
pub fn main() -> ExitCode {
    #[cfg(feature = "plugin")]
    if let Some(code) = cmd::machine::run_as_plugin() {
        return code;
    }
    match cmd::Cli::try_parse() {
        Ok(cli) => cli.run().into(),
        Err(error) => cmd::usage(&error),
    }
}
