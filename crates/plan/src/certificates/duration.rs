//! Durations as Go writes them.

use k8s_openapi::jiff::SignedDuration;

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

const SECOND: u64 = 1_000_000_000;

/// What Go's `time.ParseDuration` reads in it.
pub(crate) fn parse(text: &str) -> Option<SignedDuration> {
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(SignedDuration::ZERO);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let whole = digits(&mut rest);
        let fraction = match rest.strip_prefix('.') {
            Some(after) => {
                rest = after;
                digits(&mut rest)
            }
            None => "",
        };
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let name = rest
            .find(|char: char| char == '.' || char.is_ascii_digit())
            .map_or(rest, |end| rest.split_at(end).0);
        rest = rest.strip_prefix(name)?;
        let (_, unit) = UNITS.into_iter().find(|(unit, _)| *unit == name)?;
        let whole: u64 = if whole.is_empty() {
            0
        } else {
            whole.parse().ok()?
        };
        total = total
            .checked_add(whole.checked_mul(unit)?)?
            .checked_add(part(fraction, unit))?;
    }
    let total = i128::from(total);
    let total = i64::try_from(if negative { -total } else { total }).ok()?;
    Some(SignedDuration::from_nanos(total))
}

fn digits<'a>(rest: &mut &'a str) -> &'a str {
    let end = rest
        .find(|char: char| !char.is_ascii_digit())
        .unwrap_or(rest.len());
    let (digits, after) = rest.split_at(end);
    *rest = after;
    digits
}

/// So much of a unit as the digits after the point say. Go reckons with floating point here, and
/// the same text has to be the same duration.
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "as Go reckons; the result is less than the unit"
)]
fn part(digits: &str, unit: u64) -> u64 {
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

/// The text of the annotation `kubevirt.io/duration`, as KubeVirt's own operator writes it: Go's
/// printing of a `metav1.Duration`. It issues a certificate anew whose annotation has another text.
pub(crate) fn format_annotation(duration: SignedDuration) -> String {
    format!("{OPENING}{}{CLOSING}", format(duration))
}

/// The duration in such an annotation; a plain duration is read as well.
pub(crate) fn parse_annotation(text: &str) -> Option<SignedDuration> {
    let inner = text.strip_prefix(OPENING);
    parse(inner.map_or(Some(text), |inner| inner.strip_suffix(CLOSING))?)
}

const OPENING: &str = "&Duration{Duration:";
const CLOSING: &str = ",}";

/// As Go's `time.Duration` writes itself.
pub(crate) fn format(duration: SignedDuration) -> String {
    let sign = if duration.is_negative() { "-" } else { "" };
    let nanos = duration.as_nanos().unsigned_abs();
    let second = u128::from(SECOND);
    if nanos == 0 {
        return "0s".to_owned();
    }
    if nanos < second {
        let (unit, name) = match nanos {
            ..1_000 => (1, "ns"),
            1_000..1_000_000 => (1_000, "\u{b5}s"),
            _ => (1_000_000, "ms"),
        };
        return format!("{sign}{}{name}", decimal(nanos, unit));
    }
    let seconds = decimal(nanos % (60 * second), second);
    let minutes = nanos / (60 * second);
    match (minutes / 60, minutes % 60) {
        (0, 0) => format!("{sign}{seconds}s"),
        (0, minutes) => format!("{sign}{minutes}m{seconds}s"),
        (hours, minutes) => format!("{sign}{hours}h{minutes}m{seconds}s"),
    }
}

fn decimal(value: u128, unit: u128) -> String {
    let (whole, fraction) = (value / unit, value % unit);
    if fraction == 0 {
        return whole.to_string();
    }
    let width = unit.ilog10() as usize;
    let fraction = format!("{fraction:0width$}");
    format!("{whole}.{}", fraction.trim_end_matches('0'))
}
