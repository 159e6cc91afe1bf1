//! Scenarios of KubeVirt's installation, upgrade, repair and removal.
//!
//! Each runs on a sandbox of its own in virtual time; or, with `KUBECONFIG_E2E`, on a kube-apiserver of
//! its own in real time. The operator runs with exactly the rights of config/rbac/virt-operator.
//! Strategies are the sandbox's synthetic ones; some scenarios also run with those of real releases, from
//! the folder that `KUBEVIRT_OPERATOR_DATA` names, which is ignored by default.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod deadlines;
#[path = "../harness/lib.rs"]
#[allow(dead_code, reason = "each suite needs a part of it")]
mod harness;
mod inventory;
mod recording;
mod scenario;

mod admission;
mod certificates;
mod costs;
mod crashes;
mod customize;
mod drift;
mod faults;
mod install;
mod machines;
mod monitoring;
mod preview;
mod releases;
mod removal;
mod strategy;
mod takeover;
mod upgrade;

use harness::{Suite, fault_injection};

const SUITE: Suite = Suite {
    account: (scenario::NAMESPACE, "kubevirt-operator"),
    setup: || sandbox::Setup {
        kubevirt: sandbox::KubeVirtMode::Managed,
        ..sandbox::Setup::seeded(1)
    },
    rights: &[
        "rbac/virt-operator/rbac.yaml",
        "rbac/virt-operator/strategy_job.yaml",
    ],
};
