//! Command line: `conformance run` compares a server with the recordings; `conformance record`
//! creates them.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand, ValueEnum};
use conformance::{Level, Options};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

/// Responses of a Kubernetes API server, as cases that run on any of them.
#[derive(Debug, Parser)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the cases and compare the responses with the recorded ones
    Run {
        #[command(flatten)]
        target: Target,
        /// How closely responses are compared
        #[arg(long, value_enum, default_value_t = CompareLevel::Exact)]
        level: CompareLevel,
    },
    /// Run the cases and write the responses into this crate's source tree
    Record {
        #[command(flatten)]
        target: Target,
    },
}

#[derive(Debug, clap::Args)]
struct Target {
    /// The server; whoever it names must be allowed everything
    #[arg(long)]
    kubeconfig: PathBuf,
    /// Only cases whose area or name contains this
    #[arg(long)]
    only: Option<String>,
    /// Leave out the cases in which the server has to reach this process
    #[arg(long)]
    no_webhooks: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum CompareLevel {
    /// Everything, for servers of the recorded version
    Exact,
    /// What clients decide by, for servers of other versions
    Essence,
}

#[tokio::main]
async fn main() -> ExitCode {
    match execute(Args::parse().command).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

async fn execute(command: Command) -> Result<bool, Box<dyn std::error::Error>> {
    match command {
        Command::Run { target, level } => {
            let level = match level {
                CompareLevel::Exact => Level::Exact,
                CompareLevel::Essence => Level::Essence,
            };
            let client = client(&target.kubeconfig).await?;
            let report = conformance::run(
                client,
                Options {
                    level,
                    ..options(target)
                },
            )
            .await?;
            println!("{report}");
            Ok(report.failed.is_empty())
        }
        Command::Record { target } => {
            let client = client(&target.kubeconfig).await?;
            let tree = Path::new(env!("CARGO_MANIFEST_DIR"));
            let failures = conformance::record(client, options(target), tree).await?;
            for failure in &failures {
                println!("{failure}");
            }
            Ok(failures.is_empty())
        }
    }
}

fn options(target: Target) -> Options {
    let seconds = jiff::Timestamp::now().as_second();
    Options {
        only: target.only,
        webhooks: !target.no_webhooks,
        prefix: format!("conf{seconds}"),
        ..Options::default()
    }
}

async fn client(kubeconfig: &Path) -> Result<Client, Box<dyn std::error::Error>> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    let mut config =
        Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    // Refusals are responses to compare: no retries.
    config.default_retry = false;
    Ok(Client::try_from(config)?)
}
