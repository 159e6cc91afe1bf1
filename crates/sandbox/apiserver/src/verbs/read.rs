//! One object.

use http::{Response, StatusCode};

use super::Call;
use crate::{ApiError, body::Body};

/// The object that the path names.
pub fn get(call: &Call<'_>) -> Result<Response<Body>, ApiError> {
    call.server.wait_for_revision(call.query)?;
    Ok(call.answer_stored(StatusCode::OK, call.stored()?.as_ref()))
}
