//! JSONPath subset for printer columns, scale subresources and selectable fields: fields, indices,
//! wildcards and filters such as `[?(@.type=="Ready")]`.

use serde_json::Value;

const MAX_BYTES: usize = 1024;
const MAX_STEPS: usize = 64;

/// Filters cannot be nested.
#[derive(Clone, Copy, PartialEq)]
enum Filters {
    Allowed,
    Refused,
}

#[derive(Clone, Debug, PartialEq)]
pub struct JsonPath {
    text: String,
    steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Field(String),
    Index(i64),
    Every,
    Where {
        path: Vec<Step>,
        equal: bool,
        value: Value,
    },
}

impl JsonPath {
    /// Parses a path such as `.status.conditions[?(@.type=="Ready")].status`.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.len() > MAX_BYTES {
            return Err(format!("JSONPath is longer than {MAX_BYTES} bytes"));
        }
        let mut rest = text.trim();
        rest = rest.strip_prefix('$').unwrap_or(rest);
        let steps = steps(&mut rest, Filters::Allowed)?;
        if steps.len() > MAX_STEPS {
            return Err(format!("JSONPath has more than {MAX_STEPS} steps"));
        }
        if rest.is_empty() {
            Ok(Self {
                text: text.to_owned(),
                steps,
            })
        } else {
            Err(format!("unexpected {rest:?} in JSONPath {text:?}"))
        }
    }

    /// A path that never matches.
    pub fn unmatched(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            steps: vec![Step::Index(i64::MAX)],
        }
    }

    pub fn creation_timestamp() -> Self {
        Self {
            text: ".metadata.creationTimestamp".to_owned(),
            steps: vec![
                Step::Field("metadata".to_owned()),
                Step::Field("creationTimestamp".to_owned()),
            ],
        }
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// All matches.
    pub fn all<'a>(&self, object: &'a Value) -> Vec<&'a Value> {
        walk(&self.steps, vec![object])
    }

    /// First match.
    pub fn first<'a>(&self, object: &'a Value) -> Option<&'a Value> {
        self.all(object).into_iter().next()
    }

    /// Sets the value at a path of fields, creating the objects on the way.
    pub fn set(&self, object: &mut Value, value: Value) {
        let mut at = object;
        for step in &self.steps {
            let Step::Field(field) = step else {
                return;
            };
            at = crate::object::map_mut(at)
                .entry(field.clone())
                .or_insert(Value::Null);
        }
        *at = value;
    }
}

fn walk<'a>(steps: &[Step], mut found: Vec<&'a Value>) -> Vec<&'a Value> {
    for step in steps {
        found = match step {
            Step::Field(field) => found
                .into_iter()
                .filter_map(|value| value.get(field.as_str()))
                .collect(),
            Step::Index(index) => found
                .into_iter()
                .filter_map(|value| {
                    let list = value.as_array()?;
                    let at = if *index < 0 {
                        list.len()
                            .checked_sub(usize::try_from(index.unsigned_abs()).ok()?)?
                    } else {
                        usize::try_from(*index).ok()?
                    };
                    list.get(at)
                })
                .collect(),
            Step::Every => found.into_iter().flat_map(children).collect(),
            Step::Where { path, equal, value } => found
                .into_iter()
                .flat_map(children)
                .filter(|item| {
                    let matched = walk(path, vec![item])
                        .into_iter()
                        .any(|found| found == value);
                    matched == *equal
                })
                .collect(),
        };
    }
    found
}

fn children(value: &Value) -> Vec<&Value> {
    match value {
        Value::Array(list) => list.iter().collect(),
        Value::Object(map) => map.values().collect(),
        _ => Vec::new(),
    }
}

fn steps(rest: &mut &str, filters: Filters) -> Result<Vec<Step>, String> {
    let mut steps = Vec::new();
    loop {
        if let Some(after) = rest.strip_prefix('.') {
            let end = field_end(after);
            let field = after[..end].replace("\\.", ".");
            *rest = &after[end..];
            match field.as_str() {
                "" => {}
                "*" => steps.push(Step::Every),
                _ => steps.push(Step::Field(field)),
            }
        } else if let Some(after) = rest.strip_prefix('[') {
            *rest = after;
            steps.push(bracket(rest, filters)?);
        } else {
            return Ok(steps);
        }
    }
}

