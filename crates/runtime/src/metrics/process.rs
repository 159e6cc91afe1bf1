//! Process metrics from `/proc`, under the names that all Prometheus clients use.

use std::fs;

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric as _},
    metrics::gauge::ConstGauge,
};

/// Clock ticks per second in `/proc`: 100 on every architecture we build for.
const TICKS: f64 = 100.0;

/// Collector that reads `/proc` at each scrape. Without it, there are no series.
#[derive(Debug)]
pub struct ProcessCollector;

impl Collector for ProcessCollector {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), std::fmt::Error> {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        let started = start_time(&read("/proc/self/stat"), &read("/proc/stat"));
        let resident = resident_memory(&read("/proc/self/status"));
        let gauges = [
            (
                "process_start_time_seconds",
                "Start of the process, in seconds since 1970.",
                started,
            ),
            (
                "process_resident_memory_bytes",
                "Memory of the process that is not swapped out.",
                resident,
            ),
        ];
        for (name, help, value) in gauges {
            if let Some(value) = value {
                let gauge = ConstGauge::new(value);
                gauge.encode(encoder.encode_descriptor(
                    name,
                    help,
                    None,
                    gauge.metric_type(),
                )?)?;
            }
        }
        Ok(())
    }
}

/// Start of the process in Unix seconds, from `/proc/self/stat` and `/proc/stat`.
fn start_time(process: &str, system: &str) -> Option<f64> {
    // The second field is the program's name in parentheses, which may contain any character.
    let (_, fields) = process.rsplit_once(')')?;
    let ticks: f64 = fields.split_whitespace().nth(19)?.parse().ok()?;
    let boot = system
        .lines()
        .find_map(|line| line.strip_prefix("btime "))?;
    Some(boot.trim().parse::<f64>().ok()? + ticks / TICKS)
}

fn resident_memory(status: &str) -> Option<f64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024.0)
}

#[cfg(test)]
mod tests {
    use prometheus_client::registry::Registry;

    use super::*;
    use crate::metrics::expose;

    #[cfg(target_os = "linux")]
    #[test]
    fn exposes_memory_and_start_time() {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(ProcessCollector));
        let text = expose(&registry);
        for name in [
            "process_start_time_seconds",
            "process_resident_memory_bytes",
        ] {
            let value: f64 = text
                .lines()
                .find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
                .unwrap_or_default();
            assert!(value > 0.0, "{name} in {text}");
        }
    }

    #[test]
    fn the_start_time_is_read_whatever_the_program_is_named() {
        let process = "42 (a) b (c) S 1 42 42 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 8 0 12345 99 77";
        let system = "cpu  1 2 3\nbtime 1700000000\nprocesses 5\n";
        assert_eq!(start_time(process, system), Some(1_700_000_123.45));
        assert_eq!(start_time("", system), None);
        assert_eq!(start_time(process, ""), None);
    }

    #[test]
    fn memory_is_in_bytes() {
        let status = "Name:\tx\nVmHWM:\t  900 kB\nVmRSS:\t  512 kB\n";
        assert_eq!(resident_memory(status), Some(524_288.0));
        assert_eq!(resident_memory("Name:\tx\n"), None);
    }
}
