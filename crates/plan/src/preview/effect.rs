//! Effects of previewed writes.

use super::Change;
use crate::Id;

/// Effect of the writes on one object.
#[derive(Clone, Debug, PartialEq)]
pub struct Effect {
    pub verb: Verb,
    pub id: Id,
    /// Why, or what is created; may be empty.
    pub reason: String,
    /// Changed fields; without values if they are hidden.
    pub fields: Vec<Change>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    Create,
    Change,
    /// Deletes and creates, because an immutable field changes.
    Replace,
    /// Issues a certificate into a Secret.
    Issue,
    Delete,
    /// Deletes all objects of a definition.
    Empty,
}
