//! Durations and points in time.

use jiff::{Timestamp, Zoned, tz::{Offset, TimeZone, TimeZoneDatabase}};

use super::{Function, refuse};
use crate::value::{Error, Result, Value};

const SECOND: i64 = 1_000_000_000;
/// First and last second that timestamps have: the years 1 to 9999.
const FIRST: i64 = -62_135_596_800;
const LAST: i64 = 253_402_300_799;

pub(super) fn implementation(name: &str) -> Option<Function> {
    Some(match name {
        "getFullYear" => |_, arguments| part("getFullYear", arguments, |time| time.year().into()),
        "getMonth" => |_, arguments| part("getMonth", arguments, |time| i64::from(time.month()) - 1),
        "getDayOfYear" => |_, arguments| {
            part("getDayOfYear", arguments, |time| i64::from(time.day_of_year()) - 1)
        },
        "getDayOfMonth" => |_, arguments| {
            part("getDayOfMonth", arguments, |time| i64::from(time.day()) - 1)
        },
        "getDate" => |_, arguments| part("getDate", arguments, |time| time.day().into()),
        "getDayOfWeek" => |_, arguments| {
            part("getDayOfWeek", arguments, |time| {
                time.weekday().to_sunday_zero_offset().into()
            })
        },
        "getHours" => |_, arguments| {
            span_or("getHours", arguments, 3600 * SECOND, |time| time.hour().into())
        },
        "getMinutes" => |_, arguments| {
            span_or("getMinutes", arguments, 60 * SECOND, |time| time.minute().into())
        },
        "getSeconds" => |_, arguments| {
            span_or("getSeconds", arguments, SECOND, |time| time.second().into())
        },
        "getMilliseconds" => |_, arguments| {
            span_or("getMilliseconds", arguments, SECOND / 1000, |time| {
                time.millisecond().into()
            })
        },
        _ => return None,
    })
}

fn span_or<'a>(
    function: &str,
    arguments: &[Value<'a>],
    unit: i64,
    read: fn(&Zoned) -> i64,
) -> Result<Value<'a>> {
    match arguments {
        [Value::Duration(span)] => Ok(Value::Int(span / unit)),
        _ => part(function, arguments, read),
    }
}

/// A part of a point in time, in UTC or the given time zone.
fn part<'a>(
    function: &str,
    arguments: &[Value<'a>],
    read: fn(&Zoned) -> i64,
) -> Result<Value<'a>> {
    let (time, zone) = match arguments {
        [Value::Timestamp(time)] => (time, TimeZone::UTC),
        [Value::Timestamp(time), Value::String(name)] => (time, zone(name)?),
        _ => return refuse(function, arguments),
    };
    Ok(Value::Int(read(&time.to_zoned(zone))))
}

/// A time zone by its name, or by its offset in hours and minutes.
fn zone(name: &str) -> Result<TimeZone> {
    let Some((hours, minutes)) = name.split_once(':') else {
        return match name {
            "" | "UTC" => Ok(TimeZone::UTC),
            _ => TimeZoneDatabase::bundled()
                .get(name)
                .map_err(|_| Error::new(format!("unknown time zone {name}"))),
        };
    };
    let number = |text: &str| {
        text.parse::<i32>().map_err(|_| {
            let text = apimachinery::go::quote(text);
            Error::new(format!("strconv.Atoi: parsing {text}: invalid syntax"))
        })
    };
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    let sign = if name.starts_with('-') { -1 } else { 1 };
    let minutes = hours
        .checked_mul(60)
        .and_then(|all| all.checked_add(sign * minutes));
    minutes
        .and_then(|minutes| minutes.checked_mul(60))
        .and_then(|seconds| Offset::from_seconds(seconds).ok())
        .map(TimeZone::fixed)
        .ok_or_else(|| Error::new(format!("time zone {name} is out of range")))
}

pub(crate) fn is_in_range(time: &Timestamp) -> bool {
    (FIRST..=LAST).contains(&seconds(*time))
}

