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
mod backends;
mod body;
mod bootstrap;
mod clock;
mod content;
mod controllers;
mod decode;
mod discovery;
mod extension;
mod gate;
mod go_json;
mod jsonpath;
mod limits;
mod object;
mod openapi;
mod output;
mod parts;
mod policy;
mod quota;
mod random;
mod registry;
mod request;
mod respond;
mod route;
mod rules;
mod selector;
pub mod serve;
mod server;
mod status;
mod store;
mod table;
mod verbs;
mod webhooks;

pub use admission::webhook::Operation;
pub use auth::User;
pub use backends::Backend;
pub use body::Body;
pub use extension::{Admission, Definitions, Denial, Extension, ExtensionRequest, Refusal, Review};
pub use request::ResourcePath;
pub use server::{ApiServer, InProcess, Options};
pub use status::{ApiError, Cause, Details, Named};
pub use store::{Entry, JournalError, Record};
