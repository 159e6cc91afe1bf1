//! Stories of users and their Machines.
//!
//! By default each is told on a sandbox of its own, on paused time. With `KUBECONFIG_E2E` the same
//! stories are told on that cluster, each in a namespace of its own, in real time, with the
//! sandbox's actors beside it; what needs more than a kube-apiserver is then left out, and said so.
//!
//! The operator runs with exactly the rights of config/rbac.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

#[path = "../actors/empty_texts.rs"]
mod empty_texts;

mod ground;
mod kinds;
mod line;
mod objects;
mod paused;
mod real;
mod record;
mod story;

mod admission;
mod birth;
mod change;
mod children;
mod classes;
mod costs;
mod disks;
mod end;
mod errors;
mod figures;
mod health;
mod hostile;
mod networks;
mod ours;
mod ownership;
mod plan;
mod power;
mod process;
