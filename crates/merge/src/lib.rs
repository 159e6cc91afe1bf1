//! Patches and server-side apply: merging of two versions of an object.
//!
//! All functions work on JSON values: no clock, no randomness, no I/O. Results and error messages are
//! those of a kube-apiserver.
//!
//! - [`json_patch`] and [`merge_patch`] need only the document and the patch.
//! - [`strategic`] and [`managed`] need the [`Shape`] of the type: which lists are sets or maps by
//!   keys, and which maps are atomic.
//! - [`fields`] is the set of fields that one manager owns, in the format of `metadata.managedFields`.
//!
//! No input makes this crate panic. Lists are indexed by their keys, so time grows with the size of
//! the object times the logarithm of its longest list.

mod go;
mod ordered;
mod patch_error;
mod time;
mod typed;

pub mod fields;
pub mod json_patch;
pub mod managed;
pub mod merge_patch;
pub mod shape;
pub mod strategic;

pub use fields::FieldSet;
pub use patch_error::PatchError;
pub use shape::Shape;
