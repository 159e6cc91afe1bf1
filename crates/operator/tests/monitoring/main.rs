//! Alerts, dashboard and runbooks, compared with the operators' metrics.
//!
//! promtool and Prometheus (Debian's package prometheus) evaluate rules and queries: `cargo test -p
//! kubevirt-operator --test monitoring -- --ignored`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

#[allow(dead_code, reason = "other tests need more of it")]
#[path = "../process/cluster.rs"]
mod cluster;
#[allow(dead_code, reason = "other tests need more of it")]
#[path = "../process/program.rs"]
mod program;
#[path = "../it/sample_metrics.rs"]
mod sample_metrics;

mod dashboard;
mod files;
mod prometheus;
mod queries;
mod rules;
