//! Table of a run.

use crate::run::{Figures, Phase, Requests};

pub fn table(figures: &Figures) {
    let Figures {
        machines,
        server,
        operator,
        raw_writes_per_second,
        share_of_raw_rate,
        created_to_vm,
        created_to_running,
        ready_after_ms,
        ready_after_restart_ms,
        requests_of_start,
        requests_of_restart,
        idle_requests_per_minute,
        empty_mib,
        steady_mib,
        peak_mib,
        phases,
    } = figures;
    println!("\n{machines} Machines, {server}, {operator}");
    row(
        "raw writes of the server, per second",
        &format!("{raw_writes_per_second:.0}"),
    );
    row(
        "share of it by the operator until all VMs exist",
        &format!("{:.0} %", share_of_raw_rate * 100.0),
    );
    for (name, latency) in [
        ("VirtualMachine", created_to_vm),
        ("Running", created_to_running),
    ] {
        row(
            &format!("created to {name}, p50 and p99"),
            &format!("{} ms, {} ms", latency.p50_ms, latency.p99_ms),
        );
    }
    row(
        "ready after the first start",
        &format!("{ready_after_ms} ms, {} requests", sum(requests_of_start)),
    );
    row(
        "ready after a restart",
        &format!(
            "{ready_after_restart_ms} ms, {} requests",
            sum(requests_of_restart)
        ),
    );
    row(
        "requests per minute without changes",
        &format!("{idle_requests_per_minute:.1}"),
    );
    row(
        "memory: empty, steady, peak",
        &format!("{empty_mib:.1}, {steady_mib:.1}, {peak_mib:.1} MiB"),
    );
    for phase in phases {
        print(phase, *machines);
    }
}

fn print(phase: &Phase, machines: usize) {
    println!(
        "  {}: {:.2} s, quiet after {:.2} s; per Machine {:.2} requests, {:.2} ms of CPU",
        phase.name,
        phase.seconds,
        phase.quiet_after_seconds,
        phase.requests_per_machine,
        phase.cpu_ms_per_machine,
    );
    for (request, count) in &phase.requests {
        let per_machine = *count as f64 / machines as f64;
        println!("    {request:<44} {per_machine:>8.2}");
    }
}

fn row(label: &str, value: &str) {
    println!("  {label:<50} {value}");
}

fn sum(requests: &Requests) -> u64 {
    requests.values().sum()
}
