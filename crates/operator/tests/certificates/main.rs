//! The certificate of the Machine operator's webhook: kept by the operator with exactly the rights of
//! config/rbac/webhook_role.yaml, on virtual time; and what API servers do with webhooks that do not
//! answer as they should, over real TLS.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod denied;
mod external;
mod failures;
mod foreign;
mod ground;
mod keeping;
#[path = "../scenarios/paused.rs"]
mod paused;
