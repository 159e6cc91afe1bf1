//! Whatever is asked of it, the API server answers, within bounds of memory and time, and goes on.
//!
//! A panic in a handler would reach these tests, since they call the server in their own thread: each
//! of them also holds that nothing panics.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod bodies;
mod client;
mod conflicts;
mod definitions;
mod lists;
mod malformed;
mod network;
mod regressions;
mod watches;
