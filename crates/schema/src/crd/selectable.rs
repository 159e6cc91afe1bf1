//! Validation of selectable fields.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::{Problem, Violation};

const MAX_FIELDS: u64 = 8;

pub(super) fn check(
    fields: &Value,
    schema: Option<&Value>,
    path: &str,
    found: &mut Vec<Violation>,
) {
    let mut known = BTreeSet::new();
    for (index, field) in fields.as_array().into_iter().flatten().enumerate() {
        let place = format!("{path}[{index}].jsonPath");
        let given = field.get("jsonPath").and_then(Value::as_str).unwrap_or("");
        if given.is_empty() {
            found.push(Violation::required(place, ""));
            continue;
        }
        let mut invalid = |detail: String| {
            found.push(Violation::invalid(place.clone(), given, detail));
        };
        match resolve(given, schema.unwrap_or(&Value::Null)) {
            Err(why) => {
                invalid(format!("is an invalid path: {why}"));
                continue;
            }
            Ok(schema) => {
                if given == ".metadata" || given.starts_with(".metadata.") {
                    invalid("must not point to fields in metadata".to_owned());
                }
                let type_ = schema.get("type").and_then(Value::as_str);
                if !matches!(type_, Some("string" | "boolean" | "integer")) {
                    invalid(
                        "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.".to_owned(),
                    );
                }
            }
        }
        if !known.insert(given) {
            let value = given.into();
            found.push(Violation::at(place, Problem::Duplicate { value }));
        }
    }
    if known.len() as u64 > MAX_FIELDS {
        found.push(Violation::at(
            path,
            Problem::TooMany {
                found: known.len(),
                max: MAX_FIELDS,
            },
        ));
    }
}

/// Schema of the field that a path leads to.
fn resolve<'s>(path: &str, root: &'s Value) -> Result<&'s Value, String> {
    let mut schema = root;
    let mut rest = path;
    while !rest.is_empty() {
        if rest.starts_with('[') {
            return Err("array notation is not allowed".to_owned());
        }
        let Some(after) = rest.strip_prefix('.') else {
            let token = rest.split(['.', '[', ']']).next().unwrap_or(rest);
            return Err(format!("expected [ or . but got: {token}"));
        };
        let end = after.find(['.', '[', ']']).unwrap_or(after.len());
        let (name, after) = after.split_at(end);
        schema = schema
            .get("properties")
            .and_then(|fields| fields.get(name))
            .ok_or("does not refer to a valid field")?;
        rest = after;
    }
    Ok(schema)
}