fn field_end(text: &str) -> usize {
    let mut escaped = false;
    for (at, letter) in text.char_indices() {
        match letter {
            '\\' if !escaped => escaped = true,
            '.' | '[' | '=' | '!' | ')' | ' ' if !escaped => return at,
            _ => escaped = false,
        }
    }
    text.len()
}

fn bracket(rest: &mut &str, filters: Filters) -> Result<Step, String> {
    if let Some(after) = rest.strip_prefix("?(@") {
        if filters == Filters::Refused {
            return Err("a filter inside a filter is not supported".to_owned());
        }
        *rest = after;
        let path = steps(rest, Filters::Refused)?;
        *rest = rest.trim_start();
        let equal = if let Some(after) = rest.strip_prefix("==") {
            *rest = after;
            true
        } else if let Some(after) = rest.strip_prefix("!=") {
            *rest = after;
            false
        } else {
            return Err(format!("expected == or != before {rest:?}"));
        };
        *rest = rest.trim_start();
        let value = literal(rest)?;
        *rest = rest.trim_start();
        *rest = rest
            .strip_prefix(")]")
            .ok_or_else(|| format!("expected \")]\" before {rest:?}"))?;
        return Ok(Step::Where { path, equal, value });
    }
    let end = rest
        .find(']')
        .ok_or_else(|| "unterminated array".to_owned())?;
    let inside = rest[..end].trim();
    let step = match inside {
        "*" => Step::Every,
        _ => match inside.parse() {
            Ok(index) => Step::Index(index),
            Err(_) => Step::Field(inside.trim_matches(['\'', '"']).replace("\\.", ".")),
        },
    };
    *rest = &rest[end + 1..];
    Ok(step)
}

fn literal(rest: &mut &str) -> Result<Value, String> {
    for quote in ['"', '\''] {
        if let Some(after) = rest.strip_prefix(quote) {
            let end = after
                .find(quote)
                .ok_or_else(|| format!("unterminated string before {after:?}"))?;
            *rest = &after[end + 1..];
            return Ok(after[..end].into());
        }
    }
    let end = rest.find([')', ' ']).unwrap_or(rest.len());
    let word = &rest[..end];
    *rest = &rest[end..];
    serde_json::from_str(word).map_err(|_| format!("invalid literal {word:?}"))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case(".spec.name", json!(["x"]))]
    #[case("$.spec.name", json!(["x"]))]
    #[case(".spec.list[1]", json!([2]))]
    #[case(".spec.list[-1]", json!([3]))]
    #[case(".spec.list[*]", json!([1, 2, 3]))]
    #[case(r#".status.conditions[?(@.type=="Ready")].status"#, json!(["True"]))]
    #[case(".status.conditions[?(@.type!='Ready')].status", json!(["False"]))]
    #[case(".metadata.labels['a.b/c']", json!(["l"]))]
    #[case(r".metadata.labels.a\.b/c", json!(["l"]))]
    #[case(".missing.field", json!([]))]
    fn paths(#[case] path: &str, #[case] expected: Value) {
        let object = json!({
            "metadata": {"labels": {"a.b/c": "l"}},
            "spec": {"name": "x", "list": [1, 2, 3]},
            "status": {"conditions": [
                {"type": "Ready", "status": "True"},
                {"type": "Other", "status": "False"},
            ]},
        });
        assert_eq!(json!(JsonPath::parse(path).unwrap().all(&object)), expected);
    }

    #[rstest]
    #[case(".a[")]
    #[case(".a[?(@.b)]")]
    #[case(".a[?(@.b==\"x]")]
    #[case("}")]
    #[case(".a[?(@.b[?(@.c==1)]==1)]")]
    #[case(&".a".repeat(100))]
    #[case(&".a[?(@".repeat(100_000))]
    fn broken_paths_are_refused(#[case] path: &str) {
        assert!(JsonPath::parse(path).is_err());
    }

    #[test]
    fn set_creates_missing_objects() {
        let mut object = json!({});
        JsonPath::parse(".spec.replicas")
            .unwrap()
            .set(&mut object, json!(3));
        assert_eq!(object, json!({"spec": {"replicas": 3}}));
    }
}
