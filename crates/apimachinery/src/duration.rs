//! Durations in the text form of Go's `time.Duration`: `30s`, `1m30s`, `1.5h`.
//!
//! A duration is a number of nanoseconds, as in Go. Fractions are computed in floating point, as Go
//! does, so that the same text is the same duration in both.

const SECOND: u64 = 1_000_000_000;

/// Units in nanoseconds. Both signs for micro are in use.
const UNITS: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("\u{b5}s", 1_000),
    ("\u{3bc}s", 1_000),
    ("ms", 1_000_000),
    ("s", SECOND),
    ("m", 60 * SECOND),
    ("h", 3600 * SECOND),
];

/// Nanoseconds of a text that `time.ParseDuration` accepts.
pub fn parse(text: &str) -> Option<i64> {
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let (whole, after) = split_digits(rest);
        let (fraction, after) = after.strip_prefix('.').map_or(("", after), split_digits);
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let end = after
            .find(|c: char| c == '.' || c.is_ascii_digit())
            .unwrap_or(after.len());
        let (name, after) = after.split_at(end);
        let (_, unit) = UNITS.into_iter().find(|(unit, _)| *unit == name)?;
        let whole: u64 = match whole {
            "" => 0,
            digits => digits.parse().ok()?,
        };
        total = total
            .checked_add(whole.checked_mul(unit)?)?
            .checked_add(fraction_of(fraction, unit))?;
        rest = after;
    }
    let total = i128::from(total);
    i64::try_from(if negative { -total } else { total }).ok()
}

/// As [`parse`], for durations that must not be negative.
pub fn parse_unsigned(text: &str) -> Option<std::time::Duration> {
    let nanoseconds = u64::try_from(parse(text)?).ok()?;
    Some(std::time::Duration::from_nanos(nanoseconds))
}

fn split_digits(text: &str) -> (&str, &str) {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    text.split_at(end)
}

#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "as Go computes it; the result is less than the unit"
)]
fn fraction_of(digits: &str, unit: u64) -> u64 {
    let mut fraction: u64 = 0;
    let mut scale = 1.0;
    for digit in digits.bytes() {
        let more = fraction
            .checked_mul(10)
            .and_then(|tens| tens.checked_add(u64::from(digit.wrapping_sub(b'0'))))
            .filter(|more| *more <= i64::MAX.unsigned_abs());
        let Some(more) = more else {
            break;
        };
        fraction = more;
        scale *= 10.0;
    }
    (fraction as f64 * (unit as f64 / scale)) as u64
}

/// The text that `time.Duration.String` returns.
pub fn format(nanoseconds: i64) -> String {
    let sign = if nanoseconds < 0 { "-" } else { "" };
    let nanoseconds = nanoseconds.unsigned_abs();
    if nanoseconds == 0 {
        return "0s".to_owned();
    }
    if nanoseconds < SECOND {
        let (unit, name) = match nanoseconds {
            ..1_000 => (1, "ns"),
            1_000..1_000_000 => (1_000, "\u{b5}s"),
            _ => (1_000_000, "ms"),
        };
        return format!("{sign}{}{name}", decimal(nanoseconds, unit));
    }
    let seconds = decimal(nanoseconds % (60 * SECOND), SECOND);
    let minutes = nanoseconds / (60 * SECOND);
    match (minutes / 60, minutes % 60) {
        (0, 0) => format!("{sign}{seconds}s"),
        (0, minutes) => format!("{sign}{minutes}m{seconds}s"),
        (hours, minutes) => format!("{sign}{hours}h{minutes}m{seconds}s"),
    }
}

fn decimal(value: u64, unit: u64) -> String {
    let (whole, fraction) = (value / unit, value % unit);
    if fraction == 0 {
        return whole.to_string();
    }
    let width = unit.ilog10() as usize;
    let fraction = format!("{fraction:0width$}");
    format!("{whole}.{}", fraction.trim_end_matches('0'))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("0", 0)]
    #[case("+5s", 5_000_000_000)]
    #[case("-5s", -5_000_000_000)]
    #[case("30s", 30_000_000_000)]
    #[case("1m30s", 90_000_000_000)]
    #[case("1.5h", 5_400_000_000_000)]
    #[case(".5s", 500_000_000)]
    #[case("1.s", 1_000_000_000)]
    #[case("1s500ms", 1_500_000_000)]
    #[case("1h2m3s4ms5us6ns", 3_723_004_005_006)]
    #[case("1\u{b5}s1\u{3bc}s", 2_000)]
    #[case("2562047h47m16.854775807s", i64::MAX)]
    #[case("-9223372036854775808ns", i64::MIN)]
    fn accepts_what_go_accepts(#[case] text: &str, #[case] nanoseconds: i64) {
        assert_eq!(parse(text), Some(nanoseconds));
    }

    #[rstest]
    #[case("")]
    #[case("+")]
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
    fn refuses_everything_else(#[case] text: &str) {
        assert_eq!(parse(text), None);
    }

    #[test]
    fn unsigned_durations_refuse_a_minus() {
        assert_eq!(parse_unsigned("-5s"), None);
        assert_eq!(
            parse_unsigned("1m"),
            Some(std::time::Duration::from_secs(60))
        );
    }

    proptest! {
        #[test]
        fn formatted_durations_parse_to_themselves(nanoseconds: i64) {
            prop_assert_eq!(parse(&format(nanoseconds)), Some(nanoseconds));
        }

        #[test]
        fn no_text_panics(text in ".*") {
            let _ = parse(&text);
        }
    }
}
