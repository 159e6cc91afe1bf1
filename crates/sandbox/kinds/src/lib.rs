//! Built-in Kubernetes kinds: schemas, defaulting, strategies, validation and printer columns.
//!
//! Pure functions of JSON values: no store, clock or random source. An API server runs
//! [`decode()`], [`default()`], [`prepare_create`] or [`prepare_update`], [`admit_create`] or
//! [`admit_update`], `schema::metadata` and [`validate()`], in that order. The result is what
//! kube-apiserver would store; errors have its texts.

mod builtin;
mod decode;
mod default;
mod empty;
mod event;
mod field_selectors;
mod kind;
pub mod openapi;
mod printers;
mod protobuf;
mod scale;
mod selector;
mod service;
mod strategy;
mod type_info;
mod validate;
mod value;

pub use decode::decode;
pub use default::default;
pub use empty::empty;
pub use event::convert_event;
pub use field_selectors::{field_labels, field_value};
pub use kind::{CREATE_ONLY_VERBS, Kind, NameRule, STORED_VERBS, Subresource};
pub use printers::{Column, age, cells, columns};
pub use protobuf::{ProtobufError, from_protobuf};
pub use scale::{scale, scale_metadata, set_scale};
pub use service::{Allocator, allocate_service};
pub use strategy::{admit_create, admit_priority, admit_update, prepare_create, prepare_update};
pub use type_info::{component, schema};
pub use validate::validate;

/// Ordered by group.
pub fn all() -> &'static [Kind] {
    builtin::KINDS
}

pub fn find(group: &str, version: &str, plural: &str) -> Option<&'static Kind> {
    all()
        .iter()
        .find(|kind| kind.group == group && kind.version == version && kind.plural == plural)
}
