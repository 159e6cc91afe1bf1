//! Operations on values of a known shape: validation, comparison, merging and removal of fields.
//!
//! A value may be absent, which is not the same as null: an absent side of a comparison means that
//! the field was added or removed.

mod compare;
mod field_set;
mod items;
mod merge;
mod reconcile;
mod remove;
mod validate;

pub(crate) use compare::{Comparison, compare};
pub(crate) use field_set::{to_field_set, with_declared_fields};
pub(crate) use merge::merge;
pub(crate) use reconcile::reconcile;
pub(crate) use remove::remove_items;
pub(crate) use validate::{Duplicates, validate};

#[cfg(test)]
mod tests;
