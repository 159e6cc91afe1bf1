//! Scalar types and their names in Go.

use apimachinery::go::json_type;
use jiff::{Timestamp, tz::TimeZone};
use quantity::Quantity;
use serde_json::Value;

use crate::type_info;

/// `v1.PodSpec`, of `io.k8s.api.core.v1.PodSpec`.
pub(super) fn component_type(component: &str) -> String {
    let mut parts = component.rsplit('.');
    let name = parts.next().unwrap_or_default();
    let package = parts.next().unwrap_or_default();
    format!("{package}.{name}")
}

/// Go type name for a schema.
pub(super) fn type_name(schema: &Value, named: Option<&str>) -> String {
    if let Some((component, _)) = type_info::target(schema) {
        return component_type(component);
    }
    let inner = |key: &str| schema.get(key).map(|schema| type_name(schema, named));
    let format = schema
        .get("format")
        .and_then(Value::as_str)
        .unwrap_or_default();
    match schema.get("type").and_then(Value::as_str) {
        Some("array") => format!("[]{}", inner("items").unwrap_or_default()),
        Some("object") => format!(
            "map[string]{}",
            inner("additionalProperties").unwrap_or_default()
        ),
        Some("string") if format == "byte" => "[]uint8".to_owned(),
        Some(_) if named.is_some() => named.unwrap_or_default().to_owned(),
        Some("boolean") => "bool".to_owned(),
        Some("integer") => match format {
            "int32" => "int32".to_owned(),
            _ => "int64".to_owned(),
        },
        Some("number") => "float64".to_owned(),
        _ => "string".to_owned(),
    }
}

/// Types with their own decoder.
pub(super) fn special(name: &str, value: &mut Value) -> Result<(), String> {
    match name {
        "Quantity" => quantity(value),
        "IntOrString" => int_or_string(value),
        "Time" => time(value, false),
        _ => time(value, true),
    }
}

fn quantity(value: &mut Value) -> Result<(), String> {
    let text = match &*value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => return Err(QUANTITY_PATTERN.to_owned()),
    };
    let parsed: Quantity = text
        .trim()
        .parse()
        .map_err(|_| QUANTITY_PATTERN.to_owned())?;
    *value = Value::from(parsed.to_string());
    Ok(())
}

const QUANTITY_PATTERN: &str =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";

fn int_or_string(value: &Value) -> Result<(), String> {
    let fits = |number: i64| i32::try_from(number).is_ok();
    match value {
        Value::String(_) => Ok(()),
        Value::Number(number) if number.as_i64().is_some_and(fits) => Ok(()),
        Value::Number(number) => Err(format!(
            "json: cannot unmarshal number {number} into Go value of type int32"
        )),
        other => Err(format!(
            "json: cannot unmarshal {} into Go value of type int32",
            json_type(other)
        )),
    }
}

/// RFC 3339 time; MicroTime requires six fractional digits.
fn time(value: &mut Value, micro: bool) -> Result<(), String> {
    let Value::String(text) = &*value else {
        return Err(format!(
            "json: cannot unmarshal {} into Go value of type string",
            json_type(value)
        ));
    };
    let (layout, form) = if micro {
        ("2006-01-02T15:04:05.000000Z07:00", "%Y-%m-%dT%H:%M:%S.%6fZ")
    } else {
        ("2006-01-02T15:04:05Z07:00", "%Y-%m-%dT%H:%M:%SZ")
    };
    let refuse = |rest: &str, part: &str| {
        Err(format!(
            "parsing time {text:?} as {layout:?}: cannot parse {rest:?} as {part:?}"
        ))
    };
    let Ok(parsed) = text.parse::<Timestamp>() else {
        return refuse(text, "2006");
    };
    let fraction = text.get(19..).unwrap_or_default();
    let digits = fraction.strip_prefix('.').map_or(0, |rest| {
        rest.bytes().take_while(u8::is_ascii_digit).count()
    });
    if micro && digits < 6 {
        return refuse(fraction, ".000000");
    }
    *value = Value::from(parsed.to_zoned(TimeZone::UTC).strftime(form).to_string());
    Ok(())
}

pub(super) fn base64(value: &mut Value) -> Result<(), String> {
    let Value::String(text) = &*value else {
        return Ok(());
    };
    let bytes: Vec<u8> = text
        .bytes()
        .filter(|byte| !matches!(byte, b'\r' | b'\n'))
        .collect();
    let illegal = |index: usize| Err(format!("illegal base64 data at input byte {index}"));
    let padding = bytes.iter().rev().take_while(|byte| **byte == b'=').count();
    let body = bytes.len() - padding;
    let in_alphabet = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    if let Some(index) = bytes.iter().take(body).position(|byte| !in_alphabet(byte)) {
        return illegal(index);
    }
    if !bytes.len().is_multiple_of(4) || padding > 2 {
        // Go reports the position after the last complete group of four.
        return illegal(if padding > 2 {
            body
        } else {
            bytes.len() / 4 * 4
        });
    }
    if bytes.len() != text.len() {
        *value = Value::from(String::from_utf8_lossy(&bytes).into_owned());
    }
    Ok(())
}
