//! The cases on the API server of `KUBECONFIG`: `e2e/run conformance`.
//!
//! `CONFORMANCE_LEVEL` is `essence`, for any release, unless it says `exact`, for the recorded one.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use std::{env, process::Command};

#[test]
#[ignore = "needs a real API server: e2e/run conformance"]
fn a_real_server_responds_as_recorded() {
    let kubeconfig = env::var_os("KUBECONFIG").expect("KUBECONFIG is set: run e2e/run conformance");
    let level = env::var_os("CONFORMANCE_LEVEL").unwrap_or_else(|| "essence".into());
    let status = Command::new(env!("CARGO_BIN_EXE_conformance"))
        .args(["run", "--kubeconfig"])
        .arg(kubeconfig)
        .arg("--level")
        .arg(level)
        .status()
        .unwrap();
    assert!(status.success(), "{status}");
}
