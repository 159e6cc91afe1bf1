//! Preview of writes: their effect on an object, computed without sending them.

mod changes;
mod overlay;
mod restart;

pub use changes::{Change, changes};
pub use overlay::overlay;
pub use restart::restart_needed;
