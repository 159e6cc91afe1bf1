//! Durations as Go writes them: `30s`, `1m30s`, `1.5h`.

use std::time::Duration;

/// Go's durations end here: 2^63 - 1 nanoseconds, 292 years.
const LONGEST: u128 = i64::MAX as u128;

/// Units and their nanoseconds. Both signs for micro are in use.
const UNITS: [(&str, u128); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// The duration that `text` gives; none when Go would not read it either, or when it is negative.
pub(super) fn parse(text: &str) -> Option<Duration> {
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    if rest == "0" {
        return Some(Duration::ZERO);
    }
    if rest.is_empty() {
        return None;
    }
    let mut sum = 0_u128;
    while !rest.is_empty() {
        let (whole, after) = digits(rest);
        let (fraction, after) = after.strip_prefix('.').map_or(("", after), digits);
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let unit_length = after
            .find(|c: char| c == '.' || c.is_ascii_digit())
            .unwrap_or(after.len());
        let (unit, after) = after.split_at(unit_length);
        let (_, nanoseconds) = UNITS.iter().find(|(name, _)| *name == unit)?;
        sum = sum.checked_add(scaled(whole, fraction, *nanoseconds)?)?;
        if sum > LONGEST {
            return None;
        }
        rest = after;
    }
    u64::try_from(sum).ok().map(Duration::from_nanos)
}

/// The digits that `text` begins with, and what follows.
fn digits(text: &str) -> (&str, &str) {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    text.split_at(end)
}

/// `whole.fraction` of a unit, in whole nanoseconds.
fn scaled(whole: &str, fraction: &str, unit: u128) -> Option<u128> {
    let number = |digits: &str| match digits {
        "" => Some(0),
        digits => digits.parse::<u128>().ok(),
    };
    let whole = number(whole)?.checked_mul(unit)?;
    // More digits than this are less than a nanosecond of any unit.
    let fraction = fraction.get(..18).unwrap_or(fraction);
    let scale = 10_u128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    whole.checked_add(number(fraction)?.checked_mul(unit)? / scale)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("0", 0)]
    #[case("+5s", 5_000_000_000)]
    #[case("30s", 30_000_000_000)]
    #[case("1m30s", 90_000_000_000)]
    #[case("1.5h", 5_400_000_000_000)]
    #[case(".5s", 500_000_000)]
    #[case("1.s", 1_000_000_000)]
    #[case("1s500ms", 1_500_000_000)]
    #[case("1h2m3s4ms5us6ns", 3_723_004_005_006)]
    #[case("1µs1μs", 2_000)]
    #[case("0.9999999999999999999999s", 999_999_999)]
    #[case("2562047h47m16.854775807s", 9_223_372_036_854_775_807)]
    fn what_go_reads_is_read(#[case] text: &str, #[case] nanoseconds: u64) {
        assert_eq!(parse(text), Some(Duration::from_nanos(nanoseconds)));
    }

    #[rstest]
    #[case("")]
    #[case("+")]
    #[case("-5s")]
    #[case("30")]
    #[case("s")]
    #[case(".s")]
    #[case("1d")]
    #[case("30 s")]
    #[case(" 30s")]
    #[case("30S")]
    #[case("1e3s")]
    #[case("1s-1s")]
    #[case("1.2.3s")]
    #[case("٣s")]
    #[case("9223372036854775808ns")]
    #[case("2562048h")]
    #[case("999999999999999999999999999999999999999999h")]
    fn nothing_else_is(#[case] text: &str) {
        assert_eq!(parse(text), None);
    }
}
