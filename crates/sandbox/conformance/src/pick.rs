//! Selection of parts of large responses.
//!
//! A part is named by a JSON pointer whose segments may also be `*` (each element of an array, or
//! each value of an object) or `[key=value]` (the first element of an array with that field, whose
//! name may be a path with dots).

use serde_json::{Map, Value};

/// An object from each pointer to the value it selects; null if there is none.
pub(crate) fn pick(body: &Value, pointers: &[String]) -> Value {
    let part = |pointer: &String| {
        let segments: Vec<&str> = pointer.split('/').skip(1).collect();
        (pointer.clone(), at(body, &segments))
    };
    Value::Object(pointers.iter().map(part).collect::<Map<_, _>>())
}

fn at(value: &Value, segments: &[&str]) -> Value {
    let Some((segment, rest)) = segments.split_first() else {
        return value.clone();
    };
    match (value, *segment) {
        (Value::Array(items), "*") => items.iter().map(|item| at(item, rest)).collect(),
        (Value::Object(fields), "*") => fields.values().map(|value| at(value, rest)).collect(),
        (Value::Array(items), segment) => match segment
            .strip_prefix('[')
            .and_then(|s| s.strip_suffix(']')?.split_once('='))
        {
            Some((key, wanted)) => items.iter().find(|item| {
                let field = key.split('.').try_fold(*item, |at, part| at.get(part));
                field.and_then(Value::as_str) == Some(wanted)
            }),
            None => segment
                .parse()
                .ok()
                .and_then(|index: usize| items.get(index)),
        }
        .map_or(Value::Null, |item| at(item, rest)),
        (Value::Object(fields), segment) => fields
            .get(&segment.replace("~1", "/").replace("~0", "~"))
            .map_or(Value::Null, |value| at(value, rest)),
        _ => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn parts_are_found_by_position_wildcard_and_field() {
        let body = json!({"items": [{"name": "a", "n": 1}, {"name": "b", "n": 2}], "x/y": true});
        let pointers = [
            "/items/1/n",
            "/items/*/n",
            "/items/[name=b]/n",
            "/x~1y",
            "/missing/0",
            "",
        ];
        let picked = pick(&body, &pointers.map(str::to_owned));
        assert_eq!(
            picked,
            json!({"/items/1/n": 2, "/items/*/n": [1, 2], "/items/[name=b]/n": 2, "/x~1y": true,
                "/missing/0": null, "": body})
        );
    }
}
