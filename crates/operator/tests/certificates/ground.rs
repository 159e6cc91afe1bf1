//! A cluster with a webhook, and replicas that keep its certificate.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use http::Request;
use jiff::{SignedDuration, Timestamp};
use kube::Client;
use kubevirt_operator::metrics::Metrics;
use kubevirt_operator::webhook_certificate::{Certificates, Keeper};
use plan::webhook_certificate::Names;
use runtime::{
    certificates::{BundledCertificate, parse_bundle, read},
    client::{CallCounter, Limits, layered},
    election::Fence,
    probes::Health,
    tls::Certificate,
};
use serde_json::{Value, json};
use tokio::{
    sync::watch,
    task::JoinHandle,
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;

use crate::stories::{
    ground::{self, Ground as Place, Need, documents},
    inspect,
};

/// Runs a story, which has the whole cluster to itself.
pub(crate) fn tell(story: impl Future<Output = ()>) {
    ground::tell_alone(&[Need::Controllers], story);
}

/// Runs a story in which days go by.
pub(crate) fn tell_of_days(story: impl Future<Output = ()>) {
    let because = "the operator looks at the clock once an hour, and certificates live for months";
    ground::tell_in_sandbox(because, story);
}

pub(crate) const NAMESPACE: &str = "kubevirt-operator-system";
pub(crate) const SERVICE: &str = "kubevirt-operator-webhook";
pub(crate) const CONFIGURATION: &str = "kubevirt-operator";
pub(crate) const CERTS: &str = "kubevirt-operator-webhook-certs";
pub(crate) const CA: &str = "kubevirt-operator-webhook-ca";

/// So often at the least everybody looks at the clock.
pub(crate) const HOUR: Duration = Duration::from_secs(3600);

/// How long something may take that is to happen.
const PATIENCE: Duration = Duration::from_secs(60);

/// A cluster with a webhook.
pub(crate) struct Ground {
    pub(crate) cluster: Place,
    /// A client of somebody who may do everything.
    pub(crate) client: Client,
    /// How many seconds everybody's clock is ahead of virtual time. Days in which nothing happens need
    /// not go by.
    ahead: Arc<AtomicI64>,
}

/// A replica of the operator, as far as certificates go.
pub(crate) struct Replica {
    /// What it asks of the API server.
    pub(crate) calls: Arc<CallCounter>,
    pub(crate) health: Health,
    pub(crate) metrics: Metrics,
    pub(crate) certificate: Certificate,
    pub(crate) leads: watch::Sender<bool>,
    token: CancellationToken,
    running: JoinHandle<()>,
}

/// How a replica is.
#[derive(Clone, Copy)]
pub(crate) struct Kind {
    pub(crate) leads: bool,
    pub(crate) certificates: Certificates,
    /// How far its clock is ahead of the API server's.
    pub(crate) ahead: SignedDuration,
}

impl Default for Kind {
    fn default() -> Self {
        Self {
            leads: true,
            certificates: Certificates::Managed,
            ahead: SignedDuration::ZERO,
        }
    }
}

/// The configuration that is installed, and a webhook of somebody else's among ours.
pub(crate) fn configuration() -> Value {
    let mut documents = documents("webhook/validating_webhook_configuration.yaml");
    let mut configuration = documents.pop().unwrap();
    let webhooks = configuration["webhooks"].as_array_mut().unwrap();
    let mut other = webhooks[0].clone();
    other["name"] = "others.vitistack.io".into();
    other["clientConfig"]["service"]["name"] = "somebody-else".into();
    webhooks.insert(1, other);
    configuration
}

impl Ground {
    /// A cluster in which everything is installed but the operator.
    pub(crate) async fn begin() -> Self {
        let ground = Self::without_configuration().await;
        ground.apply(configuration()).await;
        ground
    }

    /// The same without what tells API servers of the webhook.
    pub(crate) async fn without_configuration() -> Self {
        Self::of(Place::bare(|_| {}).await).await
    }

    /// The same on some cluster.
    pub(crate) async fn of(cluster: Place) -> Self {
        let ground = Self {
            client: cluster.client(),
            cluster,
            ahead: Arc::default(),
        };
        ground
            .apply(json!({
                "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": NAMESPACE },
            }))
            .await;
        ground.cluster.grant().await;
        for object in documents("webhook/service.yaml") {
            ground.apply(object).await;
        }
        ground
    }

    /// Applies an object as `kubectl apply --server-side` does.
    pub(crate) async fn apply(&self, object: Value) {
        sandbox::apply(&self.client, object).await.unwrap();
    }

    /// Starts a replica of the operator, with its own rights.
    pub(crate) fn replica(&self, kind: Kind) -> Replica {
        let now = self.cluster.clock();
        let calls: Arc<CallCounter> = Arc::default();
        let client = inspect::without_null(layered(
            self.cluster.transport(),
            Fence::open(),
            Limits::UNLIMITED,
            Arc::clone(&calls) as _,
        ));
        let (leads, receiver) = watch::channel(kind.leads);
        let ahead = Arc::clone(&self.ahead);
        let (health, metrics) = (Health::new(), Metrics::new("1"));
        let certificate = Certificate::fallback().unwrap();
        let keeper = Keeper {
            open: client.clone(),
            client,
            names: Names {
                namespace: NAMESPACE.to_owned(),
                service: SERVICE.to_owned(),
                configuration: CONFIGURATION.to_owned(),
                secret: CERTS.to_owned(),
            },
            certificates: kind.certificates,
            certificate: certificate.clone(),
            clock: Arc::new(move || now() + leap(&ahead) + kind.ahead),
            metrics: metrics.clone(),
            health: health.clone(),
            leads: receiver,
            seed: 1,
        };
        let token = CancellationToken::new();
        let running = tokio::spawn(keeper.run(token.clone()));
        Replica {
            calls,
            health,
            metrics,
            certificate,
            leads,
            token,
            running,
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.cluster.clock()() + leap(&self.ahead)
    }

    /// Sets everybody's clock ahead, and waits until everybody has looked at it.
    pub(crate) async fn leap(&self, days: i64) {
        self.ahead.fetch_add(days * 24 * 3600, Ordering::Relaxed);
        self.wait(HOUR).await;
    }

    /// Lets time pass: so much, or a few seconds where they are real.
    pub(crate) async fn wait(&self, time: Duration) {
        self.cluster.wait_for(time).await;
    }

    pub(crate) async fn get(&self, path: &str) -> Option<Value> {
        let request = Request::get(path).body(Vec::new()).unwrap();
        match self.client.request(request).await {
            Ok(found) => Some(found),
            Err(kube::Error::Api(status)) if status.code == 404 => None,
            Err(error) => panic!("{error}"),
        }
    }

    pub(crate) async fn secret(&self, name: &str) -> Option<Value> {
        self.get(&secret_path(name)).await
    }

    /// The text that a Secret has under a name.
    pub(crate) async fn part(&self, secret: &str, key: &str) -> String {
        let secret = self.secret(secret).await.unwrap();
        decoded(&secret["data"][key])
    }

    pub(crate) async fn configured(&self) -> Option<Value> {
        self.get(&configuration_path()).await
    }

    /// The bundles of the webhooks, by their names.
    pub(crate) async fn bundles(&self) -> BTreeMap<String, String> {
        let configured = self.configured().await.unwrap();
        let webhooks = configured["webhooks"].as_array().unwrap().iter();
        webhooks
            .map(|webhook| {
                let name = webhook["name"].as_str().unwrap().to_owned();
                (name, decoded(&webhook["clientConfig"]["caBundle"]))
            })
            .collect()
    }

    /// The bundle of the webhooks that are ours, which is the same in each.
    pub(crate) async fn bundle(&self) -> String {
        let mut bundles = self.bundles().await;
        assert_eq!(bundles.remove("others.vitistack.io").unwrap(), "");
        let first = bundles.values().next().unwrap().clone();
        assert!(bundles.values().all(|bundle| *bundle == first));
        first
    }

    /// Changes an object by a merge patch.
    pub(crate) async fn merge(&self, path: &str, change: &Value) {
        let request = Request::patch(path)
            .header("content-type", "application/merge-patch+json")
            .body(serde_json::to_vec(change).unwrap())
            .unwrap();
        let _: Value = self.client.request(request).await.unwrap();
    }

    pub(crate) async fn delete(&self, path: &str) {
        let request = Request::delete(path).body(Vec::new()).unwrap();
        let _: Value = self.client.request(request).await.unwrap();
    }

    /// Waits until what is in the Secret is to be trusted by who reads the configuration.
    pub(crate) async fn until_trusted(&self) {
        until("a certificate that is trusted", async || {
            self.is_trusted().await
        })
        .await;
    }

    /// Whether a CA of the bundle has signed what is in the Secret, and both are valid now.
    pub(crate) async fn is_trusted(&self) -> bool {
        let Some(secret) = self.secret(CERTS).await else {
            return false;
        };
        let (certificate, key) = (
            decoded(&secret["data"]["tls.crt"]),
            decoded(&secret["data"]["tls.key"]),
        );
        let authorities = parse_bundle(&self.bundle().await);
        let texts: Vec<&str> = authorities
            .iter()
            .map(|known| known.certificate.as_str())
            .collect();
        let Ok(facts) = read(certificate.as_bytes(), key.as_bytes(), &texts) else {
            return false;
        };
        let now = self.now();
        let is_valid =
            |known: &BundledCertificate| known.not_before <= now && now < known.not_after;
        let signer = facts.signed_by.map(|index| &authorities[index]);
        facts.key_matches
            && facts.not_before <= now
            && now < facts.not_after
            && signer.is_some_and(is_valid)
            && facts.dns_names[0] == format!("{SERVICE}.{NAMESPACE}.svc")
    }
}

fn leap(ahead: &AtomicI64) -> SignedDuration {
    SignedDuration::from_secs(ahead.load(Ordering::Relaxed))
}

impl Replica {
    /// Ends it as a shutdown does.
    pub(crate) async fn stop(self) {
        self.token.cancel();
        self.running.await.unwrap();
    }

    /// Ends it as a crash does.
    pub(crate) async fn kill(self) {
        self.running.abort();
        let _ = self.running.await;
    }

    /// What it has asked since the last time, but for watches that are opened again.
    pub(crate) fn asked(&self) -> BTreeMap<String, u64> {
        let calls = self.calls.take().into_iter();
        calls
            .filter(|((verb, ..), _)| *verb != "watch")
            .map(|((verb, resource, outcome), count)| {
                (format!("{verb} {resource} {outcome}"), count)
            })
            .collect()
    }

    /// What its probe says of the webhook.
    pub(crate) fn probe(&self) -> String {
        let report = self.health.ready().to_string();
        let line = report.lines().find(|line| line.contains("webhook"));
        line.unwrap_or_default().to_owned()
    }
}

pub(crate) fn secret_path(name: &str) -> String {
    format!("/api/v1/namespaces/{NAMESPACE}/secrets/{name}")
}

pub(crate) fn configuration_path() -> String {
    format!("/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/{CONFIGURATION}")
}

/// The text of a value of a Secret, or of a bundle.
pub(crate) fn decoded(value: &Value) -> String {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    let bytes = STANDARD.decode(value.as_str().unwrap_or_default()).unwrap();
    String::from_utf8(bytes).unwrap()
}

/// Waits until something is so.
pub(crate) async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so().await {
        assert!(Instant::now() < deadline, "waited in vain for {what}");
        sleep(Duration::from_millis(20)).await;
    }
}
