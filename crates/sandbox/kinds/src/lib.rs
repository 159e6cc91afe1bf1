//! The kinds that every Kubernetes cluster has: their schemas, defaults, rules and columns.
//!
//! Everything here is a function of JSON values: no store, no clock, no random source. An API
//! server takes an object through [`decode()`], [`default()`], [`prepare_create`] or
//! [`prepare_update`], [`admit_create`] or [`admit_update`], `schema::metadata` and [`validate()`], in that order. What
//! comes out is what a kube-apiserver would store, and the refusals are in its words.

mod decode;
mod default;
mod empty;
mod event;
mod facts;
mod fields;
mod kind;
pub mod openapi;
mod prepare;
mod print;
mod protobuf;
mod scale;
mod selector;
mod service;
mod table;
mod validate;
mod value;

pub use decode::decode;
pub use default::default;
pub use empty::empty;
pub use event::convert_event;
pub use facts::{component, schema};
pub use fields::{field_labels, field_value};
pub use kind::{ANSWERED, Kind, NameRule, STORED, Subresource};
pub use prepare::{admit_create, admit_priority, admit_update, prepare_create, prepare_update};
pub use print::{Column, age, cells, columns};
pub use protobuf::{ProtobufError, from_protobuf};
pub use scale::{scale, set_scale};
pub use service::{Allocator, allocate_service};
pub use validate::validate;

/// All built-in kinds, group by group.
pub fn all() -> &'static [Kind] {
    table::KINDS
}

/// The kind that is served at `plural` in a group and version.
pub fn find(group: &str, version: &str, plural: &str) -> Option<&'static Kind> {
    all()
        .iter()
        .find(|kind| kind.group == group && kind.version == version && kind.plural == plural)
}
