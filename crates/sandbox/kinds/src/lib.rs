//! The kinds that every Kubernetes cluster has: their schemas, defaults, rules and columns.
//!
//! Everything here is a function of JSON values: no store, no clock, no random source. An API
//! server takes an object through [`decode()`], [`default()`], [`prepare_create`] or
//! [`prepare_update`], [`admit_create`] or [`admit_update`], `schema::metadata` and [`validate()`], in that order. What
//! comes out is what a kube-apiserver would store, and the refusals are in its words.

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
pub use scale::{scale, set_scale};
pub use service::{Allocator, allocate_service};
pub use strategy::{admit_create, admit_priority, admit_update, prepare_create, prepare_update};
pub use type_info::{component, schema};
pub use validate::validate;

/// All built-in kinds, group by group.
pub fn all() -> &'static [Kind] {
    builtin::KINDS
}

/// The kind that is served at `plural` in a group and version.
pub fn find(group: &str, version: &str, plural: &str) -> Option<&'static Kind> {
    all()
        .iter()
        .find(|kind| kind.group == group && kind.version == version && kind.plural == plural)
}
