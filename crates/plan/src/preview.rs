//! Preview of writes: their effect on an object, computed without sending them.

mod changes;
mod effect;
mod overlay;
mod restart;

pub use changes::{Change, changes};
pub use effect::{Effect, Verb};
pub use overlay::overlay;
pub use restart::restart_needed;
