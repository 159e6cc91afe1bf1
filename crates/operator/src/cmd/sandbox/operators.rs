//! Operators inside the sandbox, each with the permissions of its own service account.

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
    review::ReviewError,
};

/// Namespace and service account of the Machine operator.
const MACHINES: (&str, &str) = (NAMESPACE, "kubevirt-operator-controller-manager");

/// Validity of the webhook's CA, longer than any sandbox runs.
const CA_VALIDITY: SignedDuration = SignedDuration::from_hours(24 * 365 * 10);

/// Namespace of KubeVirt and service account of its operator.
const KUBEVIRT: (&str, &str) = ("kubevirt", "kubevirt-operator");

/// Registry of the simulated images.
const REGISTRY: &str = "registry.example/kubevirt";

/// KubeVirt version to install at the start.
const VERSION: &str = "v1.9.0";

/// Time within which the operator installs the CustomResourceDefinition of KubeVirt.
const CRD_TIMEOUT: Duration = Duration::from_secs(30);

pub(super) struct RunningOperator {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl RunningOperator {
    fn start(run: impl FnOnce(CancellationToken) -> JoinHandle<()>) -> Self {
        let stop = CancellationToken::new();
        let task = run(stop.clone());
        Self { stop, task }
    }

    pub(super) async fn stop(self) {
        self.stop.cancel();
        // A panic is already reported.
        let _ = self.task.await;
    }
}

/// Runs the Machine operator, optionally with its webhook.
pub(super) async fn machines(
    cluster: &Cluster,
    with_webhook: bool,
) -> Result<RunningOperator, Box<dyn Error>> {
    grant(&cluster.client(), MACHINE_RIGHTS).await?;
    let server = cluster.server().clone();
    let client = server.client_of(MACHINES.0, MACHINES.1);
    let options = machine::Options::default();
    let now = server.now();
    let operator = machine::Operator::alone(client, options, Arc::new(move || server.now()));
    if with_webhook {
        let webhook = operator.webhook();
        serve_webhook(cluster, MACHINES.0, move |path, review| {
            let webhook = webhook.clone();
            Box::pin(async move { webhook.review(&path, &review).await })
        });
    }
    let running = RunningOperator::start(|stop| tokio::spawn(operator.run(stop)));
    if with_webhook {
        configure_webhook(&cluster.client(), now).await?;
    }
    Ok(running)
}

/// Registers the webhook. No certificate is checked inside the process, but the configuration needs a CA.
async fn configure_webhook(client: &Client, now: Timestamp) -> Result<(), Box<dyn Error>> {
    let authority = Request {
        common_name: "kubevirt-operator-webhook".to_owned(),
        dns_names: Vec::new(),
        usage: Usage::Ca,
        not_before: now,
        not_after: now + CA_VALIDITY,
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

/// Runs the KubeVirt operator, and creates a KubeVirt resource.
pub(super) async fn kubevirt(
    cluster: &Cluster,
    speed: Speed,
) -> Result<RunningOperator, Box<dyn Error>> {
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
            speed: target::Speed::times(speed.factor()),
            ..target::Operator::default()
        },
        ..kubevirt::Options::default()
    };
    let webhook = Webhook::new(client.clone(), options.operator.clone());
    serve_webhook(cluster, namespace, move |path, review| {
        let webhook = webhook.clone();
        Box::pin(async move { webhook.review(&path, &review).await })
    });
    let clock = Arc::new(move || server.now());
    let operator = kubevirt::Operator::alone(client, options, clock);
    let running = RunningOperator::start(|stop| tokio::spawn(operator.run(stop)));
    create_kubevirt(&cluster.client()).await?;
    Ok(running)
}

/// Serves the webhook of the operator in a namespace.
fn serve_webhook(
    cluster: &Cluster,
    namespace: &str,
    review: impl Fn(String, Vec<u8>) -> BoxFuture<'static, Result<Value, ReviewError>>
    + Send
    + Sync
    + 'static,
) {
    let backend = Backend::new(move |path, body| {
        let answer = review(path, body.to_string().into_bytes());
        Box::pin(async move { answer.await.map_err(|error| error.to_string()) })
    });
    // Both operators use this name, in their namespaces.
    let service = "kubevirt-operator-webhook";
    cluster
        .server()
        .answer_for_service(namespace, service, backend);
}

/// Creates the KubeVirt resource, unless a resumed cluster has one.
async fn create_kubevirt(client: &Client) -> Result<(), Box<dyn Error>> {
    let wanted: KubeVirt = serde_json::from_value(serde_json::json!({
        "apiVersion": "kubevirt.io/v1", "kind": "KubeVirt",
        "metadata": { "name": "kubevirt", "namespace": KUBEVIRT.0 },
        "spec": {
            "imageTag": VERSION, "imageRegistry": REGISTRY,
            // The sandbox has no control plane nodes.
            "infra": { "nodePlacement": {} },
        },
    }))?;
    let api: Api<KubeVirt> = Api::namespaced(client.clone(), KUBEVIRT.0);
    let created = timeout(CRD_TIMEOUT, async {
        loop {
            match api.create(&PostParams::default(), &wanted).await {
                Ok(_) => return Ok(()),
                Err(kube::Error::Api(status)) if status.code == 409 => return Ok(()),
                // The operator has not installed the definition yet.
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
