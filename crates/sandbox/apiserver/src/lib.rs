//! The Kubernetes API in memory.
//!
//! An [`ApiServer`] is one process's cluster: it stores objects, serves them to any number of
//! clients, and runs the controllers without which a cluster does not work (garbage collection,
//! namespaces, definitions). It is a `tower::Service`, so a test talks to it through a
//! `kube::Client` without a socket, and a person through TLS on the loopback interface with
//! kubectl. Its time is tokio's, and everything random comes from a seed: with tokio's time paused,
//! a run is exactly repeatable.
//!
//! Where it and a real kube-apiserver differ, it is wrong. What it does not have it refuses by
//! name; nothing is passed over in silence.

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
mod validation;
mod verbs;

pub use admission::webhook::Operation;
pub use auth::User;
pub use body::Body;
pub use extension::{Admission, Definitions, Denial, Extension, ExtensionRequest, Refusal, Review};
pub use request::ResourcePath;
pub use server::{ApiServer, InProcess, Options};
pub use service_backends::Backend;
pub use status::{ApiError, Cause, Details, ObjectRef};
pub use store::{JournalError, LoggedWrite, WriteLog};
