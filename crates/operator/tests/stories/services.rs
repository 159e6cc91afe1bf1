//! Servers of a story at the addresses of Services, and certificates for them.

use std::{collections::BTreeMap, sync::Mutex};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use jiff::{SignedDuration, Timestamp};
use kube::Client;
pub(crate) use kubevirt_operator::services::Identity;
use kubevirt_operator::services::serve;
use runtime::{
    certificates::{Authority, Request, Usage, issue},
    tls::Handler,
};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

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
