//! Admission webhooks: which are called for a write, and what they change or refuse.

use serde_json::Value;

use crate::{ApiError, gate::Operation, verbs::Call};

/// Lets mutating webhooks change an object.
pub async fn mutate(
    _call: &mut Call<'_>,
    _operation: Operation,
    _new: &mut Value,
    _old: Option<&Value>,
    _dry_run: bool,
) -> Result<(), ApiError> {
    Ok(())
}

/// Lets validating webhooks refuse a write.
pub async fn validate(
    _call: &mut Call<'_>,
    _operation: Operation,
    _new: Option<&Value>,
    _old: Option<&Value>,
    _dry_run: bool,
) -> Result<(), ApiError> {
    Ok(())
}
