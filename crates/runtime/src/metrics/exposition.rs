//! The text format 0.0.4.
//!
//! The encoder writes OpenMetrics, where a counter's name in `# TYPE` is without the `_total` of its
//! samples. Read as the older format, which all scrapers and promtool know, its samples would have
//! no type. There the name is the same in both places, and no line marks the end.

use std::collections::BTreeSet;

use prometheus_client::{encoding::text::encode, registry::Registry};

pub(super) fn text(registry: &Registry) -> String {
    let mut encoded = String::new();
    // Writing to a string does not fail, and half an answer is better than none.
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
            _ => text.extend([line, "\n"]),
        }
    }
    text
}
