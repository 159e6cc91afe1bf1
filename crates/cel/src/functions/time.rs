//! Durations and points in time.

use jiff::{
    SignedDuration, Timestamp,
    civil::{DateTime, date},
    tz::{Offset, TimeZone, TimeZoneDatabase},
};

use super::{Function, refuse};
use crate::value::{Error, Result, Value};

/// A point in time: nanoseconds since 1970. Its range is wider than that of other types.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[doc(hidden)]
pub struct Time(i128);

impl Time {
    /// `None` outside of the years 1 to 9999.
    pub(crate) fn from_nanoseconds(nanoseconds: i128) -> Option<Self> {
        let time = Self(nanoseconds);
        (FIRST..=LAST).contains(&time.seconds()).then_some(time)
    }

    pub(crate) fn from_seconds(seconds: i64) -> Option<Self> {
        Self::from_nanoseconds(i128::from(seconds) * i128::from(SECOND))
    }

    pub(crate) fn nanoseconds(self) -> i128 {
        self.0
    }

    /// Whole seconds, rounded down.
    pub(crate) fn seconds(self) -> i64 {
        let seconds = self.0.div_euclid(SECOND.into());
        seconds.try_into().unwrap_or(i64::MAX)
    }

    /// Date and time of day with an offset.
    fn civil(self, offset: Offset) -> DateTime {
        let seconds = self.seconds() + i64::from(offset.seconds());
        let rest = self.0.rem_euclid(SECOND.into());
        let span = SignedDuration::new(seconds, i32::try_from(rest).unwrap_or(0));
        epoch().saturating_add(span)
    }

    /// The offset of a zone at this point in time.
    fn offset(self, zone: &TimeZone) -> Offset {
        let nearest = Timestamp::from_nanosecond(self.0).unwrap_or(match self.0 {
            ..0 => Timestamp::MIN,
            _ => Timestamp::MAX,
        });
        zone.to_offset(nearest)
    }
}

fn epoch() -> DateTime {
    date(1970, 1, 1).at(0, 0, 0, 0)
}

const SECOND: i64 = 1_000_000_000;
/// First and last second that timestamps have: the years 1 to 9999.
const FIRST: i64 = -62_135_596_800;
const LAST: i64 = 253_402_300_799;

pub(super) fn implementation(name: &str) -> Option<Function> {
    Some(match name {
        "getFullYear" => |_, arguments| part("getFullYear", arguments, |time| time.year().into()),
        "getMonth" => {
            |_, arguments| part("getMonth", arguments, |time| i64::from(time.month()) - 1)
        }
        "getDayOfYear" => |_, arguments| {
            part("getDayOfYear", arguments, |time| {
                i64::from(time.day_of_year()) - 1
            })
        },
        "getDayOfMonth" => {
            |_, arguments| part("getDayOfMonth", arguments, |time| i64::from(time.day()) - 1)
        }
        "getDate" => |_, arguments| part("getDate", arguments, |time| time.day().into()),
        "getDayOfWeek" => |_, arguments| {
            part("getDayOfWeek", arguments, |time| {
                time.weekday().to_sunday_zero_offset().into()
            })
        },
        "getHours" => |_, arguments| {
            span_or("getHours", arguments, 3600 * SECOND, |time| {
                time.hour().into()
            })
        },
        "getMinutes" => |_, arguments| {
            span_or("getMinutes", arguments, 60 * SECOND, |time| {
                time.minute().into()
            })
        },
        "getSeconds" => {
            |_, arguments| span_or("getSeconds", arguments, SECOND, |time| time.second().into())
        }
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
    read: fn(&DateTime) -> i64,
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
    read: fn(&DateTime) -> i64,
) -> Result<Value<'a>> {
    let (time, zone) = match arguments {
        [Value::Timestamp(time)] => (time, TimeZone::UTC),
        [Value::Timestamp(time), Value::String(name)] => (time, zone(name)?),
        _ => return refuse(function, arguments),
    };
    Ok(Value::Int(read(&time.civil(time.offset(&zone)))))
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

/// A point in time as RFC 3339 has it; the inner `None` says that it is out of range.
pub(crate) fn parse_timestamp(text: &str) -> Option<Option<Time>> {
    let bytes = text.as_bytes();
    let separators = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')];
    if !separators
        .iter()
        .all(|(at, separator)| bytes.get(*at) == Some(separator))
    {
        return None;
    }
    let (local, offset) = match text.strip_suffix('Z') {
        Some(local) => (local, 0),
        None => {
            let at = text.len().checked_sub(6)?;
            let (local, zone) = (text.get(..at)?, text.get(at..)?);
            let sign = match zone.as_bytes().first()? {
                b'+' => 1,
                b'-' => -1,
                _ => return None,
            };
            let (hours, minutes) = zone.get(1..)?.split_once(':')?;
            let (hours, minutes): (i64, i64) = (hours.parse().ok()?, minutes.parse().ok()?);
            if !(0..24).contains(&hours) || !(0..60).contains(&minutes) {
                return None;
            }
            (local, sign * (hours * 3600 + minutes * 60))
        }
    };
    // Others round leap seconds and allow commas; the server does not.
    if local.get(17..19) == Some("60") || local.contains(',') {
        return None;
    }
    let civil: DateTime = local.parse().ok()?;
    let nanoseconds = civil.duration_since(epoch()).as_nanos();
    let shifted = nanoseconds - i128::from(offset) * i128::from(SECOND);
    Some(Time::from_nanoseconds(shifted))
}

/// A point in time as formats of schemas allow it: also in lower case or with a space.
pub(crate) fn parse_data_timestamp(text: &str) -> Option<Time> {
    let mut upper = text.to_ascii_uppercase();
    if upper.as_bytes().get(10) == Some(&b' ') {
        upper.replace_range(10..11, "T");
    }
    parse_timestamp(&upper).flatten()
}

/// Units of durations and their names.
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

/// A duration as formats of schemas allow it: as Go has it, or with words (`2 weeks`).
pub(crate) fn parse_data_duration(text: &str) -> Option<i64> {
    if let Some(span) = apimachinery::duration::parse(text) {
        return Some(span);
    }
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
        let (_, size) = UNITS.iter().find(|(names, _)| {
            names
                .iter()
                .any(|name| unit == *name || unit.starts_with(name) && name.len() > 2)
        })?;
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
pub(crate) fn print_timestamp(time: Time) -> String {
    format!("{}Z", time.civil(Offset::UTC))
}

/// The fields of a message of time, as a value.
pub(crate) fn of_message(name: &str, seconds: i64, nanos: i64) -> Result<Value<'static>> {
    let total = i128::from(seconds) * i128::from(SECOND) + i128::from(nanos);
    if name == "google.protobuf.Duration" {
        return i64::try_from(total)
            .map(Value::Duration)
            .map_err(|_| Error::new("duration overflow"));
    }
    Time::from_nanoseconds(total)
        .map(Value::Timestamp)
        .ok_or_else(|| Error::new("timestamp overflow"))
}
