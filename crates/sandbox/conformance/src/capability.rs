//! Capabilities of an API server, found by probing it.
//!
//! A case that needs a missing capability is skipped, and the report names it.

use std::collections::BTreeSet;
use std::fmt;

use kube::Client;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::exchange::{self, Outgoing};
use crate::wait;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub enum Capability {
    /// Rules in the schemas of CustomResourceDefinitions.
    Cel,
    /// Watches that begin with a list (`sendInitialEvents`).
    StreamingLists,
    /// Garbage collection, and deletion of namespaces.
    Controllers,
    /// `fieldValidation`.
    FieldValidation,
    /// Discovery of everything in one request.
    AggregatedDiscovery,
    /// OpenAPI version 3.
    OpenApi,
    /// The server can reach the runner's webhook server.
    Webhooks,
    /// Behaviour since version 1.n.
    Minor(u32),
}

impl TryFrom<String> for Capability {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        Ok(match name.as_str() {
            "cel" => Self::Cel,
            "streaming-lists" => Self::StreamingLists,
            "controllers" => Self::Controllers,
            "field-validation" => Self::FieldValidation,
            "aggregated-discovery" => Self::AggregatedDiscovery,
            "openapi" => Self::OpenApi,
            "webhooks" => Self::Webhooks,
            other => other
                .strip_prefix("v1.")
                .and_then(|minor| minor.parse().ok())
                .map(Self::Minor)
                .ok_or_else(|| format!("there is no capability {other:?}"))?,
        })
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cel => f.write_str("CEL"),
            Self::StreamingLists => f.write_str("streaming lists"),
            Self::Controllers => f.write_str("controllers"),
            Self::FieldValidation => f.write_str("field validation"),
            Self::AggregatedDiscovery => f.write_str("aggregated discovery"),
            Self::OpenApi => f.write_str("OpenAPI v3"),
            Self::Webhooks => f.write_str("webhooks"),
            Self::Minor(minor) => write!(f, "v1.{minor}"),
        }
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Capabilities {
    /// As `v1.37`.
    pub version: String,
    minor: u32,
    found: BTreeSet<Capability>,
}

impl Capabilities {
    pub(crate) fn has(&self, capability: Capability) -> bool {
        match capability {
            Capability::Minor(minor) => self.minor >= minor,
            other => self.found.contains(&other),
        }
    }

    pub(crate) fn add(&mut self, capability: Capability) {
        self.found.insert(capability);
    }

    /// Probes the server. `name` is a prefix for the objects that the probes create.
    pub(crate) async fn probe(client: &Client, name: &str) -> Result<Self, exchange::Error> {
        let version = exchange::send(client, Outgoing::get("/version")).await?;
        let field = |key| version.body.get(key).and_then(Value::as_str).unwrap_or("0");
        let digits: String = field("minor")
            .chars()
            .take_while(char::is_ascii_digit)
            .collect();
        let minor = digits.parse().unwrap_or(0);
        let mut capabilities = Self {
            version: format!("v{}.{minor}", field("major")),
            minor,
            found: BTreeSet::new(),
        };
        for (capability, found) in [
            (Capability::Cel, cel(client, name).await?),
            (Capability::StreamingLists, streaming_lists(client).await?),
            (Capability::Controllers, controllers(client, name).await?),
            (
                Capability::FieldValidation,
                field_validation(client, name).await?,
            ),
            (
                Capability::AggregatedDiscovery,
                aggregated_discovery(client).await?,
            ),
            (Capability::OpenApi, open_api(client).await?),
        ] {
            if found {
                capabilities.add(capability);
            }
        }
        Ok(capabilities)
    }
}

/// An old server drops unknown fields such as rules.
async fn cel(client: &Client, name: &str) -> Result<bool, exchange::Error> {
    let group = format!("{name}.example.com");
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("probes.{group}")},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "probes", "kind": "Probe"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {
                "openAPIV3Schema": {
                    "type": "object",
                    "x-kubernetes-validations": [{"rule": "has(self.metadata)"}],
                },
            }}],
        },
    });
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions?dryRun=All";
    let response = exchange::send(client, Outgoing::post(path, &definition)).await?;
    let rules = "/spec/versions/0/schema/openAPIV3Schema/x-kubernetes-validations";
    Ok(response.code == 201 && response.body.pointer(rules).is_some())
}

/// A server without them ignores the parameter and accepts the invalid combination.
async fn streaming_lists(client: &Client) -> Result<bool, exchange::Error> {
    let path = "/api/v1/namespaces?watch=true&timeoutSeconds=1&sendInitialEvents=true\
                &resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let response = exchange::send(client, Outgoing::get(path)).await?;
    let text = response.body.to_string();
    Ok(response.code == 200 && text.contains("k8s.io/initial-events-end"))
}

async fn controllers(client: &Client, name: &str) -> Result<bool, exchange::Error> {
    let name = format!("{name}-probe");
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    exchange::send(client, Outgoing::post("/api/v1/namespaces", &namespace)).await?;
    let path = format!("/api/v1/namespaces/{name}");
    exchange::send(client, Outgoing::new("DELETE", &path)).await?;
    for _ in 0..wait::MAX_ATTEMPTS / 4 {
        if exchange::send(client, Outgoing::get(&path)).await?.code == 404 {
            return Ok(true);
        }
        wait::pause().await;
    }
    crate::cleanup::finalize(client, &name).await?;
    Ok(false)
}

async fn field_validation(client: &Client, name: &str) -> Result<bool, exchange::Error> {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "unknown": true,
        "metadata": {"name": format!("{name}-fields")}});
    let path = "/api/v1/namespaces?dryRun=All&fieldValidation=Strict";
    Ok(exchange::send(client, Outgoing::post(path, &namespace))
        .await?
        .code
        == 400)
}

async fn aggregated_discovery(client: &Client) -> Result<bool, exchange::Error> {
    let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let response = exchange::send(client, Outgoing::get("/apis").header("accept", accept)).await?;
    Ok(response.body.get("kind").and_then(Value::as_str) == Some("APIGroupDiscoveryList"))
}

async fn open_api(client: &Client) -> Result<bool, exchange::Error> {
    Ok(exchange::send(client, Outgoing::get("/openapi/v3"))
        .await?
        .code
        == 200)
}
