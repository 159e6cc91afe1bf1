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
use sandbox::ApiServer;
use serde_json::json;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// The operator's default.
pub const RESYNC: Duration = Duration::from_secs(30);

pub use crate::simulated::start;

/// Runs a future on this thread.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime needs nothing")
        .block_on(future)
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
            reconcile_interval: RESYNC,
            seed: 1,
            ..Options::default()
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
