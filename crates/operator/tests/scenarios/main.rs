//! Stories of users and their Machines.
//!
//! By default each runs on a sandbox of its own, on paused time. With `KUBECONFIG_E2E` the same
//! stories run on that cluster in real time, each in a namespace of its own, with the sandbox's actors
//! beside it. A story that needs a whole cluster has a kube-apiserver of its own then, which e2e/run
//! starts; one that neither can show is skipped, and counted so.
//!
//! The operator runs with exactly the rights of config/rbac.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod kinds;
mod quota;
mod record;
#[path = "../stories/lib.rs"]
#[allow(dead_code, reason = "each suite needs a part of it")]
mod stories;
mod story;

mod admission;
mod birth;
mod change;
mod children;
mod classes;
mod costs;
mod digests;
mod disks;
mod end;
mod errors;
mod figures;
mod health;
mod hostile;
mod loss;
mod networks;
mod orphans;
mod ours;
mod ownership;
mod plan;
mod power;
mod process;

use stories::{Suite, ground, line};

const SUITE: Suite = Suite {
    account: (
        "kubevirt-operator-system",
        "kubevirt-operator-controller-manager",
    ),
    setup: || sandbox::Setup {
        definitions: stories::own_definitions(),
        ..sandbox::Setup::seeded(1)
    },
    rights: &[
        "rbac/00_namespace.yaml",
        "rbac/service_account.yaml",
        "rbac/role.yaml",
        "rbac/role_binding.yaml",
        "rbac/leader_election_role.yaml",
    ],
};
