//! Times of `managedFields` entries: parsing, and the format of the server.

/// Seconds since 1970 of an RFC 3339 time, or `None` if it is not one.
pub(crate) fn seconds(text: &str) -> Option<i64> {
    let (date, rest) = text.split_once(['T', 't'])?;
    let mut date = date.splitn(3, '-');
    let year: i64 = digits(date.next()?, 4)?;
    let month: i64 = digits(date.next()?, 2)?;
    let day: i64 = digits(date.next()?, 2)?;
    let (clock, offset) = split_offset(rest)?;
    let clock = clock.split_once('.').map_or(clock, |(whole, _)| whole);
    let mut clock = clock.splitn(3, ':');
    let hour: i64 = digits(clock.next()?, 2)?;
    let minute: i64 = digits(clock.next()?, 2)?;
    let second: i64 = digits(clock.next()?, 2)?;
    if !(1..=12).contains(&month)
        || !(1..=31).contains(&day)
        || hour > 23
        || minute > 59
        || second > 60
    {
        return None;
    }
    Some(days_since_epoch(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second - offset)
}

/// The time in the server's format: UTC, whole seconds.
pub(crate) fn canonical(text: &str) -> Option<String> {
    let seconds = seconds(text)?;
    if is_canonical(text) {
        return Some(text.to_owned());
    }
    let (year, month, day) = date(seconds.div_euclid(86_400));
    let clock = seconds.rem_euclid(86_400);
    let (hour, minute, second) = (clock / 3600, clock / 60 % 60, clock % 60);
    Some(format!(
        "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z"
    ))
}

/// Whether a time is already in the server's format. Days after the 28th are
/// parsed: not all months have them.
fn is_canonical(text: &str) -> bool {
    text.len() == "2026-01-01T00:00:00Z".len()
        && text.ends_with('Z')
        && text
            .get(8..11)
            .is_some_and(|day| day < "29T" && day.ends_with('T'))
        && text.get(17..19).is_some_and(|second| second < "60")
}

fn digits(text: &str, count: usize) -> Option<i64> {
    let all = text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
    all.then(|| text.parse().ok()).flatten()
}

fn split_offset(clock: &str) -> Option<(&str, i64)> {
    if let Some(clock) = clock.strip_suffix(['Z', 'z']) {
        return Some((clock, 0));
    }
    let at = clock.rfind(['+', '-'])?;
    let (clock, offset) = clock.split_at_checked(at)?;
    let sign = if offset.starts_with('-') { -1 } else { 1 };
    let (hours, minutes) = offset.get(1..)?.split_once(':')?;
    Some((
        clock,
        sign * (digits(hours, 2)? * 3600 + digits(minutes, 2)? * 60),
    ))
}

/// Counts in eras of 400 years that begin in March, so that a leap day is the last day of a year.
fn days_since_epoch(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

fn date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 {
        shifted + 3
    } else {
        shifted - 9
    };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_written_in_utc() {
        assert_eq!(seconds("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(seconds("2024-02-29T12:30:15Z"), Some(1_709_209_815));
        assert_eq!(
            canonical("2024-03-01T01:30:15.75+02:00").as_deref(),
            Some("2024-02-29T23:30:15Z")
        );
        assert_eq!(
            canonical("1969-12-31T23:59:59Z").as_deref(),
            Some("1969-12-31T23:59:59Z")
        );
    }

    #[test]
    fn what_is_no_time_is_none() {
        for text in [
            "",
            "yesterday",
            "2024-13-01T00:00:00Z",
            "2024-01-01",
            "2024-01-01T00:00:00",
            "2024-1-1T0:0:0Z",
            "é-T+",
        ] {
            assert_eq!(canonical(text), None, "{text}");
        }
    }
}
