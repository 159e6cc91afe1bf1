//! Ages as kubectl prints them.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::read::text;

/// Age of an object; `<unknown>` without a creation time.
pub(crate) fn of(object: &Value, now: Timestamp) -> String {
    since(text(object, "/metadata/creationTimestamp"), now)
}

/// Time since a timestamp.
pub(crate) fn since(time: &str, now: Timestamp) -> String {
    match time.parse::<Timestamp>() {
        Ok(time) => human(now.duration_since(time)),
        Err(_) => "<unknown>".to_owned(),
    }
}

/// A duration in at most two units, as `duration.HumanDuration` of k8s.io/apimachinery.
pub(crate) fn human(duration: SignedDuration) -> String {
    const MINUTE: i64 = 60;
    const HOUR: i64 = 60 * MINUTE;
    const DAY: i64 = 24 * HOUR;
    const YEAR: i64 = 365 * DAY;
    let seconds = duration.as_secs().max(0);
    let two = |unit: i64, word: &str, part: i64, part_word: &str| match (
        seconds / unit,
        seconds % unit / part,
    ) {
        (whole, 0) => format!("{whole}{word}"),
        (whole, rest) => format!("{whole}{word}{rest}{part_word}"),
    };
    match seconds {
        0..120 => format!("{seconds}s"),
        120..600 => two(MINUTE, "m", 1, "s"),
        600..10_800 => format!("{}m", seconds / MINUTE),
        10_800..28_800 => two(HOUR, "h", MINUTE, "m"),
        28_800..172_800 => format!("{}h", seconds / HOUR),
        172_800..691_200 => two(DAY, "d", HOUR, "h"),
        _ if seconds < 2 * YEAR => format!("{}d", seconds / DAY),
        _ if seconds < 8 * YEAR => two(YEAR, "y", DAY, "d"),
        _ => format!("{}y", seconds / YEAR),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_as_those_of_kubectl() {
        for (seconds, expected) in [
            (-5, "0s"),
            (119, "119s"),
            (120, "2m"),
            (125, "2m5s"),
            (600, "10m"),
            (10_799, "179m"),
            (10_800, "3h"),
            (10_860, "3h1m"),
            (28_800, "8h"),
            (172_799, "47h"),
            (172_800, "2d"),
            (176_400, "2d1h"),
            (691_200, "8d"),
            (63_072_000, "2y"),
            (63_158_400, "2y1d"),
            (252_288_000, "8y"),
        ] {
            assert_eq!(
                human(SignedDuration::from_secs(seconds)),
                expected,
                "{seconds}"
            );
        }
    }

    #[test]
    fn an_unknown_time_has_no_age() {
        assert_eq!(since("", Timestamp::UNIX_EPOCH), "<unknown>");
    }
}
