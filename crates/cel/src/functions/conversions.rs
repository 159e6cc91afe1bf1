//! Conversions between types.

use std::sync::Arc;

use super::{
    Function, refuse,
    time::{self, Time},
};
use crate::value::{Error, Result, Special, Text, Value, shown_double};

/// Functions that are evaluated when an expression is compiled, if their argument is a literal.
pub(crate) const CONVERSIONS: [&str; 10] = [
    "bool",
    "bytes",
    "double",
    "duration",
    "dyn",
    "int",
    "string",
    "timestamp",
    "type",
    "uint",
];

pub(super) fn implementation(name: &str) -> Option<Function> {
    Some(match name {
        "bool" => |_, arguments| match arguments {
            [Value::Bool(value)] => Ok(Value::Bool(*value)),
            [value @ Value::String(text)] => match &**text {
                "1" | "t" | "T" | "TRUE" | "true" | "True" => Ok(Value::Bool(true)),
                "0" | "f" | "F" | "FALSE" | "false" | "False" => Ok(Value::Bool(false)),
                _ => failed(value, "bool"),
            },
            _ => refuse("bool", arguments),
        },
        "bytes" => |_, arguments| match arguments {
            [Value::Bytes(bytes)] => Ok(Value::Bytes(Arc::clone(bytes))),
            [Value::String(text)] => Ok(Value::Bytes(text.as_bytes().into())),
            _ => refuse("bytes", arguments),
        },
        "double" => |_, arguments| match arguments {
            [value] => double(value),
            _ => refuse("double", arguments),
        },
        "int" => |_, arguments| match arguments {
            [value] => int(value),
            _ => refuse("int", arguments),
        },
        "uint" => |_, arguments| match arguments {
            [value] => uint(value),
            _ => refuse("uint", arguments),
        },
        "string" => |_, arguments| match arguments {
            [value] => string(value),
            _ => refuse("string", arguments),
        },
        "duration" => |_, arguments| match arguments {
            [Value::Duration(span)] => Ok(Value::Duration(*span)),
            [value @ Value::String(text)] => match apimachinery::duration::parse(text) {
                Some(span) => Ok(Value::Duration(span)),
                None => failed(value, "google.protobuf.Duration"),
            },
            [value @ Value::Int(_)] => failed(value, "google.protobuf.Duration"),
            _ => refuse("duration", arguments),
        },
        "timestamp" => |_, arguments| match arguments {
            [Value::Timestamp(time)] => Ok(Value::Timestamp(*time)),
            [value @ Value::String(text)] => match time::parse_timestamp(text) {
                Some(Some(time)) => Ok(Value::Timestamp(time)),
                Some(None) => Err(Error::new("timestamp overflow")),
                None => failed(value, "google.protobuf.Timestamp"),
            },
            [Value::Int(seconds)] => Time::from_seconds(*seconds)
                .map(Value::Timestamp)
                .ok_or_else(|| Error::new("timestamp overflow")),
            _ => refuse("timestamp", arguments),
        },
        _ => return None,
    })
}

fn failed<'a>(value: &Value<'_>, to: &str) -> Result<Value<'a>> {
    let from = value.type_name();
    Err(Error::new(format!(
        "type conversion error from '{from}' to '{to}'"
    )))
}

#[expect(clippy::cast_precision_loss, reason = "as the server converts it")]
fn double<'a>(value: &Value<'_>) -> Result<Value<'a>> {
    Ok(Value::Double(match value {
        Value::Double(number) => *number,
        Value::Int(number) => *number as f64,
        Value::Uint(number) => *number as f64,
        Value::String(text) => match parse_double(text) {
            Some(number) => number,
            None => return failed(value, "double"),
        },
        _ => return refuse("double", std::slice::from_ref(value)),
    }))
}

/// A number as Go reads it. Out of range is an error, except where it is written as infinity.
fn parse_double(text: &str) -> Option<f64> {
    let plain = text.trim_start_matches(['+', '-']);
    let number: f64 = text.parse().ok()?;
    let is_infinity = ["inf", "infinity"]
        .iter()
        .any(|word| plain.eq_ignore_ascii_case(word));
    (number.is_nan() || number.is_finite() || is_infinity).then_some(number)
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the range was checked; fractions are dropped"
)]
fn int<'a>(value: &Value<'_>) -> Result<Value<'a>> {
    const OVERFLOW: &str = "integer overflow";
    Ok(Value::Int(match value {
        Value::Int(number) | Value::Duration(number) => *number,
        Value::Uint(number) => i64::try_from(*number).map_err(|_| Error::new(OVERFLOW))?,
        // The bounds are the nearest doubles, which the server refuses too.
        Value::Double(number) if number.abs() < 9_223_372_036_854_775_807.0 => *number as i64,
        Value::Double(_) => return Err(Error::new(OVERFLOW)),
        Value::Timestamp(time) => time.seconds(),
        Value::String(text) => match parse_int(text) {
            Some(number) => number,
            None => return failed(value, "int"),
        },
        _ => return refuse("int", std::slice::from_ref(value)),
    }))
}

fn parse_int(text: &str) -> Option<i64> {
    text.parse().ok()
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the range was checked; fractions are dropped"
)]
fn uint<'a>(value: &Value<'_>) -> Result<Value<'a>> {
    const OVERFLOW: &str = "unsigned integer overflow";
    Ok(Value::Uint(match value {
        Value::Uint(number) => *number,
        Value::Int(number) => u64::try_from(*number).map_err(|_| Error::new(OVERFLOW))?,
        Value::Double(number) if (0.0..18_446_744_073_709_551_615.0).contains(number) => {
            *number as u64
        }
        Value::Double(_) => return Err(Error::new(OVERFLOW)),
        Value::String(text) => match text
            .strip_prefix('+')
            .map_or_else(|| text.parse().ok(), |_| None)
        {
            Some(number) => number,
            None => return failed(value, "uint"),
        },
        _ => return refuse("uint", std::slice::from_ref(value)),
    }))
}

/// The text of a value; for values without one an error.
pub(crate) fn string<'a>(value: &Value<'a>) -> Result<Value<'a>> {
    Ok(match value {
        Value::String(text) => Value::String(Text::clone(text)),
        Value::Bool(value) => Value::text(value.to_string()),
        Value::Int(number) => Value::text(number.to_string()),
        Value::Uint(number) => Value::text(number.to_string()),
        Value::Double(number) => Value::text(shown_double(*number)),
        Value::Bytes(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => Value::text(text),
            Err(_) => {
                return Err(Error::new(
                    "invalid UTF-8 in bytes, cannot convert to string",
                ));
            }
        },
        Value::Duration(span) => Value::text(time::print_duration(*span)),
        Value::Timestamp(time) => Value::text(time::print_timestamp(*time)),
        Value::Type(name) => Value::text(&*name.0),
        Value::Special(Special::Ip(address)) => Value::text(address.to_string()),
        Value::Special(Special::Cidr(address, bits)) => Value::text(format!("{address}/{bits}")),
        _ => return refuse("string", std::slice::from_ref(value)),
    })
}
