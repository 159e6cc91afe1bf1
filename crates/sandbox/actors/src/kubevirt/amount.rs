//! Quantities of memory and CPU in whole units.

use quantity::Quantity;
use serde_json::Value;

/// Quantity at a JSON pointer, rounded up to whole units. `None` if it is missing or invalid.
pub fn units(object: &Value, pointer: &str) -> Option<i64> {
    let amount = match object.pointer(pointer)? {
        Value::String(text) => text.parse().ok()?,
        Value::Number(number) => number.to_string().parse().ok()?,
        _ => return None,
    };
    Some(whole_units(amount))
}

/// Formats a number of bytes as the API server does.
pub fn bytes(amount: i64) -> String {
    Quantity::from_bytes(amount).to_string()
}

fn whole_units(amount: Quantity) -> i64 {
    i64::try_from(amount.rounded_up().nanos() / 1_000_000_000).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn quantities_are_rounded_up_to_whole_units() {
        for (text, amount) in [
            (json!("4Gi"), 4 << 30),
            (json!("1500m"), 2),
            (json!(4_294_967_296_i64), 4 << 30),
            (json!("-1"), -1),
            (json!("0"), 0),
            (json!("9223372036854775807"), i64::MAX),
        ] {
            assert_eq!(units(&text, ""), Some(amount), "{text}");
        }
        assert_eq!(units(&json!("much"), ""), None);
        assert_eq!(units(&json!({}), "/memory"), None);
    }

    #[test]
    fn quantities_are_formatted_as_the_api_server_does() {
        assert_eq!(bytes(16 << 30), "16Gi");
        assert_eq!(bytes(276 << 20), "276Mi");
    }
}
