//! Review APIs: answered, not stored.
//!
//! Each function maps the request body to the response body.

mod access;
mod identity;

pub use access::{local_subject_access, self_subject_access, self_subject_rules, subject_access};
pub use identity::{self_subject, token, token_request};
use schema::{Problem, Violation};
use serde_json::{Map, Value, json};

use crate::ApiError;

const AUTHORIZATION: &str = "authorization.k8s.io";
const AUTHENTICATION: &str = "authentication.k8s.io";

fn answer(group: &str, kind: &str, body: &Value, status: &Value) -> Value {
    let part = |field: &str| match &body[field] {
        Value::Object(part) => part.clone(),
        _ => Map::new(),
    };
    json!({
        "kind": kind,
        "apiVersion": format!("{group}/v1"),
        "metadata": part("metadata"),
        "spec": part("spec"),
        "status": status,
    })
}

fn refuse_if(group: &str, kind: &str, name: &str, wrong: &[Violation]) -> Result<(), ApiError> {
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(ApiError::invalid(group, kind, name, wrong))
    }
}

fn invalid(path: &str, value: Value, detail: &str) -> Violation {
    Violation::at(
        path,
        Problem::Invalid {
            value: Some(value),
            detail: detail.to_owned(),
        },
    )
}

fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object
        .get(field)
        .and_then(Value::as_str)
        .unwrap_or_default()
}
