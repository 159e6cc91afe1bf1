//! The sandbox's API server under load, in one process on one core:
//! `cargo bench -p bench --bench sandbox`.
//!
//! It holds 20,000 objects and serves 200 watches while one client writes, each write after the
//! answer to the last. What is measured includes the client: the requests are made, sent and their
//! answers read, as text, through `kube::Client` on the same core. `cargo test -p bench --benches` runs it with a
//! hundredth of the load, to see that it runs.
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

/// How much is done.
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
        let (started, busy) = (Instant::now(), busy());
        runtime.block_on(load.write(write, scale.writes));
        let (took, worked) = (started.elapsed(), self::busy().saturating_sub(busy));
        println!(
            "{:<52} {:>10.0} {:>16.0}",
            write.name(),
            scale.writes as f64 / took.as_secs_f64(),
            scale.writes as f64 / worked.as_secs_f64(),
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
        let busy = busy();
        let figures = runtime.block_on(Watches::run(&load, reach, scale.watches, writes));
        println!(
            "{:<52} {:>10.0} {:>16.0} {:>10.1?} {:>10.1?} {:>12.0}",
            reach.name(),
            figures.writes_per_second,
            writes as f64 / self::busy().saturating_sub(busy).as_secs_f64(),
            figures.median,
            figures.slow,
            figures.events_per_second,
        );
    }
}

/// How long this process has had a core: what counts where others share the machine. Only Linux
/// tells; elsewhere the figure is infinite.
fn busy() -> Duration {
    let spent = std::fs::read_to_string("/proc/self/schedstat").ok();
    let nanoseconds = spent.as_deref().and_then(|spent| {
        let first = spent.split_ascii_whitespace().next()?;
        first.parse().ok()
    });
    Duration::from_nanos(nanoseconds.unwrap_or_default())
}
