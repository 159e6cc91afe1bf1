//! Fault campaign: both operators in the sandbox on virtual time. A seed is a run that repeats
//! exactly; oracles judge every write to the API server's store.
#![allow(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "a harness that cannot be set up fails by panicking"
)]
#![allow(
    clippy::needless_pass_by_value,
    reason = "specs are literals, which read better without a reference"
)]

mod cluster;
pub mod decision;
mod history;
#[path = "../../operator/tests/scenarios/kinds.rs"]
#[allow(dead_code, clippy::panic, reason = "the scenarios use the rest")]
mod kinds;
pub mod minimise;
mod network;
#[path = "../../operator/tests/harness/objects.rs"]
#[allow(dead_code, reason = "the scenarios use the rest")]
mod objects;
mod oracles;
mod replica;
pub mod run;
pub mod scenarios;
mod user;
pub mod workload;

pub use oracles::Violation;
