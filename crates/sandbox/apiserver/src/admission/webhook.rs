//! Admission webhooks: matching, calls, answers and failure policies.
//!
//! The result depends only on the [`Request`] and the configurations; I/O happens in the
//! [`Transport`]. The network transport, [`Https`], dials loopback addresses only. Webhooks are
//! called in the order of their configurations' names and of their position in them: mutating ones
//! one after the other, each with the changes of those before; validating ones in parallel.
//!
//! Objects are not converted: a webhook that asks for another version gets the object with that
//! version's `apiVersion`.

mod call;
mod dispatch;
mod hook;
mod https;
mod match_conditions;
mod matching;
mod review;
mod verifier;

use serde_json::Value;

pub use call::{Endpoint, Reply, Transport};
pub use dispatch::{mutate, validate};
pub use https::{Https, Services};
pub use verifier::check_certificate;

use crate::auth::User;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Create,
    Update,
    Delete,
    /// Such as `exec`.
    Connect,
}

impl Operation {
    /// The operation's name in configurations and reviews.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }
}

/// GroupVersionResource with its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_field_names, reason = "the API's own names")]
pub struct Resource<'a> {
    /// Empty for core.
    pub group: &'a str,
    pub version: &'a str,
    /// Plural name.
    pub resource: &'a str,
    /// Kind of the request body; for a subresource it may differ, such as `Scale`.
    pub kind: &'a str,
}

impl Resource<'_> {
    pub fn api_version(&self) -> String {
        match self.group {
            "" => self.version.to_owned(),
            group => format!("{group}/{}", self.version),
        }
    }
}

/// Input of admission.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    pub operation: Operation,
    pub resource: Resource<'a>,
    /// The same resource in other versions, for `matchPolicy: Equivalent`.
    pub equivalents: &'a [Resource<'a>],
    /// Empty for none.
    pub subresource: &'a str,
    /// Empty while the name is not generated yet.
    pub name: &'a str,
    /// Empty for cluster scope. For a Namespace object, its own name.
    pub namespace: &'a str,
    /// `None` if the namespace does not exist.
    pub namespace_labels: Option<&'a Value>,
    pub object: Option<&'a Value>,
    pub old_object: Option<&'a Value>,
    pub user: &'a User,
    pub dry_run: bool,
    /// `CreateOptions`, `UpdateOptions` or `DeleteOptions`.
    pub options: &'a Value,
}

#[cfg(test)]
mod tests;
