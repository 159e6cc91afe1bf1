//! Values in the text forms of Go's `fmt` and `encoding/json`, which messages of Go programs contain.

use std::fmt::Write as _;

use serde_json::Value;

/// A quoted string (`%q`).
pub fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => {
                quoted.push('\\');
                quoted.push(character);
            }
            '\u{7}' => quoted.push_str("\\a"),
            '\u{8}' => quoted.push_str("\\b"),
            '\u{c}' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\u{b}' => quoted.push_str("\\v"),
            control if control.is_ascii_control() => {
                // Writing to a String does not fail.
                let _ = write!(quoted, "\\x{:02x}", u32::from(control));
            }
            control if control.is_control() => {
                let _ = write!(quoted, "\\u{:04x}", u32::from(control));
            }
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

/// The type of a JSON value in the messages of `encoding/json` ("cannot unmarshal number into ...").
pub fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(
            quote("a\"b\\c\u{7}\u{8}\u{c}\n\r\t\u{b}\u{1}\u{7f}\u{85}é"),
            r#""a\"b\\c\a\b\f\n\r\t\v\x01\x7f\u0085é""#
        );
    }
}
