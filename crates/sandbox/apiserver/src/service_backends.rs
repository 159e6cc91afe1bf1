//! Backends of Services: an in-process handler, a loopback address, or a known program that the
//! ready pods behind a Service run.

use apimachinery::label_selector;
use std::{
    collections::BTreeMap,
    fmt,
    net::SocketAddr,
    sync::{Arc, PoisonError, RwLock},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use futures::future::BoxFuture;
use serde_json::Value;

use crate::{
    object::{self, items},
    store::{Store, TableId},
};

/// Annotation of a Service with the address at which it is reachable.
pub const ADDRESS: &str = "sandbox.vitistack.io/address";

type Handler = dyn Fn(String, Value) -> BoxFuture<'static, Result<Value, String>> + Send + Sync;

/// In-process handler of JSON POSTs, such as a webhook.
#[derive(Clone)]
pub struct Backend(Arc<Handler>);

impl Backend {
    /// The handler gets a path such as `/validate` and a body such as an AdmissionReview. Its error
    /// is reported as a failed connection.
    pub fn new(
        handler: impl Fn(String, Value) -> BoxFuture<'static, Result<Value, String>>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        Self(Arc::new(handler))
    }

    /// A webhook that allows everything.
    pub fn admitting() -> Self {
        Self::new(|_, review| {
            let answer = serde_json::json!({
                "apiVersion": "admission.k8s.io/v1",
                "kind": "AdmissionReview",
                "response": {"uid": review["request"]["uid"], "allowed": true},
            });
            Box::pin(std::future::ready(Ok(answer)))
        })
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Result<Value, String> {
        (self.0)(path.to_owned(), body).await
    }
}

impl fmt::Debug for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Backend").finish_non_exhaustive()
    }
}

#[derive(Clone, Debug)]
pub(crate) enum ServiceLocation {
    /// With the serving certificate in PEM that it would present, if known.
    InProcess(Backend, Option<Vec<u8>>),
    Address(SocketAddr),
}

#[derive(Debug, Default)]
pub(crate) struct ServiceBackends {
    /// By the first element of a container's command.
    programs: BTreeMap<String, Backend>,
    services: RwLock<BTreeMap<(String, String), ServiceLocation>>,
}

impl ServiceBackends {
    pub fn new(programs: impl IntoIterator<Item = (String, Backend)>) -> Self {
        Self {
            programs: programs.into_iter().collect(),
            services: RwLock::default(),
        }
    }

    /// Registers the location of a Service; `None` removes it.
    pub fn set(&self, namespace: &str, name: &str, place: Option<ServiceLocation>) {
        let mut services = self
            .services
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        let key = (namespace.to_owned(), name.to_owned());
        match place {
            Some(place) => services.insert(key, place),
            None => services.remove(&key),
        };
    }

    /// Locates a port of a Service. The error is the text of the failed connection.
    pub fn find(
        &self,
        store: &Store,
        namespace: &str,
        name: &str,
        port: u16,
    ) -> Result<ServiceLocation, String> {
        let key = object::key(namespace, name);
        let service = store
            .get(&TableId::new("", "services"), &key)
            .ok_or_else(|| format!("service {name:?} not found"))?;
        let registered = self
            .services
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&(namespace.to_owned(), name.to_owned()))
            .cloned();
        if let Some(place) = registered {
            return Ok(place);
        }
        if let Some(address) = service
            .parsed()
            .pointer("/metadata/annotations")
            .and_then(|annotations| annotations.get(ADDRESS)?.as_str())
        {
            return address.parse().map(ServiceLocation::Address).map_err(|_| {
                format!("the annotation {ADDRESS} of service {name:?} is not an address such as 127.0.0.1:9443: {address:?}")
            });
        }
        let pods = ready_pods(store, namespace, service.parsed());
        let program = pods
            .iter()
            .find_map(|pod| Some((pod, self.programs.get(program(pod)?)?)));
        if let Some((pod, backend)) = program {
            let certificate = match certificate_secret(pod) {
                None => None,
                Some(secret) => Some(certificate(store, namespace, secret).ok_or_else(|| {
                    let address = text(service.parsed(), "/spec/clusterIP");
                    format!("dial tcp {address}:{port}: connect: connection refused")
                })?),
            };
            return Ok(ServiceLocation::InProcess(backend.clone(), certificate));
        }
        Err(
            if pods.is_empty() && service.parsed().pointer("/spec/selector").is_some() {
                format!("no endpoints available for service {name:?}")
            } else {
                format!(
                    "no endpoints available for service {name:?}: the sandbox runs no containers; annotate the Service with {ADDRESS}: 127.0.0.1:PORT, the address that serves port {port}"
                )
            },
        )
    }
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// Ready pods behind a Service that are not terminating.
fn ready_pods(store: &Store, namespace: &str, service: &Value) -> Vec<Arc<Value>> {
    let Some(selector) = service.pointer("/spec/selector").filter(|selector| {
        selector
            .as_object()
            .is_some_and(|labels| !labels.is_empty())
    }) else {
        return Vec::new();
    };
    let selector = serde_json::json!({"matchLabels": selector});
    let pods = store.list(&TableId::new("", "pods"), &format!("{namespace}/"));
    pods.objects
        .iter()
        .map(|stored| stored.parsed().clone())
        .filter(|pod| label_selector::matches(&selector, &pod["metadata"]["labels"]) == Ok(true))
        .filter(|pod| !object::is_terminating(pod) && is_ready(pod))
        .collect()
}

fn is_ready(pod: &Value) -> bool {
    items(pod, "/status/conditions")
        .any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

/// Command of the first container.
fn program(pod: &Value) -> Option<&str> {
    pod.pointer("/spec/containers/0/command/0")?.as_str()
}

/// Secret with the serving certificate of a pod: the one mounted at `.../certificates`.
fn certificate_secret(pod: &Value) -> Option<&str> {
    let mount = items(pod, "/spec/containers/0/volumeMounts")
        .find(|mount| text(mount, "/mountPath").ends_with("/certificates"))?;
    let volume = items(pod, "/spec/volumes").find(|volume| volume["name"] == mount["name"])?;
    volume.pointer("/secret/secretName")?.as_str()
}

fn certificate(store: &Store, namespace: &str, secret: &str) -> Option<Vec<u8>> {
    let stored = store.get(
        &TableId::new("", "secrets"),
        &object::key(namespace, secret),
    )?;
    let encoded = stored.parsed().pointer("/data/tls.crt")?.as_str()?;
    STANDARD.decode(encoded).ok()
}
