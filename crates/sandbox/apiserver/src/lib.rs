//! In-memory kube-apiserver.
//!
//! An [`ApiServer`] stores objects, serves them to any number of clients, and runs the controllers
//! that every cluster needs: garbage collector, namespace controller, CustomResourceDefinition
//! controllers, ClusterRole aggregation, ResourceQuota. It is a `tower::Service`: tests use it
//! through a `kube::Client` without a socket, people with kubectl through TLS on the loopback
//! interface. Time is tokio's and randomness comes from a seed, so a run on paused time repeats
//! exactly.
//!
//! Any difference from a real kube-apiserver is a bug. Features that are missing are refused by
//! name, never ignored.

mod admission;
mod auth;
mod body;
mod bootstrap;
mod clock;
mod controllers;
mod decode;
mod discovery;
mod extension;
mod go_json;
mod jsonpath;
mod limits;
mod object;
mod openapi;
mod output;
mod quota;
mod random;
mod registry;
mod request;
mod respond;
mod route;
mod selector;
mod serializer;
pub mod serve;
mod server;
mod service_backends;
mod status;
mod store;
mod stored_policy;
mod subresources;
mod table_convertor;
mod upgrade;
mod validation;
mod verbs;

pub use admission::webhook::Operation;
pub use auth::User;
pub use body::Body;
pub use extension::{
    Admission, Connecting, Definitions, Denial, Extension, ExtensionRequest, Refusal, Review,
};
pub use request::ResourcePath;
pub use server::{ApiServer, InProcess, Options};
pub use service_backends::Backend;
pub(crate) use status::ApiResult;
pub use status::{ApiError, Cause, Details, ObjectRef};
pub use store::{JournalError, LoggedWrite, WriteLog};
pub use upgrade::{Tunnel, Upgraded};
