//! What has a say between a request and the store: admission webhooks.

mod warning;
pub mod webhook;

pub use warning::warning_headers;
