//! Leader election against an API server in memory on virtual time, so that every run is the same.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod fencing;
mod network;
mod terms;
