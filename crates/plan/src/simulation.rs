//! Simulated API server: objects in memory, written as the API server writes them.
//!
//! [`Server`] executes the writes of plans for the `plan` commands and for tests. What other controllers
//! do next is up to the simulations that contain it: [`crate::machine::simulation`] of Machines and
//! [`crate::kubevirt::simulation`] of an installation.
//!
//! Guarantees:
//! - A write that changes an object gives it a new resourceVersion; a change of its spec increments its
//!   generation. A write that changes nothing has no effect.
//! - UIDs are never reused, and a write with the UID or resourceVersion of another state is refused.
//! - A terminating object exists until its last finalizer is removed.
//!
//! There is one field manager, and no validation, admission or garbage collection.

mod server;
#[cfg(test)]
mod tests;

pub use server::{Server, ServerError, Stored, Written};
