//! `kubevirt-operator run` as a process, with settings, signals, probes, metrics and a log.
//!
//! Each test has a sandbox in the test's process, which the operator reaches over TLS with exactly the
//! rights of config/rbac. Tests that wait for a Lease to expire are ignored by default, and run with
//! `cargo test -p kubevirt-operator --test process -- --ignored`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod cluster;
mod log;
mod probes;
mod program;
mod settings;
mod signals;
mod webhook;
