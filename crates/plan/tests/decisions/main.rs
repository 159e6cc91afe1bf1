//! Decisions of the plan about disks, instances and deletion, one situation each.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod adoption;
mod data_volumes;
mod deletion;
mod disks;
mod guest;
mod import;
mod ledgers;
mod networks;
mod virtual_machine;
mod world;
