//! What Machines cost the operator, and what the operator costs the cluster:
//! `cargo bench -p bench --bench machine-operator`, or one part of it: `-- one`, `-- delay` or
//! `-- fleet`.
//!
//! Requests are counted at the operator's client, on a sandbox in the same process. Memory is that
//! of a process which runs the operator and nothing else, against a sandbox in this one, over TLS:
//! this program starts itself again as `kubevirt-operator run`. `cargo test -p bench --benches` does
//! all of it with few Machines, to see that it runs.
#![allow(
    clippy::expect_used,
    clippy::cast_precision_loss,
    reason = "figures for people, and a benchmark without its cluster has nothing to measure"
)]

mod copies;
mod delay;
mod fleet;
mod ground;
mod one;
mod process;

use std::process::ExitCode;

/// How much is done.
#[derive(Clone, Copy)]
struct Scale {
    /// Machines of the fleet.
    fleet: usize,
    /// Machines that are created one at a time.
    delays: usize,
    /// How many times the whole fleet is looked at while its cost is measured.
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
    let asked: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with('-'))
        .collect();
    let is_asked = |part: &str| asked.is_empty() || asked.iter().any(|asked| asked == part);
    if is_asked("one") {
        one::run();
    }
    if is_asked("delay") {
        delay::run(scale.delays);
    }
    if is_asked("fleet") {
        fleet::run(scale.fleet, scale.resyncs);
    }
    ExitCode::SUCCESS
}
