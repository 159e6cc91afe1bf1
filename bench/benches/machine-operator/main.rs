//! Requests, memory and latency of the Machine operator: `cargo bench -p bench --bench
//! machine-operator`, or one part of it: `-- one`, `-- delay` or `-- fleet`.
//!
//! Requests are counted in the operator's client, against a sandbox in the same process. Memory is
//! that of a process that runs only the operator, against a sandbox in this process over TLS: this
//! program starts itself as `kubevirt-operator run`. `cargo test -p bench --benches` runs everything
//! with few Machines as a smoke test.
#![allow(
    clippy::expect_used,
    clippy::cast_precision_loss,
    reason = "figures for people, and a benchmark without its cluster has nothing to measure"
)]

mod cluster;
mod copies;
mod delay;
mod fleet;
mod one;
mod operator;
#[path = "../common/process.rs"]
mod process;
#[path = "../common/simulated.rs"]
mod simulated;

use std::process::ExitCode;

/// Size of the benchmark.
#[derive(Clone, Copy)]
struct Scale {
    /// Machines of the fleet.
    fleet: usize,
    /// Machines that are created one at a time.
    delays: usize,
    /// Resyncs of the whole fleet that are measured.
    resyncs: u32,
}

const FULL: Scale = Scale {
    fleet: 10_000,
    delays: 200,
    resyncs: 10,
};

const QUICK: Scale = Scale {
    fleet: 50,
    delays: 10,
    resyncs: 1,
};

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some("run") {
        return kubevirt_operator::main();
    }
    // `cargo bench` passes this, `cargo test` does not.
    let scale = if std::env::args().any(|argument| argument == "--bench") {
        FULL
    } else {
        QUICK
    };
    let selected: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with('-'))
        .collect();
    let is_selected = |part: &str| selected.is_empty() || selected.iter().any(|it| it == part);
    if is_selected("one") {
        one::run();
    }
    if is_selected("delay") {
        delay::run(scale.delays);
    }
    if is_selected("fleet") {
        fleet::run(scale.fleet, scale.resyncs);
    }
    ExitCode::SUCCESS
}
