//! A fault campaign: both operators in a simulated cluster on virtual time, one seed a run that
//! repeats exactly, judged by oracles over everything that the API server's store took.
#![allow(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "a harness that cannot be set up fails by panicking"
)]
#![allow(
    clippy::needless_pass_by_value,
    reason = "specs are literals, which read better without a reference"
)]

pub mod decision;
mod ground;
mod history;
#[path = "../../operator/tests/scenarios/kinds.rs"]
#[allow(dead_code, clippy::panic, reason = "stories need more of it")]
mod kinds;
pub mod minimise;
#[path = "../../operator/tests/stories/objects.rs"]
#[allow(dead_code, reason = "stories need more of it")]
mod objects;
mod oracles;
mod replica;
pub mod run;
pub mod stories;
mod user;
mod wire;
pub mod workload;

pub use oracles::Violation;
