//! Load harness: a server, the operator and a client as processes, and figures of what each Machine costs.
//!
//! `bench/load` builds and runs it. All requests of the operator pass a proxy that counts them, so
//! another operator is measured in the same way (`--peer`). `cargo test -p bench --benches` runs it with
//! five Machines as a smoke test.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "figures for people, and a benchmark without its cluster has nothing to measure"
)]

mod arguments;
mod client;
mod curve;
mod observed;
mod print;
#[path = "../common/process.rs"]
mod process;
mod proxy;
mod run;
mod server;
#[path = "../common/simulated.rs"]
mod simulated;

use std::{env, fs, path::Path, process::ExitCode};

use arguments::Arguments;
use clap::Parser as _;

fn main() -> ExitCode {
    let given: Vec<String> = env::args().collect();
    match given.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [_, "run" | "simulate", ..] => return kubevirt_operator::main(),
        [_, server::SERVE, kubeconfig, machines] => {
            let machines = machines.parse().expect("it is a number");
            server::serve(Path::new(kubeconfig), machines);
            return ExitCode::SUCCESS;
        }
        _ => {}
    }
    // `cargo bench` passes `--bench`, `cargo test` does not.
    let arguments = if given.iter().any(|it| it == "--bench") {
        Arguments::parse()
    } else {
        Arguments::parse_from(["load", "--machines", "5", "--idle", "1"])
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    let runs = runtime.expect("a runtime needs nothing").block_on(async {
        let mut runs = Vec::new();
        for machines in &arguments.machines {
            let figures = run::run(&arguments, *machines).await;
            println!(
                "{}",
                serde_json::to_string(&figures).expect("figures are JSON")
            );
            print::table(&figures);
            runs.push(figures);
        }
        runs
    });
    if let Some(file) = &arguments.svg
        && let Err(error) = fs::write(file, curve::svg(&runs))
    {
        eprintln!("{}: {error}", file.display());
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
