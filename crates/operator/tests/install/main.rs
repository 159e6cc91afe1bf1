//! Stories of KubeVirt itself: how it is installed, upgraded, healed and removed.
//!
//! Each runs on a sandbox of its own, on paused time; or, with `KUBECONFIG_E2E`, on a kube-apiserver of
//! its own, in real time. The operator runs with exactly the rights of config/rbac/virt-operator. Strategies are the sandbox's synthetic ones; what is told of real ones
//! reads them from the folder that `KUBEVIRT_OPERATOR_DATA` names, and is left out, and said so, where
//! it is not set.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod census;
mod film;
mod ground;
#[path = "../stories/lib.rs"]
#[allow(dead_code, reason = "each suite needs a part of it")]
mod stories;
mod waits;

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
mod real_data;
mod removal;
mod strategy;
mod takeover;
mod upgrade;

use stories::{Suite, line};

const SUITE: Suite = Suite {
    account: (ground::NAMESPACE, "kubevirt-operator"),
    setup: || sandbox::Setup {
        kubevirt: sandbox::KubeVirtMode::Managed,
        ..sandbox::Setup::seeded(1)
    },
    rights: &[
        "rbac/virt-operator/rbac.yaml",
        "rbac/virt-operator/strategy_job.yaml",
    ],
};
