//! The Kubernetes API in memory.

mod status;

pub use status::{ApiError, Cause, Details, Named};
