//! Scenario of the webhook's certificate: a cluster with the webhook configuration, and replicas of the
//! operator.

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
use kubevirt_operator::webhook_certificate::{CertificateController, Certificates};
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

use crate::harness::{
    cluster::{TestCluster, documents},
    request_checks,
    runner::{self, Need},
};

/// Runs a scenario on a cluster of its own.
pub(crate) fn run_scenario(scenario: impl Future<Output = ()>) {
    runner::run_scenario_alone(&[Need::Controllers], scenario);
}

/// Runs a scenario in which days pass: in the sandbox only.
pub(crate) fn run_scenario_over_days(scenario: impl Future<Output = ()>) {
    let reason = "replicas check the clock once an hour, and certificates live for months";
    runner::run_scenario_in_sandbox(reason, scenario);
}

pub(crate) const NAMESPACE: &str = "kubevirt-operator-system";
pub(crate) const SERVICE: &str = "kubevirt-operator-webhook";
pub(crate) const CONFIGURATION: &str = "kubevirt-operator";
pub(crate) const CERTS: &str = "kubevirt-operator-webhook-certs";
pub(crate) const CA: &str = "kubevirt-operator-webhook-ca";

/// Interval at which replicas check the clock.
pub(crate) const HOUR: Duration = Duration::from_secs(3600);

/// Timeout of a wait.
const TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) struct CertificateScenario {
    pub(crate) cluster: TestCluster,
    /// Client with all rights.
    pub(crate) client: Client,
    /// Offset of all clocks from virtual time in seconds, so that idle days can be skipped.
    ahead: Arc<AtomicI64>,
}

/// Certificate management of one replica of the operator.
pub(crate) struct Replica {
    /// Requests of the replica.
    pub(crate) calls: Arc<CallCounter>,
    pub(crate) health: Health,
    pub(crate) metrics: Metrics,
    pub(crate) certificate: Certificate,
    pub(crate) leads: watch::Sender<bool>,
    token: CancellationToken,
    running: JoinHandle<()>,
}

#[derive(Clone, Copy)]
pub(crate) struct ReplicaOptions {
    pub(crate) leads: bool,
    pub(crate) certificates: Certificates,
    /// Offset of its clock from the API server's.
    pub(crate) ahead: SignedDuration,
}

impl Default for ReplicaOptions {
    fn default() -> Self {
        Self {
            leads: true,
            certificates: Certificates::Managed,
            ahead: SignedDuration::ZERO,
        }
    }
}

/// The installed webhook configuration, with a foreign webhook added.
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

impl CertificateScenario {
    /// Starts a cluster with the webhook configuration, without the operator.
    pub(crate) async fn start() -> Self {
        let scenario = Self::without_configuration().await;
        scenario.apply(configuration()).await;
        scenario
    }

    /// Starts a cluster without the webhook configuration.
    pub(crate) async fn without_configuration() -> Self {
        Self::on_cluster(TestCluster::without_rights(|_| {}).await).await
    }

