//! The operators that run inside the sandbox, each with its own rights and no others.

use std::{error::Error, sync::Arc, time::Duration};

use kube::{Api, Client, api::PostParams};
use plan::kubevirt::target;
use sandbox::{Backend, Cluster};
use serde_json::Value;
use tokio::{
    task::JoinHandle,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use api::kubevirt::install::KubeVirt;

use crate::{
    installation::{KUBEVIRT_RIGHTS, MACHINE_RIGHTS},
    kubevirt::{self, webhook::Webhook},
    machine,
};

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

/// Runs the Machine operator.
pub(super) async fn machines(cluster: &Cluster) -> Result<Running, Box<dyn Error>> {
    grant(&cluster.client(), MACHINE_RIGHTS).await?;
    let server = cluster.server().clone();
    let client = server.client_of(
        "kubevirt-operator-system",
        "kubevirt-operator-controller-manager",
    );
    let options = machine::Options::default();
    let operator = machine::Operator::alone(client, options, Arc::new(move || server.now()));
    Ok(Running::start(|stop| tokio::spawn(operator.run(stop))))
}

/// Runs the KubeVirt operator, and asks it for KubeVirt.
pub(super) async fn kubevirt(cluster: &Cluster) -> Result<Running, Box<dyn Error>> {
    let (namespace, account) = KUBEVIRT;
    grant(&cluster.client(), KUBEVIRT_RIGHTS).await?;
    let server = cluster.server().clone();
    let client = server.client_of(namespace, account);
    let options = kubevirt::Options {
        operator: target::Operator {
            namespace: namespace.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            image: Some(format!("{REGISTRY}/virt-operator:{VERSION}")),
            service_account: account.to_owned(),
            ..target::Operator::default()
        },
        ..kubevirt::Options::default()
    };
    answer_webhooks(cluster, &client, &options);
    let clock = Arc::new(move || server.now());
    let operator = kubevirt::Operator::alone(client, options, clock);
    let running = Running::start(|stop| tokio::spawn(operator.run(stop)));
    ask_for_kubevirt(&cluster.client()).await?;
    Ok(running)
}

fn answer_webhooks(cluster: &Cluster, client: &Client, options: &kubevirt::Options) {
    let webhook = Webhook::new(client.clone(), options.operator.clone());
    let backend = Backend::new(move |path, review| {
        let webhook = webhook.clone();
        Box::pin(async move {
            let answer = webhook.review(&path, review).await;
            answer.map_err(|error| error.to_string())
        })
    });
    let (namespace, service) = (KUBEVIRT.0, "kubevirt-operator-webhook");
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
