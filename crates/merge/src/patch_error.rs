//! Errors of patches.

/// A patch that cannot be applied, with the server's HTTP status.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// 400: not a valid patch.
    #[error("{0}")]
    BadRequest(String),
    /// 413: too many operations.
    #[error("{0}")]
    TooLarge(String),
    /// 422: not applicable to this document. The server does not report the reason.
    #[error("{0}")]
    Unprocessable(String),
    /// 500: the server reports an internal error, although the patch is at fault.
    #[error("{0}")]
    Internal(String),
}

impl PatchError {
    pub fn code(&self) -> u16 {
        match self {
            Self::BadRequest(_) => 400,
            Self::TooLarge(_) => 413,
            Self::Unprocessable(_) => 422,
            Self::Internal(_) => 500,
        }
    }
}
