//! Admission webhooks: which are called for a request, what they are asked, what they answer, and
//! what becomes of their failures.
//!
//! [`Request`] and the configurations decide everything. Only a transport reaches out, and the one
//! that does it over the network, [`Https`], dials nothing but loopback addresses. Webhooks are
//! called in the order of their configurations' names and of their place in them: mutating ones one
//! after the other, each seeing what those before it have changed; validating ones at the same
//! time. Objects reach a webhook that asks for another version of their resource with that
//! version's `apiVersion`, and are otherwise not converted.

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

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// It creates an object.
    Create,
    /// It changes one.
    Update,
    /// It deletes one.
    Delete,
    /// It connects to one, as `exec` does.
    Connect,
}

impl Operation {
    /// The word that configurations and reviews have for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }
}

/// A resource in one version, with its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_field_names, reason = "the API's own names")]
pub struct Resource<'a> {
    /// The API group; empty for core.
    pub group: &'a str,
    /// The version.
    pub version: &'a str,
    /// The resource (plural).
    pub resource: &'a str,
    /// The kind of what is sent, which for a subresource may be another one, such as `Scale`.
    pub kind: &'a str,
}

impl Resource<'_> {
    /// The `apiVersion` of its objects.
    pub fn api_version(&self) -> String {
        match self.group {
            "" => self.version.to_owned(),
            group => format!("{group}/{}", self.version),
        }
    }
}

/// A request that asks for admission.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// What it does.
    pub operation: Operation,
    /// What it is about.
    pub resource: Resource<'a>,
    /// The same resource in other versions, for webhooks that ask for one of those.
    pub equivalents: &'a [Resource<'a>],
    /// The subresource; empty for none.
    pub subresource: &'a str,
    /// The object's name; empty where it has none yet.
    pub name: &'a str,
    /// The namespace; empty for the whole cluster. A request for a namespace has its name here too.
    pub namespace: &'a str,
    /// The labels of that namespace; `None` where there is no such namespace.
    pub namespace_labels: Option<&'a Value>,
    /// The object as it is to be.
    pub object: Option<&'a Value>,
    /// The object as it is.
    pub old_object: Option<&'a Value>,
    /// Who sends the request.
    pub user: &'a User,
    /// Whether nothing is to be stored.
    pub dry_run: bool,
    /// The options, such as `CreateOptions`.
    pub options: &'a Value,
}

#[cfg(test)]
mod tests;
