//! What an object may be: bounds that keep every later step, recursive or not, within its own.

use http::StatusCode;
use serde_json::Value;

use crate::ApiError;

/// How deep an object may be nested. Its managers are nested as deep again and a little more, and
/// JSON is read to 128 levels.
pub const MAX_DEPTH: usize = 100;

/// How large an object may be, about as large as etcd takes one.
pub const MAX_BYTES: usize = 2 * 1024 * 1024;

/// Refuses an object that is nested too deep, or too large. Needs no stack for it.
pub fn check(object: &Value) -> Result<(), ApiError> {
    let mut bytes = 0;
    let mut left = vec![(object, 1)];
    while let Some((value, depth)) = left.pop() {
        if depth > MAX_DEPTH {
            return Err(ApiError::bad_request(format!(
                "the object is nested more than {MAX_DEPTH} levels deep, which the sandbox does not take"
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
