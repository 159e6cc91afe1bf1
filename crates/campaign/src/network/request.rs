//! Record of a request.

use http::Method;
use serde_json::Value;
use tokio::time::Instant;

/// A request that reached the API server.
#[derive(Clone, Debug)]
pub struct SentRequest {
    /// `None` for watches and Lease requests.
    pub index: Option<u32>,
    pub at: Instant,
    /// Identity of the process that sent it.
    pub identity: String,
    pub method: Method,
    /// Path and query.
    pub uri: String,
    pub body: Value,
    /// Status code of the answer.
    pub status: u16,
    /// Revision of the store before it.
    pub before: u64,
    /// Revision of the store after it.
    pub after: u64,
}

impl SentRequest {
    pub fn is_of_lease(&self) -> bool {
        is_of_lease(&self.uri)
    }

    pub fn is_write(&self) -> bool {
        self.method != Method::GET
    }

    pub fn succeeded(&self) -> bool {
        (200..300).contains(&self.status)
    }

    pub fn path(&self) -> &str {
        self.uri
            .split_once('?')
            .map_or(self.uri.as_str(), |(path, _)| path)
    }

    /// Plural of the resource and key of the object: `namespace/name`, or the name alone. The name of
    /// a new object is in the body.
    pub fn target(&self) -> Option<(String, String)> {
        let parts: Vec<_> = self
            .path()
            .split('/')
            .filter(|part| !part.is_empty())
            .collect();
        let (["api", _, rest @ ..] | ["apis", _, _, rest @ ..]) = parts.as_slice() else {
            return None;
        };
        let (namespace, rest) = match rest {
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (Some(*namespace), rest),
            rest => (None, rest),
        };
        let (resource, rest) = rest.split_first()?;
        let name = match rest.first() {
            Some(name) => (*name).to_owned(),
            None => self.body["metadata"]["name"].as_str()?.to_owned(),
        };
        let key = match namespace {
            Some(namespace) => format!("{namespace}/{name}"),
            None => name,
        };
        Some(((*resource).to_owned(), key))
    }

    /// Whether it is for a subresource, such as the status.
    pub fn is_of_part(&self) -> bool {
        self.path().ends_with("/status") || self.path().contains("/subresources.")
    }
}

pub(super) fn is_of_lease(uri: &str) -> bool {
    uri.contains("/leases")
}

pub(super) fn is_watch(uri: &str) -> bool {
    uri.contains("watch=true") || uri.contains("watch=1")
}
