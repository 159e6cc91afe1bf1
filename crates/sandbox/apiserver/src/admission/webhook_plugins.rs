//! MutatingAdmissionWebhook and ValidatingAdmissionWebhook plugins.
//!
//! Webhooks are called over HTTPS on loopback addresses, or in process; in-process calls still
//! verify the CA bundle and the known serving certificate.

use std::{
    net::SocketAddr,
    sync::{Arc, LazyLock},
};

use bytes::Bytes;
use http::StatusCode;
use merge::json_patch;
use serde_json::{Value, json};

use crate::{
    ApiError,
    admission::{
        WriteAttributes,
        webhook::{
            self, Endpoint, Https, Operation, Reply, Request, Resource, Services, Transport,
        },
    },
    limits, object,
    server::Shared,
    service_backends::ServiceLocation,
    store::TableId,
    verbs::Call,
};

const GROUP: &str = "admissionregistration.k8s.io";

/// Used by every write, so allocated once.
static MUTATING: LazyLock<TableId> =
    LazyLock::new(|| TableId::new(GROUP, "mutatingwebhookconfigurations"));
static VALIDATING: LazyLock<TableId> =
    LazyLock::new(|| TableId::new(GROUP, "validatingwebhookconfigurations"));

/// Transport that finds the backend of a Service.
struct ClusterTransport<'a>(&'a Shared);

struct KnownAddress(Option<SocketAddr>);

impl Services for KnownAddress {
    fn resolve(&self, _: &str, name: &str, _: u16) -> Result<SocketAddr, String> {
        self.0.ok_or_else(|| format!("service {name:?} not found"))
    }
}

impl Transport for ClusterTransport<'_> {
    async fn post(&self, endpoint: &Endpoint, body: Bytes) -> Result<Reply, String> {
        let Some((namespace, name, port)) = &endpoint.service else {
            return Https::new(KnownAddress(None)).post(endpoint, body).await;
        };
        let Self(server) = self;
        let (backend, certificate) =
            match server
                .service_backends
                .find(&server.store, namespace, name, *port)?
            {
                ServiceLocation::Address(address) => {
                    return Https::new(KnownAddress(Some(address)))
                        .post(endpoint, body)
                        .await;
                }
                ServiceLocation::InProcess(backend, certificate) => (backend, certificate),
            };
        let host = format!("{name}.{namespace}.svc");
        webhook::check_certificate(
            &endpoint.ca_bundle,
            certificate.as_deref(),
            &host,
            server.clock.now(),
        )?;
        let review = serde_json::from_slice(&body).map_err(|error| error.to_string())?;
        let answer = backend.post(endpoint.url.path(), review).await?;
        Ok(Reply {
            status: StatusCode::OK,
            content_type: "application/json".to_owned(),
            body: answer.to_string().into(),
        })
    }
}

pub fn may_mutate(call: &Call<'_>) -> bool {
    call.server.store.count(&MUTATING) > 0
}

pub async fn mutate(
    call: &mut Call<'_>,
    write: WriteAttributes<'_>,
    new: &mut Value,
) -> Result<(), ApiError> {
    let server = call.server.clone();
    let configurations = configurations(&server, &MUTATING);
    if configurations.is_empty() {
        return Ok(());
    }
    let mut warnings = std::mem::take(&mut call.warnings);
    let changed = {
        let review = Review::of(call, write, Some(new));
        webhook::mutate(
            &ClusterTransport(&server),
            &configurations,
            &review.request(&review.equivalents()),
            &mut |object, patch| {
                let mut patched = object.clone();
                json_patch::apply(&mut patched, patch)
                    .map_err(|error| ApiError::internal(error.to_string()))?;
                Ok(patched)
            },
            &mut || server.random.uid(),
            &mut warnings,
        )
        .await
    };
    call.warnings = warnings;
    if let Some(mut changed) = changed? {
        limits::check(&changed)?;
        call.resource
            .decode(&mut changed)
            .map_err(ApiError::internal)?;
        call.resource.default(&mut changed);
        *new = changed;
    }
    Ok(())
}

