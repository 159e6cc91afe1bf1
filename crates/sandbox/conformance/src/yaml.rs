//! YAML options of cases and recordings.

use serde::Serialize;

/// Cases share fixtures by anchors, so there are many aliases with large expansions.
pub(crate) fn reading() -> serde_saphyr::Options {
    serde_saphyr::options! {
        // `y` is a letter here.
        strict_booleans: true,
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: 10_000_000,
            max_alias_expansions_per_anchor: 10_000,
        },
        budget: serde_saphyr::budget! {
            max_events: 10_000_000,
            max_nodes: 10_000_000,
            max_total_scalar_bytes: 100_000_000,
            max_aliases: 10_000,
            enforce_alias_anchor_ratio: false,
        },
    }
}

/// One line per value, so that a changed response changes one line.
pub(crate) fn to_string(value: &impl Serialize) -> Result<String, serde_saphyr::ser::Error> {
    let options = serde_saphyr::ser_options! {
        prefer_block_scalars: false,
        folded_wrap_chars: usize::MAX,
        min_fold_chars: usize::MAX,
    };
    serde_saphyr::to_string_with_options(value, options)
}
