//! Variables in requests: `${ns}`, and `${name.path.to.field}` of a saved response.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::case::{Body, Text};

/// Values that the steps of a case have captured.
#[derive(Debug, Default)]
pub(crate) struct Variables {
    values: BTreeMap<String, Value>,
}

impl Variables {
    pub(crate) fn set(&mut self, name: &str, value: Value) {
        self.values.insert(name.to_owned(), value);
    }

    /// The value at a dotted path whose first part is a variable's name.
    fn get(&self, path: &str) -> Result<&Value, String> {
        let mut parts = path.split('.');
        let missing = || format!("nothing was captured as ${{{path}}}");
        let mut value = parts
            .next()
            .and_then(|name| self.values.get(name))
            .ok_or_else(missing)?;
        for part in parts {
            value = match value {
                Value::Array(items) => part.parse().ok().and_then(|at: usize| items.get(at)),
                other => other.get(part),
            }
            .ok_or_else(missing)?;
        }
        Ok(value)
    }

    /// Expands variables, each passed through `encode`.
    fn expand(&self, text: &str, encode: fn(&str) -> String) -> Result<String, String> {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("${") {
            let (path, after) = after
                .split_once('}')
                .ok_or_else(|| format!("{text:?} has an open ${{"))?;
            out.push_str(before);
            match self.get(path)? {
                Value::String(value) => out.push_str(&encode(value)),
                value => out.push_str(&encode(&value.to_string())),
            }
            rest = after;
        }
        out.push_str(rest);
        Ok(out)
    }

    pub(crate) fn text(&self, text: &str) -> Result<String, String> {
        self.expand(text, str::to_owned)
    }

    /// Expands a path with its query. The case may contain anything that is valid in a URL; the
    /// value of a variable becomes one component.
    pub(crate) fn target(&self, target: &str) -> Result<String, String> {
        Ok(encoded(
            &self.expand(target, percent_encoded)?,
            b"-_.~/?&=%:;,!()*+@$'",
        ))
    }

    /// Expands variables in a value. A string that is a single variable becomes its value, of any
    /// type.
    pub(crate) fn json(&self, value: &Value) -> Result<Value, String> {
        Ok(match value {
            Value::String(text) => match whole_variable(text) {
                Some(path) => self.get(path)?.clone(),
                None => Value::String(self.text(text)?),
            },
            Value::Array(items) => Value::Array(
                items
                    .iter()
                    .map(|item| self.json(item))
                    .collect::<Result<_, _>>()?,
            ),
            Value::Object(fields) => Value::Object(
                fields
                    .iter()
                    .map(|(key, value)| Ok((self.text(key)?, self.json(value)?)))
                    .collect::<Result<_, String>>()?,
            ),
            other => other.clone(),
        })
    }

    /// The expanded body, if any.
    pub(crate) fn body(&self, body: &Body) -> Result<Option<String>, String> {
        Ok(match body {
            Body::Absent => None,
            Body::Json { base, set } => {
                let mut value = self.json(base)?;
                for (pointer, replacement) in set {
                    put(&mut value, pointer, self.json(replacement)?)?;
                }
                Some(value.to_string())
            }
            Body::Text(Text::Plain(text)) => Some(self.text(text)?),
            Body::Text(Text::Repeated {
                before,
                repeat,
                times,
                after,
            }) => Some(format!(
                "{}{}{}",
                self.text(before)?,
                repeat.repeat(*times),
                self.text(after)?
            )),
        })
    }
}

fn whole_variable(text: &str) -> Option<&str> {
    let path = text.strip_prefix("${")?.strip_suffix('}')?;
    (!path.contains("${")).then_some(path)
}

fn percent_encoded(text: &str) -> String {
    encoded(text, b"-_.~")
}

fn encoded(text: &str, allowed: &[u8]) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || allowed.contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push('%');
            for digit in [byte >> 4, byte & 15] {
                out.extend(char::from_digit(digit.into(), 16).map(|c| c.to_ascii_uppercase()));
            }
        }
    }
    out
}

/// Sets a field and creates missing parents.
fn put(value: &mut Value, pointer: &str, replacement: Value) -> Result<(), String> {
    let mut at = value;
    for part in pointer.split('/').skip(1) {
        let part = part.replace("~1", "/").replace("~0", "~");
        at = match at {
            Value::Array(items) => part
                .parse()
                .ok()
                .and_then(|index: usize| items.get_mut(index)),
            Value::Null => {
                *at = Value::Object(serde_json::Map::new());
                at.as_object_mut()
                    .map(|fields| fields.entry(part).or_insert(Value::Null))
            }
            Value::Object(fields) => Some(fields.entry(part).or_insert(Value::Null)),
            _ => None,
        }
        .ok_or_else(|| format!("the body has no place for {pointer}"))?;
    }
    *at = replacement;
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn variables() -> Variables {
        let mut variables = Variables::default();
        variables.set("ns", json!("conf-1"));
        variables.set(
            "a",
            json!({"metadata": {"labels": ["x", {"n": 7}]}, "t": "a b/c"}),
        );
        variables
    }

    #[test]
    fn a_string_that_is_one_variable_takes_its_type() {
        let value = variables().json(&json!({"${ns}": "${a.metadata.labels.1}", "t": "-${ns}-"}));
        assert_eq!(value, Ok(json!({"conf-1": {"n": 7}, "t": "-conf-1-"})));
    }

    #[test]
    fn variables_in_a_path_are_one_component() {
        assert_eq!(
            variables().target("/x/${a.t}?labelSelector=a in (b)"),
            Ok("/x/a%20b%2Fc?labelSelector=a%20in%20(b)".to_owned())
        );
    }

    #[test]
    fn an_unknown_variable_is_an_error() {
        assert!(variables().text("${b}").is_err());
        assert!(variables().text("${a.missing}").is_err());
        assert!(variables().text("${a").is_err());
    }

    #[test]
    fn values_are_put_into_a_captured_body() {
        let body = Body::Json {
            base: json!("${a.metadata}"),
            set: BTreeMap::from([
                ("/labels/0".to_owned(), json!("y")),
                ("/annotations/x~1y".to_owned(), json!("z")),
            ]),
        };
        assert_eq!(
            variables()
                .body(&body)
                .map(|body| body.and_then(|body| body.parse().ok())),
            Ok(Some(
                json!({"labels": ["y", {"n": 7}], "annotations": {"x/y": "z"}})
            ))
        );
    }
}
