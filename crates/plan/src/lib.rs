//! The pure half of the operators: what to do, as a function of what was observed.
//!
//! Nothing here performs I/O, reads a clock or draws a random number; the dependencies of this
//! crate make sure of it. The same input gives the same bytes, so the controllers, the everyday
//! commands and the tests all run the same functions.

pub mod admission;
pub mod certificates;
mod conditions;
mod event;
mod fingerprint;
pub mod kubevirt;
pub mod machine;
pub mod managed;
pub mod naming;
pub mod network;
pub mod null;
pub mod preview;
mod sizes;
pub mod webhook_certificate;

pub use event::{Event, Severity};
pub use fingerprint::Fingerprint;
pub use quantity::Quantity;
