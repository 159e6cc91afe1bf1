//! Operations on values of a known shape: validation, comparison, merging and removal of fields.
//!
//! A value may be absent, which is not the same as null: an absent side of a comparison means that
//! the field was added or removed.

mod combine;
mod compare;
mod items;
mod owned;
mod reconcile;
mod remove;
mod validate;

pub(crate) use combine::combine;
pub(crate) use compare::{Comparison, compare};
pub(crate) use owned::{field_set, with_declared_fields};
pub(crate) use reconcile::reconcile;
pub(crate) use remove::remove;
pub(crate) use validate::{Duplicates, validate};

#[cfg(test)]
mod tests;
