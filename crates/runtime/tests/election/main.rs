//! Leader election, on an API server in memory and in virtual time: a minute takes no time, and
//! every run is the same.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod fencing;
mod network;
mod terms;
