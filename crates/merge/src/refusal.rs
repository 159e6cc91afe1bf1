//! Why a patch was refused.

/// A patch that cannot be applied, with the status that the server answers it with.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// 400: this is not a patch.
    #[error("{0}")]
    BadRequest(String),
    /// 413: more operations than the server carries out.
    #[error("{0}")]
    TooLarge(String),
    /// 422: a patch, but not one for this document. The server does not tell its clients why.
    #[error("{0}")]
    Unprocessable(String),
    /// 500: the server answers with an internal error, although the patch is to blame.
    #[error("{0}")]
    Internal(String),
}

impl PatchError {
    /// The HTTP status that the server answers with.
    pub fn code(&self) -> u16 {
        match self {
            Self::BadRequest(_) => 400,
            Self::TooLarge(_) => 413,
            Self::Unprocessable(_) => 422,
            Self::Internal(_) => 500,
        }
    }
}
