//! Values as text.

use std::fmt::Write as _;

use super::Value;

/// As Go prints a number with `%g` and the shortest digits.
pub(crate) fn double(number: f64) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    if number == 0.0 {
        return if number.is_sign_negative() { "-0" } else { "0" }.to_owned();
    }
    let scientific = format!("{number:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if !(-4..6).contains(&exponent) {
        return format!("{digits}{}", go_exponent(exponent));
    }
    format!("{number}")
}

/// An exponent of at least two digits: `e+06`.
pub(crate) fn go_exponent(exponent: i32) -> String {
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("e{sign}{:02}", exponent.unsigned_abs())
}

/// As messages of missing keys show a value.
pub(crate) fn shown(value: &Value<'_>) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::Uint(value) => value.to_string(),
        Value::Double(value) => double(*value),
        Value::String(text) => text.to_string(),
        Value::Bytes(bytes) => {
            let mut shown = String::from("[");
            for (index, byte) in bytes.iter().enumerate() {
                let separator = if index > 0 { " " } else { "" };
                let _ = write!(shown, "{separator}{byte}");
            }
            shown + "]"
        }
        Value::Type(name) => name.0.to_string(),
        other => other.type_name().to_owned(),
    }
}

/// Name in Go of the type of a value.
pub(crate) fn go_type(value: &Value<'_>) -> &'static str {
    match value {
        Value::Null => "types.Null",
        Value::Bool(_) => "types.Bool",
        Value::Int(_) => "types.Int",
        Value::Uint(_) => "types.Uint",
        Value::Double(_) => "types.Double",
        Value::String(_) => "types.String",
        Value::Bytes(_) => "types.Bytes",
        Value::Duration(_) => "types.Duration",
        Value::Timestamp(_) => "types.Timestamp",
        Value::Type(_) => "*types.Type",
        Value::Optional(_) => "*types.Optional",
        Value::List(_) | Value::Map(_) | Value::Special(_) => value.type_name(),
    }
}
