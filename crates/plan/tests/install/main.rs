//! Tests of the KubeVirt planner on a small simulated cluster.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod actors;
mod behaviours;
mod installing;
mod maximal;
mod order;
mod preview;
mod properties;
mod release;
mod removing;
mod repairing;
mod updating;
mod upkeep;
mod world;
