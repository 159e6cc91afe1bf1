//! HTTPS servers at the addresses of Services, for API servers without a cluster network.
//!
//! If Services have loopback addresses, a local server is reached like a pod behind the Service. A real
//! kube-apiserver reaches the simulated webhooks and aggregated APIs this way.

use std::{
    fmt::Debug,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _};
use http::{Request, Response};
use http_body_util::Full;
use k8s_openapi::api::core::v1::{Secret, Service};
use kube::{
    Api, Client,
    api::{ListParams, WatchEvent, WatchParams},
};
use runtime::{
    certificates::KeyPair,
    tls::{self, Certificate, CertificateError, Handler},
};
use sandbox::virt_api::VirtApi;
use serde::de::DeserializeOwned;
use tokio::{net::TcpListener, sync::watch, task::JoinHandle, time::sleep};
use tokio_util::sync::CancellationToken;

const PORT: u16 = 443;
const RETRY: Duration = Duration::from_secs(1);

/// Certificate that a server presents.
#[derive(Clone)]
pub enum Identity {
    /// One that the caller issued.
    Given(KeyPair),
    /// That of a Secret in the Service's namespace, as it is at any time.
    Secret(&'static str),
}

/// Whether Services have addresses that a server can listen at on this machine.
pub async fn are_reachable(client: &Client) -> bool {
    let services: Api<Service> = Api::namespaced(client.clone(), "default");
    let Ok(Some(service)) = services.get_opt("kubernetes").await else {
        return false;
    };
    match loopback_address(&service) {
        Some(address) => TcpListener::bind((address, PORT)).await.is_ok(),
        None => false,
    }
}

/// Answers of virt-api to admission reviews and requests for subresources.
pub fn virt_api_handler(virt_api: VirtApi) -> Handler {
    Arc::new(move |request: Request<Bytes>| {
        let virt_api = virt_api.clone();
        Box::pin(async move {
            let body = serde_json::from_slice(request.body()).unwrap_or_default();
            let path = request.uri().path();
            let (code, body) = virt_api.answer(request.method(), path, body).await;
            let mut response = Response::new(Full::from(body.to_string()));
            *response.status_mut() = code;
            let json = http::HeaderValue::from_static("application/json");
            response
                .headers_mut()
                .insert(http::header::CONTENT_TYPE, json);
            response
        })
    })
}

/// Answers at the address of a Service until cancelled. It starts once the Service and the certificate
/// exist, and follows both: a Service that is created again has another address.
pub async fn serve(
    client: Client,
    (namespace, service): (String, String),
    identity: Identity,
    handler: Handler,
    token: CancellationToken,
) {
    let (observed, mut latest) = watch::channel(Observed::default());
    let services: Api<Service> = Api::namespaced(client.clone(), &namespace);
    let secrets: Api<Secret> = Api::namespaced(client, &namespace);
    let service = observe(&services, &service, |service| {
        observed.send_modify(|observed| observed.address = service.and_then(loopback_address));
    });
    let certificate = async {
        match &identity {
            Identity::Given(pair) => observed.send_modify(|observed| {
                observed.pair = Some((pair.certificate.clone(), pair.key.to_string()));
            }),
            Identity::Secret(name) => {
                observe(&secrets, name, |secret| {
                    observed.send_modify(|observed| observed.pair = secret.and_then(key_pair));
                })
                .await;
            }
        }
    };
    let serving = async {
        let mut server = Server::new(handler, token.clone())?;
        loop {
            let state = latest.borrow_and_update().clone();
            let is_listening = server.update(state).await;
            tokio::select! {
                changed = latest.changed() => if changed.is_err() { return Ok(()) },
                // A server of an earlier Service may still have the address.
                () = sleep(RETRY), if !is_listening => {}
            }
        }
    };
    let all = async {
        let (ended, (), ()): (Result<(), CertificateError>, (), ()) =
            tokio::join!(serving, service, certificate);
        if let Err(error) = ended {
            tracing::error!(%error, "cannot serve at the address of the Service");
        }
    };
    Box::pin(token.run_until_cancelled(all)).await;
}

/// Latest state of a Service and of the certificate for it.
#[derive(Clone, Default)]
struct Observed {
    address: Option<IpAddr>,
    /// Certificate and key in PEM.
    pair: Option<(String, String)>,
}

/// Server that listens at one address at a time.
struct Server {
    certificate: Certificate,
    handler: Handler,
    token: CancellationToken,
    listening: Option<(IpAddr, CancellationToken, JoinHandle<()>)>,
}

impl Server {
    fn new(handler: Handler, token: CancellationToken) -> Result<Self, CertificateError> {
        Ok(Self {
            certificate: Certificate::fallback()?,
            handler,
            token,
            listening: None,
        })
    }

    /// Listens at the observed address with the observed certificate; false if the address is in use.
    async fn update(&mut self, observed: Observed) -> bool {
        let is_certified = observed.pair.is_some_and(|(text, key)| {
            let replaced = self.certificate.replace(text.as_bytes(), key.as_bytes());
            replaced.is_ok()
        });
        let wanted = observed.address.filter(|_| is_certified);
        if wanted == self.listening.as_ref().map(|(address, ..)| *address) {
            return true;
        }
        if let Some((_, stop, task)) = self.listening.take() {
            stop.cancel();
            // A panic has ended the task, too.
            let _ = task.await;
        }
        let Some(address) = wanted else {
            return true;
        };
        let Ok(listener) = TcpListener::bind(SocketAddr::new(address, PORT)).await else {
            return false;
        };
        let stop = self.token.child_token();
        let answering = tls::serve(
            listener,
            self.certificate.clone(),
            Arc::clone(&self.handler),
            stop.clone(),
        );
        self.listening = Some((address, stop, tokio::spawn(answering)));
        true
    }
}

/// Reports the current state of an object and all its changes.
async fn observe<K>(api: &Api<K>, name: &str, mut report: impl FnMut(Option<&K>))
where
    K: kube::Resource + Clone + DeserializeOwned + Debug,
{
    let fields = format!("metadata.name={name}");
    loop {
        let ended: kube::Result<()> = async {
            let listed = api.list(&ListParams::default().fields(&fields)).await?;
            report(listed.items.first());
            let version = listed.metadata.resource_version.unwrap_or_default();
            let params = WatchParams::default().fields(&fields);
            let mut events = api.watch(&params, &version).await?.boxed();
            while let Some(event) = events.try_next().await? {
                match event {
                    WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                        report(Some(&object));
                    }
                    WatchEvent::Deleted(_) => report(None),
                    WatchEvent::Bookmark(_) => {}
                    WatchEvent::Error(_) => break,
                }
            }
            Ok(())
        }
        .await;
        if let Err(error) = ended {
            tracing::debug!(%error, name, "watch of {name} failed");
        }
        sleep(RETRY).await;
    }
}

fn loopback_address(service: &Service) -> Option<IpAddr> {
    let address = service.spec.as_ref()?.cluster_ip.as_ref()?;
    let address: IpAddr = address.parse().ok()?;
    address.is_loopback().then_some(address)
}

fn key_pair(secret: &Secret) -> Option<(String, String)> {
    let part = |key: &str| {
        let value = secret.data.as_ref()?.get(key)?;
        String::from_utf8(value.0.clone()).ok()
    };
    Some((part("tls.crt")?, part("tls.key")?))
}
