//! Bounds on objects, which keep every recursive step within the stack.

use http::StatusCode;
use serde_json::Value;

use crate::ApiError;

/// managedFields nest about as deep again, and serde_json reads 128 levels.
pub const MAX_DEPTH: usize = 100;

/// About the limit of etcd.
pub const MAX_BYTES: usize = 2 * 1024 * 1024;

/// Refuses objects that are nested too deep or too large, without recursion.
pub fn check(object: &Value) -> Result<(), ApiError> {
    let mut bytes = 0;
    let mut left = vec![(object, 1)];
    while let Some((value, depth)) = left.pop() {
        if depth > MAX_DEPTH {
            return Err(ApiError::bad_request(format!(
                "the object is nested more than {MAX_DEPTH} levels deep, the limit of the sandbox"
            )));
        }
        bytes += match value {
            Value::String(text) => text.len() + 2,
            Value::Array(items) => {
                left.extend(items.iter().map(|item| (item, depth + 1)));
                items.len() + 2
            }
            Value::Object(fields) => {
                left.extend(fields.values().map(|field| (field, depth + 1)));
                fields.keys().map(|key| key.len() + 4).sum::<usize>() + 2
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => 4,
        };
    }
    if bytes > MAX_BYTES {
        return Err(ApiError::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "RequestEntityTooLarge",
            format!("Request entity too large: the object would take more than {MAX_BYTES} bytes"),
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn nested(depth: usize) -> Value {
        (1..depth).fold(json!({}), |inner, _| json!({"a": inner}))
    }

    #[test]
    fn nesting_is_bounded() {
        assert_eq!(check(&nested(MAX_DEPTH)), Ok(()));
        assert_eq!(
            check(&nested(MAX_DEPTH + 1)).unwrap_err().code,
            StatusCode::BAD_REQUEST
        );
    }

    #[test]
    fn size_is_bounded() {
        let text = |length: usize| json!({"data": "x".repeat(length)});
        assert_eq!(check(&text(MAX_BYTES / 2)), Ok(()));
        assert_eq!(
            check(&text(MAX_BYTES)).unwrap_err().code,
            StatusCode::PAYLOAD_TOO_LARGE
        );
    }
}
