//! Pure planners of the operators: desired state, next actions and status from observed state.
//!
//! No function performs I/O, reads a clock or draws a random number; the crate's dependencies offer
//! none of these. The same input gives the same bytes, so controllers, commands and tests share the code.

pub mod admission;
pub mod certificates;
mod conditions;
pub mod diagnosis;
mod event;
mod fingerprint;
mod id;
pub mod kubevirt;
pub mod machine;
pub mod machine_provider;
pub mod managed;
pub mod naming;
pub mod network;
pub mod null;
pub mod preview;
pub mod served_fields;
pub mod simulation;
mod sizes;
mod step;
pub mod upstream_messages;
pub mod webhook_certificate;

pub use event::{Event, Severity};
pub use fingerprint::Fingerprint;
pub use id::Id;
pub use quantity::Quantity;
pub use step::Step;
