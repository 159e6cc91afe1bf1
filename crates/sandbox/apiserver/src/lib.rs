//! The Kubernetes API in memory.

pub mod admission;
pub mod auth;
mod label_selector;
pub mod serve;
mod status;

pub use status::{ApiError, Cause, Details, Named};
