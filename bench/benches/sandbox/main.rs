//! Throughput of the sandbox's API server in one process on one core:
//! `cargo bench -p bench --bench sandbox`.
//!
//! It has 20,000 objects and serves 200 watches while one client writes sequentially. The figures
//! include the client: `kube::Client` sends requests and reads answers as text on the same core.
//! `cargo test -p bench --benches` runs a hundredth of the load as a smoke test.
#![allow(
    clippy::expect_used,
    clippy::cast_precision_loss,
    reason = "figures for people, and a benchmark without its server has nothing to measure"
)]

mod load;
mod watches;

use std::time::{Duration, Instant};

use load::{Load, Write};
use watches::{Reach, Watches};

/// Size of the benchmark.
#[derive(Clone, Copy)]
struct Scale {
    objects: usize,
    watches: usize,
    writes: usize,
}

const FULL: Scale = Scale {
    objects: 20_000,
    watches: 200,
    writes: 100_000,
};

const QUICK: Scale = Scale {
    objects: 200,
    watches: 20,
    writes: 100,
};

fn main() {
    // `cargo bench` passes this, `cargo test` does not.
    let scale = if std::env::args().any(|argument| argument == "--bench") {
        FULL
    } else {
        QUICK
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime needs nothing");

    let load = runtime.block_on(Load::start(scale.objects));
    println!("{} objects; writes, one after the other:", scale.objects);
    println!("{:<52} {:>10} {:>16}", "", "a second", "a second of CPU");
    for write in Write::ALL {
        runtime.block_on(load.write(write, scale.writes / 10));
        let (start, cpu_start) = (Instant::now(), cpu_time());
        runtime.block_on(load.write(write, scale.writes));
        let (elapsed, cpu) = (start.elapsed(), cpu_time().saturating_sub(cpu_start));
        println!(
            "{:<52} {:>10.0} {:>16.0}",
            write.name(),
            scale.writes as f64 / elapsed.as_secs_f64(),
            scale.writes as f64 / cpu.as_secs_f64(),
        );
    }

    println!("\nConfigMap updates while {} watches read:", scale.watches);
    println!(
        "{:<52} {:>10} {:>16} {:>10} {:>10} {:>12}",
        "", "a second", "a second of CPU", "p50", "p99", "events/s"
    );
    for reach in [Reach::Namespace, Reach::Everything] {
        let writes = match reach {
            Reach::Namespace => scale.writes / 2,
            Reach::Everything => scale.writes / 20,
        };
        let cpu_start = cpu_time();
        let figures = runtime.block_on(Watches::run(&load, reach, scale.watches, writes));
        println!(
            "{:<52} {:>10.0} {:>16.0} {:>10.1?} {:>10.1?} {:>12.0}",
            reach.name(),
            figures.writes_per_second,
            writes as f64 / cpu_time().saturating_sub(cpu_start).as_secs_f64(),
            figures.median,
            figures.slow,
            figures.events_per_second,
        );
    }
}

/// CPU time of this process, which other processes do not distort. Zero except on Linux.
fn cpu_time() -> Duration {
    let spent = std::fs::read_to_string("/proc/self/schedstat").ok();
    let nanoseconds = spent.as_deref().and_then(|spent| {
        let first = spent.split_ascii_whitespace().next()?;
        first.parse().ok()
    });
    Duration::from_nanos(nanoseconds.unwrap_or_default())
}
