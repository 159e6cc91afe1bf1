//! Sandbox cluster, an operator in this process, and Machines.

use std::{future::Future, sync::Arc, time::Duration};

use api::{Machine, Phase};
use kube::{
    Api, Client,
    api::{ListParams, PostParams},
};
use kubevirt_operator::machine::{Operator, Options};
use runtime::{
    client::{CallObserver, Limits, Transport, layered},
    election::Fence,
};
use sandbox::{ApiServer, Cluster, Setup, Speed};
use serde_json::json;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// The operator's default.
pub const RESYNC: Duration = Duration::from_secs(30);

/// Runs a future on this thread.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime needs nothing")
        .block_on(future)
}

/// A cluster whose actors act immediately, with capacity for this many Machines on ten nodes.
pub async fn start(machines: usize) -> Cluster {
    let definitions = api::crds()
        .iter()
        .map(|definition| serde_json::to_value(definition).expect("a definition is JSON"))
        .collect();
    let setup = Setup {
        speed: Speed::Instant,
        nodes: 0,
        start: jiff::Timestamp::now(),
        definitions,
        ..Setup::seeded(1)
    };
    let cluster = Cluster::start(setup, None)
        .await
        .expect("the cluster starts");
    let capacity = json!({
        "cpu": machines + 100, "memory": format!("{}Gi", 4 * machines + 100), "pods": machines + 100,
        "ephemeral-storage": "100Ti", "devices.kubevirt.io/kvm": machines + 100,
        "devices.kubevirt.io/tun": machines + 100, "devices.kubevirt.io/vhost-net": machines + 100,
    });
    for number in 1..=10_u32 {
        let range = format!("10.{}.0.0/16", 100 + number);
        let node = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": { "name": format!("node-{number}"), "labels": {
                sandbox::NODE_LABEL: "true", "kubevirt.io/schedulable": "true",
                "kubernetes.io/arch": "amd64",
            } },
            "spec": { "podCIDR": range, "podCIDRs": [range] },
            "status": { "capacity": capacity },
        });
        sandbox::apply(&cluster.client(), node)
            .await
            .expect("the API server accepts the node");
    }
    cluster
}

/// An operator in this process.
pub struct InProcessOperator {
    token: CancellationToken,
    task: JoinHandle<()>,
}

impl InProcessOperator {
    /// Starts it; all its requests go through `transport`.
    pub fn start(
        server: &ApiServer,
        transport: impl Into<Transport>,
        calls: Arc<dyn CallObserver>,
    ) -> Self {
        let client = layered(transport, Fence::open(), Limits::UNLIMITED, calls);
        let options = Options {
            namespaces: Vec::new(),
            clone_source_namespaces: std::collections::BTreeSet::new(),
            provider: plan::machine::Provider::default(),
            kubevirt_config: None,
            reconcile_interval: RESYNC,
            concurrency: 5,
            watch_secrets: true,
            key_secret: None,
            seed: 1,
        };
        let server = server.clone();
        let operator = Operator::alone(client, options, Arc::new(move || server.now()));
        let token = CancellationToken::new();
        let task = tokio::spawn(operator.run(token.clone()));
        Self { token, task }
    }

    pub async fn stop(self) {
        self.token.cancel();
        self.task.await.expect("the operator ends in order");
    }
}

/// Creates a Machine with one disk.
pub async fn create(client: &Client, name: &str) {
    let machine = json!({ "metadata": { "name": name }, "spec": { "template": "small" } });
    let machine: Machine = serde_json::from_value(machine).expect("it is a Machine");
    machines(client)
        .create(&PostParams::default(), &machine)
        .await
        .expect("the API server accepts the Machine");
}

/// Waits until this many Machines run, polling every `interval`.
pub async fn until_running(client: &Client, count: usize, interval: Duration) {
    loop {
        let machines = machines(client)
            .list(&ListParams::default())
            .await
            .expect("there is a list");
        let running = machines.items.iter().filter(|machine| {
            let status = machine.status.as_ref();
            status.and_then(|status| status.phase) == Some(Phase::Running)
        });
        if running.count() >= count {
            return;
        }
        tokio::time::sleep(interval).await;
    }
}

fn machines(client: &Client) -> Api<Machine> {
    Api::namespaced(client.clone(), "default")
}
