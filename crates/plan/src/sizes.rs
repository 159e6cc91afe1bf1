//! Human-readable sizes for messages.

use crate::Quantity;

const NANOS: i128 = 1_000_000_000;
const UNITS: [(&str, u32); 6] = [
    ("Ei", 60),
    ("Pi", 50),
    ("Ti", 40),
    ("Gi", 30),
    ("Mi", 20),
    ("Ki", 10),
];

/// The canonical form if it has a unit, else the largest binary unit with at most one decimal: `42.4Gi`
/// for 45526653338. Rounded, so never a value to copy into a spec.
pub(crate) fn printed(size: Quantity) -> String {
    let canonical = size.to_string();
    let bytes = size.nanos() / NANOS;
    let unit = UNITS.into_iter().find(|(_, bits)| bytes >> bits > 0);
    let Some((unit, bits)) =
        unit.filter(|_| canonical.ends_with(|last: char| last.is_ascii_digit()))
    else {
        return canonical;
    };
    let tenths = bytes
        .saturating_mul(10)
        .saturating_add(1_i128 << (bits - 1))
        >> bits;
    match (tenths / 10, tenths % 10) {
        (whole, 0) => format!("{whole}{unit}"),
        (whole, tenth) => format!("{whole}.{tenth}{unit}"),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("45526653338", "42.4Gi")]
    #[case("80Gi", "80Gi")]
    #[case("1536Mi", "1536Mi")]
    #[case("20G", "20G")]
    #[case("1073741825", "1Gi")]
    #[case("512", "512")]
    #[case("0", "0")]
    #[case("9223372036854775807", "8Ei")]
    fn sizes(#[case] size: &str, #[case] expected: &str) {
        assert_eq!(printed(size.parse().unwrap()), expected);
    }
}
