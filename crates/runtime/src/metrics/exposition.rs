//! Prometheus text format 0.0.4.
//!
//! `prometheus_client` encodes OpenMetrics, where `# TYPE` names a counter without the `_total` of its
//! samples and `# EOF` ends the text. Parsers of the older format, which every scraper and promtool
//! have, would then find no type for the samples.

use std::collections::BTreeSet;

use prometheus_client::{encoding::text::encode, registry::Registry};

/// Content type of the text that [`expose`] returns.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// All series of `registry` in the text format.
pub fn expose(registry: &Registry) -> String {
    let mut encoded = String::new();
    // Writing to a String does not fail.
    let _ = encode(&mut encoded, registry);
    let counters: BTreeSet<&str> = encoded
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.strip_suffix(" counter"))
        .collect();
    let mut text = String::with_capacity(encoded.len());
    for line in encoded.lines() {
        let described = ["# HELP ", "# TYPE "]
            .into_iter()
            .find_map(|keyword| Some((keyword, line.strip_prefix(keyword)?.split_once(' ')?)));
        match described {
            Some((keyword, (name, rest))) if counters.contains(name) => {
                text.extend([keyword, name, "_total ", rest, "\n"]);
            }
            _ if line == "# EOF" => {}
            // A family without labels.
            _ => match line.split_once("{} ") {
                Some((name, value)) if !name.contains(['{', ' ']) => {
                    text.extend([name, " ", value, "\n"]);
                }
                _ => text.extend([line, "\n"]),
            },
        }
    }
    text
}
