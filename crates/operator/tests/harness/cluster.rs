//! Cluster of a scenario: a sandbox of its own, or a real cluster.

use std::{path::Path, sync::Arc, time::Duration};

use http::Request;
use http_body_util::BodyExt as _;
use kube::Client;
use kubevirt_operator::machine::Clock;
use runtime::{client::Transport, tls::Handler};
use sandbox::{ApiServer, Backend, Cluster, Component, Setup};
use serde_json::Value;
use tokio::time::sleep;

use super::{
    real_cluster::{self, RealCluster},
    services::Identity,
};
use crate::SUITE;

/// Upper bound of an idle wait in real time.
const MAX_REAL_WAIT: Duration = Duration::from_secs(5);

pub(crate) enum TestCluster {
    Sandbox(Cluster),
    Real(Arc<RealCluster>),
}

impl TestCluster {
    /// Starts a cluster with the suite's setup and the operator's RBAC objects.
    pub(crate) async fn start() -> Self {
        let cluster = Self::with((SUITE.setup)()).await;
        cluster.grant_rights().await;
        cluster
    }

    /// Starts a cluster with a changed setup, without the operator's RBAC objects.
    pub(crate) async fn without_rights(change: impl FnOnce(&mut Setup)) -> Self {
        let mut setup = (SUITE.setup)();
        change(&mut setup);
        let cluster = Self::with(setup).await;
        assert!(!cluster.is_shared(), "use run_scenario_alone");
        cluster
    }

    async fn with(setup: Setup) -> Self {
        if real_cluster::is_requested() {
            Self::Real(real_cluster::connect(&setup).await)
        } else {
            Self::Sandbox(Cluster::start(setup, None).await.unwrap())
        }
    }

    /// Applies the RBAC objects of the operator's ServiceAccount.
    pub(crate) async fn grant_rights(&self) {
        for file in SUITE.rights {
            for object in documents(file) {
                sandbox::apply(&self.client(), object).await.unwrap();
            }
        }
    }

    /// Empty namespace for this scenario.
    pub(crate) async fn namespace(&self) -> String {
        match self {
            Self::Real(cluster) if !cluster.is_alone => cluster.namespace().await,
            _ => "default".to_owned(),
        }
    }

    /// Whether other scenarios use this cluster at the same time.
    pub(crate) fn is_shared(&self) -> bool {
        matches!(self, Self::Real(cluster) if !cluster.is_alone)
    }

    pub(crate) fn is_real(&self) -> bool {
        matches!(self, Self::Real(_))
    }

    /// Client with all rights.
    pub(crate) fn client(&self) -> Client {
        match self {
            Self::Sandbox(cluster) => cluster.client(),
            Self::Real(cluster) => cluster.client.clone(),
        }
    }

    /// Client with the rights of a ServiceAccount.
    pub(crate) fn client_of(&self, namespace: &str, account: &str) -> Client {
        match self {
            Self::Sandbox(cluster) => cluster.server().client_of(namespace, account),
            Self::Real(cluster) => cluster.client_of(namespace, account),
        }
    }

    /// Transport of the operator, with the rights of its ServiceAccount.
    pub(crate) fn transport(&self) -> Transport {
        let (namespace, account) = SUITE.account;
        match self {
            Self::Sandbox(cluster) => cluster.server().client_of(namespace, account).into(),
            Self::Real(cluster) => cluster.transport(namespace, account),
        }
    }

    pub(crate) fn clock(&self) -> Clock {
        match self {
            Self::Sandbox(cluster) => {
                let server = cluster.server().clone();
                Arc::new(move || server.now())
            }
            Self::Real(_) => Arc::new(jiff::Timestamp::now),
        }
    }

    /// Serves `handler` at the address of a Service, once it has one, until `stop_service`.
    pub(crate) fn serve_service(
        &self,
        (namespace, service): (&str, &str),
        identity: Identity,
        handler: Handler,
    ) {
        match self {
            Self::Sandbox(cluster) => {
                let server = cluster.server();
                server.answer_for_service(namespace, service, backend(handler));
            }
            Self::Real(cluster) => {
                cluster
                    .services
                    .serve((namespace, service), identity, handler);
            }
        }
    }

    /// Stops the server at the address of a Service.
    pub(crate) async fn stop_service(&self, (namespace, service): (&str, &str)) {
        match self {
            Self::Sandbox(cluster) => cluster.server().forget_service(namespace, service),
            Self::Real(cluster) => cluster.services.stop((namespace, service)).await,
        }
    }

    /// Installs a component that the setup left out.
    pub(crate) async fn install(&self, component: Component) {
        let client = self.client();
        let definitions = component.definitions();
        sandbox::install_crds(&client, definitions).await.unwrap();
        if let Self::Real(cluster) = self
            && component == Component::KubeVirt
            && cluster.can_simulate_virt_api()
        {
            cluster.register_virt_api().await;
        }
    }

    /// Timeout of a wait.
    pub(crate) fn timeout(&self) -> Duration {
        match self {
            Self::Sandbox(_) => Duration::from_secs(3600),
            Self::Real(_) => Duration::from_secs(240),
        }
    }

    /// Timeout of a wait: exact in virtual time, at least [`Self::timeout`] in real time.
    pub(crate) fn timeout_of(&self, seconds: u64) -> Duration {
        match self {
            Self::Sandbox(_) => Duration::from_secs(seconds),
            Self::Real(_) => self.timeout().max(Duration::from_secs(seconds)),
        }
    }

    /// Sleeps for so many seconds; in real time for [`MAX_REAL_WAIT`] at most.
    pub(crate) async fn wait(&self, seconds: u64) {
        self.wait_for(Duration::from_secs(seconds)).await;
    }

    /// Sleeps; in real time for [`MAX_REAL_WAIT`] at most.
    pub(crate) async fn wait_for(&self, time: Duration) {
        let time = match self {
            Self::Sandbox(_) => time,
            Self::Real(_) => time.min(MAX_REAL_WAIT),
        };
        sleep(time).await;
    }

    /// API server of the sandbox.
    pub(crate) fn server(&self) -> &ApiServer {
        match self {
            Self::Sandbox(cluster) => cluster.server(),
            Self::Real(_) => panic!("use run_scenario_in_sandbox"),
        }
    }
}

/// Objects of a file of config/.
pub(crate) fn documents(file: &str) -> Vec<Value> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config");
    let text = std::fs::read_to_string(folder.join(file)).unwrap();
    serde_saphyr::from_multiple(&text).unwrap()
}

/// Adapter from a handler to a backend of the sandbox, which uses no TLS.
fn backend(handler: Handler) -> Backend {
    Backend::new(move |path, review| {
        let request = Request::post(path).body(review.to_string().into());
        let response = handler(request.unwrap());
        Box::pin(async move {
            let response = response.await;
            let is_success = response.status().is_success();
            let body = response.into_body().collect().await;
            let body = body.map(http_body_util::Collected::to_bytes);
            let body = body.unwrap_or_else(|never| match never {});
            if is_success {
                serde_json::from_slice(&body).map_err(|error| error.to_string())
            } else {
                Err(String::from_utf8_lossy(&body).into_owned())
            }
        })
    })
}