    pub(crate) async fn on_cluster(cluster: TestCluster) -> Self {
        let scenario = Self {
            client: cluster.client(),
            cluster,
            ahead: Arc::default(),
        };
        scenario
            .apply(json!({
                "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": NAMESPACE },
            }))
            .await;
        scenario.cluster.grant_rights().await;
        for object in documents("webhook/service.yaml") {
            scenario.apply(object).await;
        }
        scenario
    }

    /// Applies an object as `kubectl apply --server-side` does.
    pub(crate) async fn apply(&self, object: Value) {
        sandbox::apply(&self.client, object).await.unwrap();
    }

    /// Starts a replica with the rights of the operator's ServiceAccount.
    pub(crate) fn replica(&self, options: ReplicaOptions) -> Replica {
        let now = self.cluster.clock();
        let calls: Arc<CallCounter> = Arc::default();
        let client = request_checks::reject_null(layered(
            self.cluster.transport(),
            Fence::open(),
            Limits::UNLIMITED,
            Arc::clone(&calls) as _,
        ));
        let (leads, receiver) = watch::channel(options.leads);
        let ahead = Arc::clone(&self.ahead);
        let (health, metrics) = (Health::new(), Metrics::new("1"));
        let certificate = Certificate::fallback().unwrap();
        let keeper = CertificateController {
            open: client.clone(),
            client,
            names: Names {
                namespace: NAMESPACE.to_owned(),
                service: SERVICE.to_owned(),
                configuration: CONFIGURATION.to_owned(),
                secret: CERTS.to_owned(),
            },
            certificates: options.certificates,
            certificate: certificate.clone(),
            clock: Arc::new(move || now() + offset(&ahead) + options.ahead),
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
        self.cluster.clock()() + offset(&self.ahead)
    }

    /// Advances all clocks by days, and waits until all replicas have checked the clock.
    pub(crate) async fn advance_days(&self, days: i64) {
        self.ahead.fetch_add(days * 24 * 3600, Ordering::Relaxed);
        self.wait(HOUR).await;
    }

    /// Sleeps; in real time for a few seconds at most.
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

    /// Decoded value of a key of a Secret.
    pub(crate) async fn secret_value(&self, secret: &str, key: &str) -> String {
        let secret = self.secret(secret).await.unwrap();
        decode(&secret["data"][key])
    }

    pub(crate) async fn webhook_configuration(&self) -> Option<Value> {
        self.get(&configuration_path()).await
    }

    /// CA bundles by webhook name.
    pub(crate) async fn bundles(&self) -> BTreeMap<String, String> {
        let configured = self.webhook_configuration().await.unwrap();
        let webhooks = configured["webhooks"].as_array().unwrap().iter();
        webhooks
            .map(|webhook| {
                let name = webhook["name"].as_str().unwrap().to_owned();
                (name, decode(&webhook["clientConfig"]["caBundle"]))
            })
            .collect()
    }

    /// CA bundle of the operator's webhooks, which is the same in all of them.
    pub(crate) async fn bundle(&self) -> String {
        let mut bundles = self.bundles().await;
        assert_eq!(bundles.remove("others.vitistack.io").unwrap(), "");
        let first = bundles.values().next().unwrap().clone();
        assert!(bundles.values().all(|bundle| *bundle == first));
        first
    }

    /// Sends a merge patch.
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

    /// Waits until `is_trusted`.
    pub(crate) async fn until_trusted(&self) {
        until("a certificate that is trusted", async || {
            self.is_trusted().await
        })
        .await;
    }

    /// Whether a CA of the bundle signed the Secret's certificate, and both are valid now.
    pub(crate) async fn is_trusted(&self) -> bool {
        let Some(secret) = self.secret(CERTS).await else {
            return false;
        };
        let (certificate, key) = (
            decode(&secret["data"]["tls.crt"]),
            decode(&secret["data"]["tls.key"]),
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

fn offset(ahead: &AtomicI64) -> SignedDuration {
    SignedDuration::from_secs(ahead.load(Ordering::Relaxed))
}

impl Replica {
    /// Shuts the replica down gracefully.
    pub(crate) async fn stop(self) {
        self.token.cancel();
        self.running.await.unwrap();
    }

    /// Aborts the replica, as a crash does.
    pub(crate) async fn kill(self) {
        self.running.abort();
        let _ = self.running.await;
    }

    /// Requests since the last call, without watches.
    pub(crate) fn take_requests(&self) -> BTreeMap<String, u64> {
        let calls = self.calls.take().into_iter();
        calls
            .filter(|((verb, ..), _)| *verb != "watch")
            .map(|((verb, resource, outcome), count)| {
                (format!("{verb} {resource} {outcome}"), count)
            })
            .collect()
    }

    /// Line of the readiness probe about the webhook.
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

/// Decodes a value of a Secret or a CA bundle.
pub(crate) fn decode(value: &Value) -> String {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    let bytes = STANDARD.decode(value.as_str().unwrap_or_default()).unwrap();
    String::from_utf8(bytes).unwrap()
}

pub(crate) async fn until(what: &str, mut is_true: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + TIMEOUT;
    while !is_true().await {
        assert!(Instant::now() < deadline, "timed out waiting for {what}");
        sleep(Duration::from_millis(20)).await;
    }
}
