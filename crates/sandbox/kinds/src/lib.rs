//! The kinds that every Kubernetes cluster has: their schemas, defaults, rules and columns.
//!
//! Everything here is a function of JSON values: no store, no clock, no random source. An API
//! server takes an object through [decode
//! [`prepare_create`] or [`prepare_update`], and [`validate`](validate()), in that order. What
//! comes out is what a kube-apiserver would store, and the refusals are in its words.

mod decode;
mod facts;
mod kind;
mod table;

pub use decode::decode;
pub use facts::{component, schema};
pub use kind::{ANSWERED, Kind, NameRule, STORED, Subresource};

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
