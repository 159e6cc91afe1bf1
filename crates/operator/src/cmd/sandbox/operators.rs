//! The operators that run inside the sandbox, each with its own rights and no others.

use std::{error::Error, sync::Arc, time::Duration};

use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use kube::{Api, Client, api::PostParams};
use plan::kubevirt::{job::STRATEGY_ACCOUNT, target};
use runtime::certificates::{Request, Usage, issue};
use sandbox::{Backend, Cluster, Speed};
use serde_json::Value;
use tokio::{
    task::JoinHandle,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use api::kubevirt::install::KubeVirt;

use crate::{
    installation::{KUBEVIRT_RIGHTS, MACHINE_RIGHTS, NAMESPACE, WEBHOOK},
    kubevirt::{self, webhook::Webhook},
    machine,
    review::Unanswered,
};

/// The namespace of the Machine operator, and its service account.
const MACHINES: (&str, &str) = (NAMESPACE, "kubevirt-operator-controller-manager");

/// How long the CA of the webhook is valid: no sandbox runs longer.
const TRUSTED: SignedDuration = SignedDuration::from_hours(24 * 365 * 10);

/// The namespace of KubeVirt, and the service account of its operator.
const KUBEVIRT: (&str, &str) = ("kubevirt", "kubevirt-operator");

/// Where the simulated images come from.
const REGISTRY: &str = "registry.example/kubevirt";

/// The version of KubeVirt that is installed at the start.
const VERSION: &str = "v1.9.0";

/// The operator's definition of KubeVirt is there within that time.
const DEFINED: Duration = Duration::from_secs(30);

/// An operator that runs.
pub(super) struct Running {
    stop: CancellationToken,
    running: JoinHandle<()>,
}

impl Running {
    fn start(run: impl FnOnce(CancellationToken) -> JoinHandle<()>) -> Self {
        let stop = CancellationToken::new();
        let running = run(stop.clone());
        Self { stop, running }
    }

    /// Ends it.
    pub(super) async fn stop(self) {
        self.stop.cancel();
        // One that has panicked has said so already.
        let _ = self.running.await;
    }
}

/// Runs the Machine operator, and its webhook if that is wished.
pub(super) async fn machines(
    cluster: &Cluster,
    with_webhook: bool,
) -> Result<Running, Box<dyn Error>> {
    grant(&cluster.client(), MACHINE_RIGHTS).await?;
    let server = cluster.server().clone();
    let client = server.client_of(MACHINES.0, MACHINES.1);
    let options = machine::Options::default();
    let now = server.now();
    let operator = machine::Operator::alone(client, options, Arc::new(move || server.now()));
    if with_webhook {
        let webhook = operator.webhook();
        answer_webhooks(cluster, MACHINES.0, move |path, review| {
            let webhook = webhook.clone();
            Box::pin(async move { webhook.review(&path, &review).await })
        });
    }
    let running = Running::start(|stop| tokio::spawn(operator.run(stop)));
    if with_webhook {
        configure_webhook(&cluster.client(), now).await?;
    }
    Ok(running)
}

/// Lets the API server ask the webhook. Inside one process nobody shows a certificate, but there has
/// to be a CA to trust.
async fn configure_webhook(client: &Client, now: Timestamp) -> Result<(), Box<dyn Error>> {
    let authority = Request {
        common_name: "kubevirt-operator-webhook".to_owned(),
        dns_names: Vec::new(),
        usage: Usage::Ca,
        not_before: now,
        not_after: now + TRUSTED,
    };
    let authority = issue(&authority, None)?.certificate;
    let bundle = serde_json::to_value(ByteString(authority.into_bytes()))?;
    for text in WEBHOOK {
        let mut object: Value = serde_saphyr::from_str(text)?;
        let webhooks = object.get_mut("webhooks").and_then(Value::as_array_mut);
        for webhook in webhooks.into_iter().flatten() {
            webhook["clientConfig"]["caBundle"] = bundle.clone();
        }
        sandbox::apply(client, object).await?;
    }
    Ok(())
}

/// Runs the KubeVirt operator, and asks it for KubeVirt.
pub(super) async fn kubevirt(cluster: &Cluster, speed: Speed) -> Result<Running, Box<dyn Error>> {
    let (namespace, account) = KUBEVIRT;
    grant(&cluster.client(), KUBEVIRT_RIGHTS).await?;
    let server = cluster.server().clone();
    let client = server.client_of(namespace, account);
    let options = kubevirt::Options {
        operator: target::Operator {
            namespace: namespace.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            image: Some(format!("{REGISTRY}/virt-operator:{VERSION}")),
            service_account: STRATEGY_ACCOUNT.to_owned(),
            speed: speed.factor(),
            ..target::Operator::default()
        },
        ..kubevirt::Options::default()
    };
    let webhook = Webhook::new(client.clone(), options.operator.clone());
    answer_webhooks(cluster, namespace, move |path, review| {
        let webhook = webhook.clone();
        Box::pin(async move { webhook.review(&path, &review).await })
    });
    let clock = Arc::new(move || server.now());
    let operator = kubevirt::Operator::alone(client, options, clock);
    let running = Running::start(|stop| tokio::spawn(operator.run(stop)));
    ask_for_kubevirt(&cluster.client()).await?;
    Ok(running)
}

/// Answers for the webhook of the operator in a namespace.
fn answer_webhooks(
    cluster: &Cluster,
    namespace: &str,
    review: impl Fn(String, Vec<u8>) -> BoxFuture<'static, Result<Value, Unanswered>>
    + Send
    + Sync
    + 'static,
) {
    let backend = Backend::new(move |path, body| {
        let answer = review(path, body.to_string().into_bytes());
        Box::pin(async move { answer.await.map_err(|error| error.to_string()) })
    });
    // Both have the same name, each in its namespace.
    let service = "kubevirt-operator-webhook";
    cluster
        .server()
        .answer_for_service(namespace, service, backend);
}

/// Creates the KubeVirt resource, unless a cluster that was kept has one.
async fn ask_for_kubevirt(client: &Client) -> Result<(), Box<dyn Error>> {
    let wanted: KubeVirt = serde_json::from_value(serde_json::json!({
        "apiVersion": "kubevirt.io/v1", "kind": "KubeVirt",
        "metadata": { "name": "kubevirt", "namespace": KUBEVIRT.0 },
        "spec": {
            "imageTag": VERSION, "imageRegistry": REGISTRY,
            // No node of the sandbox is a control plane.
            "infra": { "nodePlacement": {} },
        },
    }))?;
    let api: Api<KubeVirt> = Api::namespaced(client.clone(), KUBEVIRT.0);
    let created = timeout(DEFINED, async {
        loop {
            match api.create(&PostParams::default(), &wanted).await {
                Ok(_) => return Ok(()),
                Err(kube::Error::Api(status)) if status.code == 409 => return Ok(()),
                // The operator is about to install the definition.
                Err(kube::Error::Api(status)) if status.code == 404 => {
                    sleep(Duration::from_millis(50)).await;
                }
                Err(error) => return Err(error),
            }
        }
    });
    Ok(created.await??)
}

async fn grant(client: &Client, rights: &[&str]) -> Result<(), Box<dyn Error>> {
    for text in rights {
        for object in serde_saphyr::from_multiple::<Value>(text)? {
            sandbox::apply(client, object).await?;
        }
    }
    Ok(())
}
