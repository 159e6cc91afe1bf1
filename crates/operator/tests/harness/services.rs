//! Servers of a scenario at the addresses of Services, and certificates for them.

use std::{collections::BTreeMap, sync::Mutex};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use jiff::{SignedDuration, Timestamp};
use kube::Client;
use kubevirt_operator::services;
pub(crate) use kubevirt_operator::services::Identity;
use runtime::{
    certificates::{Authority, Request, Usage, issue},
    tls::Handler,
};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Test CA, and a certificate that it signed.
pub(crate) struct Trust {
    /// The CA's certificate, base64-encoded as in webhook configurations.
    pub(crate) bundle: String,
    pub(crate) identity: Identity,
}

impl Trust {
    pub(crate) fn for_service((namespace, service): (&str, &str), now: Timestamp) -> Self {
        let request = |common_name: &str, dns_names, usage| Request {
            common_name: common_name.to_owned(),
            dns_names,
            usage,
            not_before: now - SignedDuration::from_mins(5),
            not_after: now + SignedDuration::from_hours(24),
        };
        let authority = issue(&request("scenarios", Vec::new(), Usage::Ca), None).unwrap();
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

type RunningServer = (CancellationToken, JoinHandle<()>);

/// Running servers by namespace and name of their Service.
pub(crate) struct Services {
    client: Client,
    running: Mutex<BTreeMap<(String, String), RunningServer>>,
}

impl Services {
    pub(crate) fn new(client: Client) -> Self {
        Self {
            client,
            running: Mutex::default(),
        }
    }

    pub(crate) fn serve(&self, service: (&str, &str), identity: Identity, handler: Handler) {
        let key = (service.0.to_owned(), service.1.to_owned());
        let token = CancellationToken::new();
        let previous = self.running.lock().unwrap().remove(&key);
        let serving = services::serve(
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

    pub(crate) async fn stop(&self, (namespace, service): (&str, &str)) {
        let key = (namespace.to_owned(), service.to_owned());
        let stopped = self.running.lock().unwrap().remove(&key);
        if let Some((token, task)) = stopped {
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