/// Whole seconds since 1970, rounded down.
pub(crate) fn seconds(time: Timestamp) -> i64 {
    time.as_nanosecond()
        .div_euclid(SECOND.into())
        .try_into()
        .unwrap_or(i64::MAX)
}

/// A point in time as RFC 3339 has it.
pub(crate) fn parse_timestamp(text: &str) -> Option<Timestamp> {
    let bytes = text.as_bytes();
    let is_separated = bytes.get(10) == Some(&b'T')
        && bytes.get(4) == Some(&b'-')
        && bytes.get(13) == Some(&b':')
        && bytes.get(16) == Some(&b':');
    let has_zone = text.ends_with('Z')
        || bytes.len().checked_sub(6).is_some_and(|at| matches!(bytes.get(at), Some(b'+' | b'-')));
    // Other parsers round leap seconds; the server refuses them.
    let is_leap = text.get(17..19) == Some("60");
    if !is_separated || !has_zone || is_leap || text.contains(',') {
        return None;
    }
    text.parse().ok()
}

/// A point in time as formats of schemas allow it: also in lower case or with a space.
pub(crate) fn parse_data_timestamp(text: &str) -> Option<Timestamp> {
    let mut upper = text.to_ascii_uppercase();
    if upper.as_bytes().get(10) == Some(&b' ') {
        upper.replace_range(10..11, "T");
    }
    parse_timestamp(&upper)
}

/// A duration as formats of schemas allow it: as Go has it, or with words (`2 weeks`).
pub(crate) fn parse_data_duration(text: &str) -> Option<i64> {
    if let Some(span) = apimachinery::duration::parse(text) {
        return Some(span);
    }
    const UNITS: [(&[&str], i64); 8] = [
        (&["ns", "nano"], 1),
        (&["us", "\u{b5}s", "micro"], 1_000),
        (&["ms", "milli"], 1_000_000),
        (&["s", "sec"], SECOND),
        (&["m", "min"], 60 * SECOND),
        (&["h", "hr", "hour"], 3600 * SECOND),
        (&["d", "day"], 86_400 * SECOND),
        (&["w", "wk", "week"], 604_800 * SECOND),
    ];
    let mut total: i64 = 0;
    let mut rest = text.trim();
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, after) = rest.split_at(digits);
        let after = after.trim_start();
        let length = after
            .find(|letter: char| letter.is_ascii_digit() || letter.is_whitespace())
            .unwrap_or(after.len());
        let (unit, after) = after.split_at(length);
        let unit = unit.to_lowercase();
        let singular = unit.strip_suffix('s').filter(|unit| unit.len() > 2);
        let unit = singular.unwrap_or(&unit);
        let (_, size) = UNITS
            .iter()
            .find(|(names, _)| names.iter().any(|name| unit == *name || unit.starts_with(name) && name.len() > 2))?;
        total = total.checked_add(number.parse::<i64>().ok()?.checked_mul(*size)?)?;
        rest = after.trim_start();
    }
    Some(total)
}

/// Seconds, with as many digits as needed: `5400s`.
#[expect(clippy::cast_precision_loss, reason = "as the server prints it")]
pub(crate) fn print_duration(span: i64) -> String {
    let whole = (span / SECOND) as f64;
    let fraction = (span % SECOND) as f64;
    format!("{}s", whole + fraction / 1e9)
}

/// RFC 3339 with as many digits as needed.
pub(crate) fn print_timestamp(time: Timestamp) -> String {
    time.to_string()
}

/// The fields of a message of time, as a value.
pub(crate) fn of_message(name: &str, seconds: i64, nanos: i64) -> Result<Value<'static>> {
    let total = i128::from(seconds) * i128::from(SECOND) + i128::from(nanos);
    if name == "google.protobuf.Duration" {
        return i64::try_from(total)
            .map(Value::Duration)
            .map_err(|_| Error::new("duration overflow"));
    }
    Timestamp::from_nanosecond(total)
        .ok()
        .filter(is_in_range)
        .map(Value::Timestamp)
        .ok_or_else(|| Error::new("timestamp overflow"))
}

