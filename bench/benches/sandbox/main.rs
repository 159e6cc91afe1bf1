//! The sandbox's API server under load, in one process on one core:
//! `cargo bench -p bench --bench sandbox`.
//!
//! It holds 20,000 objects and serves 200 watches while one client writes, each write after the
//! answer to the last. What is measured includes the client: the requests are made, sent and their
//! answers read by `kube::Client`, on the same core. `cargo test -p bench --benches` runs it with a
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
    writes: 40_000,
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

    let mut load = None;
    let filled = allocation_counter::measure(|| {
        load = Some(runtime.block_on(Load::start(scale.objects)));
    });
    let load = load.expect("the load was started");
    memory(&load, &runtime, filled.bytes_current, scale.objects);

    println!("\nwrites, one after the other:");
    println!("{:<52} {:>10} {:>12}", "", "a second", "allocations");
    for write in [Write::Replace, Write::Status, Write::Apply] {
        runtime.block_on(load.write(write, scale.writes / 10));
        let mut took = Duration::ZERO;
        let counted = allocation_counter::measure(|| {
            let started = Instant::now();
            runtime.block_on(load.write(write, scale.writes));
            took = started.elapsed();
        });
        println!(
            "{:<52} {:>10.0} {:>12.0}",
            write.name(),
            scale.writes as f64 / took.as_secs_f64(),
            counted.count_total as f64 / scale.writes as f64,
        );
    }

    println!("\nConfigMap updates while {} watches read:", scale.watches);
    println!(
        "{:<52} {:>10} {:>10} {:>10} {:>12}",
        "", "a second", "p50", "p99", "events/s"
    );
    for reach in [Reach::Namespace, Reach::Everything] {
        let writes = match reach {
            Reach::Namespace => scale.writes,
            Reach::Everything => scale.writes / 10,
        };
        let figures = runtime.block_on(Watches::run(&load, reach, scale.watches, writes));
        println!(
            "{:<52} {:>10.0} {:>10.1?} {:>10.1?} {:>12.0}",
            reach.name(),
            figures.writes_per_second,
            figures.median,
            figures.slow,
            figures.events_per_second,
        );
    }
}

/// What the objects cost, and a list of all of them.
fn memory(load: &Load, runtime: &tokio::runtime::Runtime, held: i64, objects: usize) {
    let mut json = 0;
    let listed = allocation_counter::measure(|| {
        json = runtime.block_on(load.list());
    });
    let each = held as f64 / objects as f64;
    let own = json as f64 / objects as f64;
    println!("{objects} ConfigMaps:");
    println!("  heap, with the server and its history   {each:>10.0} bytes an object");
    println!("  of it the object's own JSON             {own:>10.0} bytes");
    println!(
        "  overhead                                {:>10.0} bytes an object",
        each - own
    );
    println!(
        "  a list of all, at its peak              {:>10.1} KiB for {:.1} MiB of JSON",
        listed.bytes_max as f64 / 1024.0,
        json as f64 / 1024.0 / 1024.0,
    );
}
