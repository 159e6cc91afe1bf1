//! Robustness of the API server: every request gets a response within bounds of memory and time.
//!
//! The tests call the server in their own thread, so they also fail if a handler panics.
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
