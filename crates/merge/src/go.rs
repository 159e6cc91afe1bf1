//! Go formatting of values in the server's messages.

pub(crate) use apimachinery::go::{json_type, quote};
use serde_json::{Number, Value};

/// A list of quoted strings (`%q`).
pub(crate) fn quote_list(items: &[String]) -> String {
    let quoted: Vec<_> = items.iter().map(|item| quote(item)).collect();
    format!("[{}]", quoted.join(" "))
}

/// A number in its shortest form: integers have no fraction.
pub(crate) fn number(number: &Number) -> String {
    if number.is_f64() {
        float(number.as_f64().unwrap_or_default())
    } else {
        number.to_string()
    }
}

fn float(amount: f64) -> String {
    if amount == 0.0 {
        return "0".to_owned();
    }
    let magnitude = amount.abs();
    if (1e-4..1e21).contains(&magnitude) {
        return format!("{amount}");
    }
    let scientific = format!("{amount:e}");
    match scientific.split_once('e') {
        Some((digits, exponent)) => {
            let (sign, exponent) = exponent
                .strip_prefix('-')
                .map_or(('+', exponent), |rest| ('-', rest));
            format!("{digits}e{sign}{exponent:0>2}")
        }
        None => scientific,
    }
}

/// The plain form (`%v`).
pub(crate) fn plain(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Number(value) => number(value),
        Value::String(value) => value.clone(),
        Value::Array(items) => list(items),
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_unstable_by_key(|(key, _)| *key);
            let entries: Vec<_> = entries
                .into_iter()
                .map(|(key, value)| format!("{key}:{}", plain(value)))
                .collect();
            format!("map[{}]", entries.join(" "))
        }
    }
}

/// The plain form of a list (`%v`).
pub(crate) fn list(items: &[Value]) -> String {
    let items: Vec<_> = items.iter().map(plain).collect();
    format!("[{}]", items.join(" "))
}

/// The form with types (`%#v`).
pub(crate) fn typed(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".to_owned(),
        Value::String(value) => quote(value),
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(typed).collect();
            format!("[]interface {{}}{{{}}}", items.join(", "))
        }
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_unstable_by_key(|(key, _)| *key);
            let entries: Vec<_> = entries
                .into_iter()
                .map(|(key, value)| format!("{}:{}", quote(key), typed(value)))
                .collect();
            format!("map[string]interface {{}}{{{}}}", entries.join(", "))
        }
        other => plain(other),
    }
}

/// The name of the type (`%T`).
pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_are_short() {
        let printed = [
            json!(1.0),
            json!(0.5),
            json!(1e21),
            json!(1e-7),
            json!(-3),
            json!(100_000.0),
        ];
        let printed: Vec<_> = printed.iter().map(plain).collect();
        assert_eq!(printed, ["1", "0.5", "1e+21", "1e-07", "-3", "100000"]);
    }

    #[test]
    fn maps_and_lists_show_their_types() {
        let value = json!({"b": [1, "x"], "a": null});
        assert_eq!(plain(&value), "map[a:<nil> b:[1 x]]");
        assert_eq!(
            typed(&value),
            r#"map[string]interface {}{"a":interface {}(nil), "b":[]interface {}{1, "x"}}"#
        );
    }

    #[test]
    fn quotes_escape() {
        assert_eq!(quote("a\"b\n\u{1}"), r#""a\"b\n\x01""#);
        assert_eq!(
            quote_list(&["a".to_owned(), "b".to_owned()]),
            r#"["a" "b"]"#
        );
    }
}
