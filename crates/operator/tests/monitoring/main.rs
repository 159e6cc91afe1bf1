//! What is watched over: alerts, the dashboard and the runbooks, held against what the operators show.
//!
//! Whether rules and queries do what they should is asked of those who run them, promtool and
//! Prometheus (Debian's package prometheus):
//! `cargo test -p kubevirt-operator --test monitoring -- --ignored`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

#[allow(dead_code, reason = "other tests need more of it")]
#[path = "../process/ground.rs"]
mod ground;
#[allow(dead_code, reason = "other tests need more of it")]
#[path = "../process/program.rs"]
mod program;

mod dashboard;
mod files;
mod prometheus;
mod queries;
mod rules;
