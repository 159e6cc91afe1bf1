//! `kubevirt-operator run` as the kubelet sees it: a process with settings, signals, probes, metrics
//! and a log.
//!
//! Each test has a sandbox of its own in the test's process, which the operator reaches over TLS with
//! exactly the rights of config/rbac. Tests that must wait for a Lease to run out are left out of
//! `cargo test`, and run with `cargo test -p kubevirt-operator --test process -- --ignored`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod ground;
mod log;
mod probes;
mod program;
mod settings;
mod signals;
mod webhook;
