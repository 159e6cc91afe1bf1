//! The plan of an installation of KubeVirt, on a small cluster that does as it is told.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod actors;
mod behaviours;
mod installing;
mod order;
mod properties;
mod release;
mod removing;
mod repairing;
mod updating;
mod upkeep;
mod world;
