//! Patches and server-side apply: how two versions of an object become one.
//!
//! Everything here is a function of JSON values: no clock, no randomness, no I/O. The results, and
//! the words of the refusals, are those of a kube-apiserver.
//!
//! - [`json_patch`] and [`merge_patch`] need nothing but the document and the patch.
//! - [`strategic`] and [`managed`] need the [`Shape`] of the type: which lists are sets or maps by
//!   keys, which maps are replaced as a whole.
//! - [`fields`] is the set of fields that one manager owns, as `metadata.managedFields` writes it.
//!
//! No input makes this crate panic. Lists are indexed by their keys, so the time taken grows with
//! the size of the object, times the logarithm of its longest list.

mod go;
mod ordered;
mod refusal;
mod time;
mod typed;

pub mod fields;
pub mod json_patch;
pub mod managed;
pub mod merge_patch;
pub mod shape;
pub mod strategic;

pub use fields::FieldSet;
pub use refusal::PatchError;
pub use shape::Shape;
