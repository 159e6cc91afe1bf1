//! Sandbox cluster of a run, and the operators with the permissions of config/rbac.

use std::{path::Path, sync::Arc, time::Duration};

use jiff::{SignedDuration, Timestamp};
use kube::Client;
use kubevirt_operator::metrics::{InstallationMetrics, Metrics};
use kubevirt_operator::{kubevirt, machine};
use plan::kubevirt::{job::STRATEGY_ACCOUNT, target};
use runtime::{client::Limits, election::Fence, probes::Health};
use sandbox::{Backend, Cluster, KubeVirtMode, Setup};
use serde_json::{Value, json};
use tokio::{
    sync::watch,
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;

use crate::{
    decision::{Action, Subject},
    network::Network,
    user::User,
};

/// Registry of KubeVirt's images.
pub const REGISTRY: &str = "registry.example/kubevirt";

/// What an operator needs to start.
pub struct Start {
    /// Fenced client.
    pub client: Client,
    /// Client without a fence, for reads.
    pub open: Client,
    pub clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    pub leads: watch::Receiver<bool>,
    pub seed: u64,
    pub stop: CancellationToken,
}

impl Subject {
    /// Namespace and name of the operator's service account.
    pub fn account(self) -> (&'static str, &'static str) {
        match self {
            Self::Machine => (
                "kubevirt-operator-system",
                "kubevirt-operator-controller-manager",
            ),
            Self::Kubevirt => ("kubevirt", "kubevirt-operator"),
        }
    }

    /// Name of the operator's Lease.
    pub fn lease(self) -> &'static str {
        match self {
            Self::Machine => "kubevirt-operator",
            Self::Kubevirt => "virt-operator",
        }
    }

    /// Namespace of the users' objects.
    pub fn namespace(self) -> &'static str {
        match self {
            Self::Machine => "default",
            Self::Kubevirt => "kubevirt",
        }
    }

    /// Starts a cluster without an operator.
    pub async fn cluster(self, seed: u64) -> Cluster {
        let mut setup = Setup::seeded(seed);
        let files: &[&str] = match self {
            Self::Machine => {
                let definitions = api::crds();
                let definitions = definitions.iter().map(serde_json::to_value);
                setup.definitions = definitions.map(Result::unwrap).collect();
                &[
                    "00_namespace.yaml",
                    "service_account.yaml",
                    "role.yaml",
                    "role_binding.yaml",
                    "leader_election_role.yaml",
                ]
            }
            Self::Kubevirt => {
                setup.kubevirt = KubeVirtMode::Managed;
                &[
                    "virt-operator/priority_class.yaml",
                    "virt-operator/rbac.yaml",
                    "virt-operator/strategy_job.yaml",
                ]
            }
        };
        let cluster = Cluster::start(setup, None).await.unwrap();
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config/rbac");
        for file in files {
            let text = std::fs::read_to_string(folder.join(file)).unwrap();
            for object in serde_saphyr::from_multiple::<Value>(&text).unwrap() {
                sandbox::apply(&cluster.client(), object).await.unwrap();
            }
        }
        if self == Self::Kubevirt {
            make_control_planes(&User::new(cluster.client(), self.namespace())).await;
            answer_webhooks(&cluster);
        }
        cluster
    }

    /// Runs the operator until it is stopped.
    pub async fn operate(self, start: Start) {
        match self {
            Self::Machine => {
                let operator = machine::Operator {
                    client: start.client,
                    lookups: start.open,
                    remote: machine::RemoteAccess::new(Fence::open(), Limits::UNLIMITED),
                    options: machine::Options {
                        seed: start.seed,
                        ..machine::Options::default()
                    },
                    clock: start.clock,
                    stopwatch: Arc::new(Instant::now),
                    metrics: Metrics::new("campaign"),
                    health: Health::new(),
                    leads: start.leads,
                    queries: machine::CacheQueries::default(),
                };
                Box::pin(operator.run(start.stop)).await;
            }
            Self::Kubevirt => {
                let operator = kubevirt::Operator {
                    client: start.client,
                    options: kubevirt::Options {
                        operator: operator(),
                        seed: start.seed,
                        ..kubevirt::Options::default()
                    },
                    clock: start.clock,
                    metrics: InstallationMetrics::new("campaign", ""),
                    health: Health::new(),
                    leads: start.leads,
                };
                operator.run(start.stop).await;
            }
        }
    }
}

/// Clock of a replica, with the current clock fault.
pub fn clock(cluster: &Cluster, network: &Network) -> Arc<dyn Fn() -> Timestamp + Send + Sync> {
    let (server, network) = (cluster.server().clone(), network.clone());
    Arc::new(move || {
        let by = SignedDuration::from_secs(network.clock());
        server.now().checked_add(by).unwrap_or(server.now())
    })
}

fn operator() -> target::Operator {
    target::Operator {
        namespace: Subject::Kubevirt.namespace().to_owned(),
        version: "0.0.0-campaign".to_owned(),
        image: Some(format!("{REGISTRY}/virt-operator:v1.9.0")),
        service_account: STRATEGY_ACCOUNT.to_owned(),
        ..target::Operator::default()
    }
}

/// Labels nodes as control planes, where KubeVirt's components run.
async fn make_control_planes(user: &User) {
    let nodes = loop {
        let nodes = user.list("Node").await;
        if nodes.len() >= 2 {
            break nodes;
        }
        sleep(Duration::from_secs(1)).await;
    };
    for node in nodes.iter().take(2) {
        let labels = json!({ "node-role.kubernetes.io/control-plane": "" });
        let action = Action::Patch {
            kind: "Node",
            name: node["metadata"]["name"].as_str().unwrap().to_owned(),
            patch: json!({ "metadata": { "labels": labels } }),
        };
        user.act(&action).await.unwrap();
    }
}

/// Serves the webhook, which does not need leadership.
fn answer_webhooks(cluster: &Cluster) {
    let (namespace, account) = Subject::Kubevirt.account();
    let server = cluster.server();
    let client = server.client_of(namespace, account);
    let webhook = kubevirt::webhook::Webhook::new(client, operator());
    let backend = Backend::new(move |path, review| {
        let webhook = webhook.clone();
        Box::pin(async move {
            let review = review.to_string();
            let answer = webhook.review(&path, review.as_bytes()).await;
            answer.map_err(|error| error.to_string())
        })
    });
    server.answer_for_service(namespace, "kubevirt-operator-webhook", backend);
}