pub async fn validate(
    call: &mut Call<'_>,
    write: WriteAttributes<'_>,
    new: Option<&Value>,
) -> Result<(), ApiError> {
    let server = call.server.clone();
    let configurations = configurations(&server, &VALIDATING);
    if configurations.is_empty() {
        return Ok(());
    }
    let mut warnings = std::mem::take(&mut call.warnings);
    let verdict = {
        let review = Review::of(call, write, new);
        webhook::validate(
            &ClusterTransport(&server),
            &configurations,
            &review.request(&review.equivalents()),
            &mut || server.random.uid(),
            &mut warnings,
        )
        .await
    };
    call.warnings = warnings;
    verdict
}

fn configurations(server: &Shared, table: &TableId) -> Vec<Arc<Value>> {
    server
        .store
        .list(table, "")
        .objects
        .iter()
        .map(|stored| stored.parsed().clone())
        .collect()
}

/// Owned data that a webhook request borrows.
struct Review<'a> {
    call: &'a Call<'a>,
    write: WriteAttributes<'a>,
    name: String,
    versions: Vec<Arc<crate::registry::Resource>>,
    labels: Option<Value>,
    options: Value,
    object: Option<Value>,
}

impl<'a> Review<'a> {
    fn of(call: &'a Call<'_>, write: WriteAttributes<'a>, object: Option<&Value>) -> Self {
        let registry = call.server.registry();
        let versions: Vec<_> = registry
            .of_table(&call.resource.table)
            .filter(|other| other.version != call.resource.version)
            .cloned()
            .collect();
        let namespace = namespace(call);
        let labels = call
            .server
            .store
            .get(&TableId::new("", "namespaces"), namespace)
            .map(|stored| {
                stored
                    .parsed()
                    .pointer("/metadata/labels")
                    .cloned()
                    .unwrap_or_else(|| json!({}))
            });
        let kind = match write.operation {
            Operation::Create => "CreateOptions",
            Operation::Update => "UpdateOptions",
            Operation::Delete | Operation::Connect => "DeleteOptions",
        };
        let mut options = json!({"kind": kind, "apiVersion": "meta.k8s.io/v1"});
        if write.operation != Operation::Delete {
            options["fieldManager"] = call.manager.clone().into();
        }
        if write.dry_run {
            options["dryRun"] = json!(["All"]);
        }
        Self {
            call,
            write,
            name: match call.path.name.as_str() {
                "" => object
                    .map(|object| object::meta(object, "name").to_owned())
                    .unwrap_or_default(),
                name => name.to_owned(),
            },
            versions,
            labels,
            options,
            object: object.cloned(),
        }
    }
}

impl Review<'_> {
    fn equivalents(&self) -> Vec<Resource<'_>> {
        self.versions
            .iter()
            .map(|resource| Resource {
                group: &resource.group,
                version: &resource.version,
                resource: &resource.plural,
                kind: &resource.kind,
            })
            .collect()
    }

    fn request<'b>(&'b self, equivalents: &'b [Resource<'b>]) -> Request<'b> {
        let resource = self.call.resource;
        Request {
            operation: self.write.operation,
            resource: Resource {
                group: &resource.group,
                version: &resource.version,
                resource: &resource.plural,
                kind: &resource.kind,
            },
            equivalents,
            subresource: &self.call.path.subresource,
            name: &self.name,
            namespace: namespace(self.call),
            namespace_labels: self.labels.as_ref(),
            object: self.object.as_ref(),
            old_object: self.write.old,
            user: self.call.user,
            dry_run: self.write.dry_run,
            options: &self.options,
        }
    }
}

/// For a Namespace object, its own name.
fn namespace<'a>(call: &'a Call<'_>) -> &'a str {
    &call.path.namespace
}
