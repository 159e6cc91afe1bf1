//! A whole cluster in one process: the Kubernetes API in memory, and actors that behave as nodes,
//! storage and KubeVirt do.
//!
//! [`Cluster`] is that, without a socket: the ground of tests, on tokio's time and from one seed.
//! [`Sandbox`] puts it on the loopback interface, for kubectl and for people. Neither knows of the
//! operators that are tried in it.

mod cdi;
mod cluster;
mod furnish;
mod kubevirt;
mod listen;
pub mod view;
pub mod virt_api;

pub use actors::{
    Component, Speed, World, faults,
    kubevirt::{Mode as KubeVirtMode, Strategies, synthetic_objects, synthetic_strategy},
    nodes::SIMULATED as NODE_LABEL,
    run as act,
};
pub use apiserver::{ApiServer, Backend, Entry, JournalError, Record, serve};
pub use cluster::{Cluster, Setup};
pub use furnish::{ApplyError, apply, define, undefine};
pub use listen::{Options, Sandbox, StartError};
