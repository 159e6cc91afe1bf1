//! HTTPS servers at the addresses of Services.
//!
//! A server of e2e/run gives Services addresses of the loopback interface, so that what answers a
//! webhook or an aggregated API inside a test is reached as a pod behind the Service would be.

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    sync::Mutex,
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use jiff::{SignedDuration, Timestamp};
use kube::{
    Api, Client,
    api::DynamicObject,
    core::{ApiResource, GroupVersionKind},
};
use runtime::{
    certificates::{Authority, KeyPair, Request, Usage, issue},
    tls::{self, Certificate, Handler},
};
use serde_json::Value;
use tokio::{net::TcpListener, task::JoinHandle, time::sleep};
use tokio_util::sync::CancellationToken;

const PORT: u16 = 443;
const STEP: Duration = Duration::from_millis(50);

/// What a server shows to its clients.
#[derive(Clone)]
pub(crate) enum Identity {
    /// A certificate that the suite made.
    Given(KeyPair),
    /// That of a Secret in the Service's namespace, as it is at any time.
    Secret(&'static str),
}

/// A CA of the suite, and a certificate that it has signed.
pub(crate) struct Trust {
    /// The CA's certificate as webhook configurations hold it.
    pub(crate) bundle: String,
    pub(crate) identity: Identity,
}

impl Trust {
    /// For a Service.
    pub(crate) fn of((namespace, service): (&str, &str), now: Timestamp) -> Self {
        let request = |common_name: &str, dns_names, usage| Request {
            common_name: common_name.to_owned(),
            dns_names,
            usage,
            not_before: now - SignedDuration::from_mins(5),
            not_after: now + SignedDuration::from_hours(24),
        };
        let authority = issue(&request("stories", Vec::new(), Usage::Ca), None).unwrap();
        let name = format!("{service}.{namespace}.svc");
        let leaf = request(&name, vec![name.clone()], Usage::Server);
        let signer = Authority {
            certificate: authority.certificate.as_bytes(),
            key: authority.key.as_bytes(),
        };
        Self {
            bundle: STANDARD.encode(&authority.certificate),
            identity: Identity::Given(issue(&leaf, Some(signer)).unwrap()),
        }
    }
}

/// A server, and what ends it.
type Running = (CancellationToken, JoinHandle<()>);

/// The servers that run, by the Service that they answer for.
pub(crate) struct Services {
    client: Client,
    running: Mutex<BTreeMap<(String, String), Running>>,
}

impl Services {
    pub(crate) fn new(client: Client) -> Self {
        Self {
            client,
            running: Mutex::default(),
        }
    }

    /// Whether Services have addresses here that a server can be started at.
    pub(crate) async fn are_reachable(client: &Client) -> bool {
        let Some(address) = address(client, "default", "kubernetes").await else {
            return false;
        };
        address.is_loopback() && TcpListener::bind((address, PORT)).await.is_ok()
    }

    pub(crate) fn answer_at(&self, service: (&str, &str), identity: Identity, handler: Handler) {
        let key = (service.0.to_owned(), service.1.to_owned());
        let token = CancellationToken::new();
        let previous = self.running.lock().unwrap().remove(&key);
        let serving = serve(
            self.client.clone(),
            key.clone(),
            identity,
            handler,
            token.clone(),
        );
        let task = tokio::spawn(async move {
            if let Some((token, task)) = previous {
                token.cancel();
                let _ = task.await;
            }
            serving.await;
        });
        self.running.lock().unwrap().insert(key, (token, task));
    }

    pub(crate) async fn end(&self, (namespace, service): (&str, &str)) {
        let key = (namespace.to_owned(), service.to_owned());
        let ended = self.running.lock().unwrap().remove(&key);
        if let Some((token, task)) = ended {
            token.cancel();
            task.await.unwrap();
        }
    }
}

impl Drop for Services {
    fn drop(&mut self) {
        let running = self.running.lock().unwrap();
        running.values().for_each(|(token, _)| token.cancel());
    }
}

/// Waits for the Service and the certificate, and serves for as long as both are there; then waits
/// again: a Service that is made anew has another address.
async fn serve(
    client: Client,
    (namespace, service): (String, String),
    identity: Identity,
    handler: Handler,
    token: CancellationToken,
) {
    let serving = async {
        let certificate = Certificate::fallback().unwrap();
        let mut serving: Option<(IpAddr, CancellationToken, JoinHandle<()>)> = None;
        let mut shown = None;
        loop {
            let pair = pair(&client, &namespace, &identity).await;
            if let Some((text, key)) = pair.filter(|pair| shown.as_ref() != Some(pair)) {
                let replaced = certificate.replace(text.as_bytes(), key.as_bytes());
                shown = replaced.is_ok().then_some((text, key));
            }
            let wanted = address(&client, &namespace, &service).await;
            let wanted = wanted.filter(|_| shown.is_some());
            let current = serving.as_ref().map(|(address, ..)| *address);
            if wanted != current {
                if let Some((_, stop, task)) = serving.take() {
                    stop.cancel();
                    let _ = task.await;
                }
                if let Some(address) = wanted
                    && let Ok(listener) = TcpListener::bind(SocketAddr::new(address, PORT)).await
                {
                    let stop = token.child_token();
                    let answering =
                        tls::serve(listener, certificate.clone(), handler.clone(), stop.clone());
                    serving = Some((address, stop, tokio::spawn(answering)));
                }
            }
            sleep(STEP).await;
        }
    };
    token.run_until_cancelled(serving).await;
}

async fn pair(client: &Client, namespace: &str, identity: &Identity) -> Option<(String, String)> {
    let name = match identity {
        Identity::Given(pair) => return Some((pair.certificate.clone(), pair.key.to_string())),
        Identity::Secret(name) => name,
    };
    let secret = find(client, "Secret", namespace, name).await?;
    let part = |key: &str| {
        let encoded = secret["data"][key].as_str()?;
        String::from_utf8(STANDARD.decode(encoded).ok()?).ok()
    };
    Some((part("tls.crt")?, part("tls.key")?))
}

async fn address(client: &Client, namespace: &str, service: &str) -> Option<IpAddr> {
    let service = find(client, "Service", namespace, service).await?;
    service["spec"]["clusterIP"].as_str()?.parse().ok()
}

async fn find(client: &Client, kind: &str, namespace: &str, name: &str) -> Option<Value> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", kind));
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
    let found = api.get_opt(name).await.ok()??;
    serde_json::to_value(found).ok()
}
