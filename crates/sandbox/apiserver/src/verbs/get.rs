//! Get.

use http::StatusCode;

use super::Call;
use crate::{ApiError, ApiResult};

pub fn get(call: &Call<'_>) -> ApiResult {
    call.server
        .check_revision(call.query)
        .map_err(|error| match error.code {
            // kube-apiserver answers 500 here, although the request is invalid.
            StatusCode::BAD_REQUEST => {
                ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "", error.message)
            }
            _ => error,
        })?;
    Ok(call.respond_with_stored(StatusCode::OK, call.stored()?.as_ref()))
}
