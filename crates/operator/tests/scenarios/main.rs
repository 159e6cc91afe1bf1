//! Scenarios of users and their Machines.
//!
//! By default each runs on a sandbox of its own in virtual time. With `KUBECONFIG_E2E` the same
//! scenarios run on that cluster in real time, each in a namespace of its own, with the sandbox's actors
//! beside it. A scenario that needs a whole cluster then has a kube-apiserver of its own, which e2e/run
//! starts; a scenario that neither supports is skipped, and counted as such.
//!
//! The operator runs with exactly the rights of config/rbac.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

#[path = "../harness/lib.rs"]
#[allow(dead_code, reason = "each suite needs a part of it")]
mod harness;
mod kinds;
mod quota;
mod recording;
mod scenario;

mod access;
mod addresses;
mod admission;
mod adoption;
mod children;
mod classes;
mod cloud_init;
mod clusters;
mod costs;
mod creation;
mod data_loss;
mod deletion;
mod digests;
mod disks;
mod domain;
mod drift;
mod errors;
mod foreign_objects;
mod hardware;
mod health;
mod hostile;
mod ledgers;
mod metrics;
mod networks;
mod orphans;
mod ownership;
mod placement;
mod plan;
mod plugin;
mod power;
mod process;
mod protection;
mod providers;
mod spec_changes;
mod stack;
mod upgrade;
mod viti_definitions;
mod viti_programs;
mod viti_status;

use harness::{Suite, fault_injection, runner};

const SUITE: Suite = Suite {
    account: (
        "kubevirt-operator-system",
        "kubevirt-operator-controller-manager",
    ),
    setup: || sandbox::Setup {
        definitions: harness::own_definitions(),
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
