//! Command line.

mod completions;
mod crds;
mod findings;
mod import;
mod input;
#[cfg(feature = "plugin")]
pub(crate) mod machine;
mod manifests;
mod plan;
mod preview;
mod process;
mod render;
mod run;
#[cfg(feature = "sandbox")]
mod sandbox;
mod settings;
#[cfg(feature = "sandbox")]
mod simulate;
#[cfg(feature = "cel")]
mod validate;
mod version;
mod virt_operator;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Virtual machines on Kubernetes, from a few lines of YAML.
///
/// The operator turns each Machine (vitistack.io/v1alpha1) into a KubeVirt VirtualMachine with disks,
/// networks and cloud-init data. `run` starts the operator in a cluster. The other commands validate
/// Machines, render and preview their objects, and run a sandbox cluster.
#[derive(Parser)]
#[command(name = "kubevirt-operator", version, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Crds(crds::Args),
    Import(import::Args),
    #[cfg(feature = "plugin")]
    Machine(machine::Args),
    Manifests(manifests::Args),
    Plan(plan::Args),
    Render(render::Args),
    Run(Box<run::Args>),
    VirtOperator(Box<virt_operator::Args>),
    #[cfg(feature = "cel")]
    Validate(validate::Args),
    #[cfg(feature = "sandbox")]
    Sandbox(sandbox::Args),
    #[cfg(feature = "sandbox")]
    Simulate(simulate::Args),
    Completions(completions::Args),
    Version(version::Args),
}

/// Result of a command, in order of severity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Outcome {
    Fine,
    /// A preview has changes.
    Changes,
    /// The input is invalid, or the command failed.
    Problems,
    /// The input cannot be read.
    Unreadable,
}

impl From<Outcome> for ExitCode {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Fine => Self::SUCCESS,
            Outcome::Problems => Self::from(1),
            Outcome::Changes | Outcome::Unreadable => Self::from(2),
        }
    }
}

/// Exit status of wrong usage, `EX_USAGE` of sysexits.h: no command ends with it.
const USAGE: u8 = 64;

/// Prints an error of the command line, or the help that was asked for.
pub(crate) fn usage(error: &clap::Error) -> ExitCode {
    // Nothing can be reported when the stream is closed.
    let _ = error.print();
    if error.use_stderr() {
        ExitCode::from(USAGE)
    } else {
        ExitCode::SUCCESS
    }
}

impl Cli {
    pub(crate) fn run(self) -> Outcome {
        let mut report = crate::report::Report::to_stderr();
        match self.command {
            Command::Crds(args) => args.run(&mut report),
            Command::Import(args) => args.run(&mut report),
            #[cfg(feature = "plugin")]
            Command::Machine(args) => args.run(&mut report),
            Command::Manifests(args) => args.run(&mut report),
            Command::Plan(args) => args.run(&mut report),
            Command::Render(args) => args.run(&mut report),
            Command::Run(args) => args.run(&mut report),
            Command::VirtOperator(args) => args.run(&mut report),
            #[cfg(feature = "cel")]
            Command::Validate(args) => args.run(&mut report),
            #[cfg(feature = "sandbox")]
            Command::Sandbox(args) => args.run(&mut report),
            #[cfg(feature = "sandbox")]
            Command::Simulate(args) => args.run(&mut report),
            Command::Completions(args) => args.run(&mut report),
            Command::Version(args) => args.run(&mut report),
        }
    }
}

/// Async runtime, with logs on standard error.
fn runtime() -> Result<tokio::runtime::Runtime, String> {
    use tracing_subscriber::{EnvFilter, fmt};
    // Errors only, unless RUST_LOG is set: the commands print their own results.
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("error"));
    // Fails if a test has initialized it before.
    let _ = fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .try_init();
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("cannot start: {error}"))
}

/// Waits for SIGINT or SIGTERM.
async fn signal() -> std::io::Result<()> {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let mut terminate = signal(SignalKind::terminate())?;
        tokio::select! {
            ended = tokio::signal::ctrl_c() => ended,
            _ = terminate.recv() => Ok(()),
        }
    }
    #[cfg(not(unix))]
    tokio::signal::ctrl_c().await
}

/// Outcome of writing the output. A closed pipe (`| head`) is no error.
fn written(result: std::io::Result<()>, report: &mut crate::report::Report) -> Outcome {
    match result {
        Ok(()) => Outcome::Fine,
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Outcome::Fine,
        Err(error) => {
            report.error(format_args!("cannot write the output: {error}"));
            Outcome::Problems
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_valid() {
        super::Cli::command().debug_assert();
    }
}
