//! What a write would make of an object, without making it: for people who want to know before.

mod changes;
mod overlay;
mod restart;

pub use changes::{Change, changes};
pub use overlay::overlay;
pub use restart::restart_needed;
