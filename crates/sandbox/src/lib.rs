//! Cluster in one process: an in-memory Kubernetes API, and actors that behave like nodes, storage
//! and KubeVirt.
//!
//! [`Cluster`] runs without a socket, on tokio's clock and from one seed: tests use it.
//! [`Sandbox`] serves a cluster on the loopback interface, for kubectl. Neither depends on the
//! operators.

mod cdi;
mod cluster;
mod guest;
mod kubevirt;
mod listen;
mod seed;
pub mod view;
pub mod virt_api;

pub use actors::{
    Component, Speed, World, faults,
    kubevirt::{Mode as KubeVirtMode, Strategies, synthetic_objects, synthetic_strategy},
    nodes::SIMULATED as NODE_LABEL,
    run as run_actors,
};
pub use apiserver::{ApiServer, Backend, JournalError, LoggedWrite, WriteLog, serve};
pub use cluster::{Cluster, Setup};
pub use listen::{Options, Sandbox, StartError};
pub use seed::{ApplyError, apply, delete_crds, install_crds};
