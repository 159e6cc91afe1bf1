//! Cluster of a story: a sandbox of its own, or a real cluster.

use std::{future::Future, path::Path, sync::Arc, time::Duration};

use http::Request;
use http_body_util::BodyExt as _;
use kube::Client;
use kubevirt_operator::machine::Clock;
use runtime::{client::Transport, tls::Handler};
use sandbox::{ApiServer, Backend, Cluster, Component, Setup};
use serde_json::Value;
use tokio::time::sleep;

use super::{
    paused,
    real::{self, Real},
    services::Identity,
    skipped::skip,
};
use crate::SUITE;

/// How long a story may let time pass for nothing where it is real.
const LONGEST_REAL_WAIT: Duration = Duration::from_secs(5);

/// What a story needs beyond an API server with the actors beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// Somebody who collects garbage and ends namespaces.
    Controllers,
    /// An API server that reaches Services, which the operator and virt-api answer at.
    Services,
    /// CEL in CustomResourceDefinitions and webhooks: Kubernetes 1.30.
    Cel,
    /// Kubernetes 1.21: 1.20 has no policy/v1, and some stories fail there for causes not yet known.
    CurrentApis,
}

impl Need {
    /// Why a story is skipped where it is not met.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Self::Controllers => "no kube-controller-manager runs beside this API server",
            Self::Services => {
                "Services of this cluster have no address on this machine, or it is older than Kubernetes 1.21"
            }
            Self::Cel => "this API server knows no CEL rules: Kubernetes 1.30 does",
            Self::CurrentApis => "this API server is older than Kubernetes 1.21",
        }
    }
}

/// Runs a story, on a real cluster beside others.
pub(crate) fn tell(story: impl Future<Output = ()>) {
    tell_with(&[], story);
}

/// Runs a story that needs something, on a real cluster beside others.
pub(crate) fn tell_with(needs: &[Need], story: impl Future<Output = ()>) {
    if !real::is_wanted() {
        paused::tell(story);
    } else if let Err(need) = real::tell(needs, story) {
        skip(need.reason());
    }
}

/// Runs a story that has the whole cluster to itself: it may set it up otherwise, and change what
/// belongs to no namespace.
pub(crate) fn tell_alone(needs: &[Need], story: impl Future<Output = ()>) {
    if !real::is_wanted() {
        paused::tell(story);
    } else if let Err(need) = real::tell_alone(needs, story) {
        skip(need.reason());
    }
}

/// Runs a story that only the sandbox can show, and says why.
pub(crate) fn tell_in_sandbox(because: &str, story: impl Future<Output = ()>) {
    if real::is_wanted() {
        skip(because);
    } else {
        paused::tell(story);
    }
}

/// Runs a story in which somebody has to collect garbage and to end namespaces.
pub(crate) fn tell_with_controllers(story: impl Future<Output = ()>) {
    tell_with(&[Need::Controllers], story);
}

/// The cluster of a story.
pub(crate) enum Ground {
    Sandbox(Cluster),
    Real(Arc<Real>),
}

impl Ground {
    /// A cluster that is set up as the suite says, with the operator's rights.
    pub(crate) async fn begin() -> Self {
        let ground = Self::of((SUITE.setup)()).await;
        ground.grant().await;
        ground
    }

    /// A cluster that is set up otherwise, without the operator's rights.
    pub(crate) async fn bare(change: impl FnOnce(&mut Setup)) -> Self {
        let mut setup = (SUITE.setup)();
        change(&mut setup);
        let ground = Self::of(setup).await;
        assert!(!ground.is_shared(), "this story is for tell_alone");
        ground
    }

    async fn of(setup: Setup) -> Self {
        if real::is_wanted() {
            Self::Real(real::cluster(&setup).await)
        } else {
            Self::Sandbox(Cluster::start(setup, None).await.unwrap())
        }
    }

    /// Gives the operator's service account its rights.
    pub(crate) async fn grant(&self) {
        for file in SUITE.rights {
            for object in documents(file) {
                sandbox::apply(&self.client(), object).await.unwrap();
            }
        }
    }

    /// The namespace of a story, which is empty.
    pub(crate) async fn namespace(&self) -> String {
        match self {
            Self::Real(cluster) if !cluster.is_alone => cluster.namespace().await,
            _ => "default".to_owned(),
        }
    }

    /// Whether other stories use this cluster at the same time.
    pub(crate) fn is_shared(&self) -> bool {
        matches!(self, Self::Real(cluster) if !cluster.is_alone)
    }

    pub(crate) fn is_real(&self) -> bool {
        matches!(self, Self::Real(_))
    }

    /// A client of somebody who may do everything.
    pub(crate) fn client(&self) -> Client {
        match self {
            Self::Sandbox(cluster) => cluster.client(),
            Self::Real(cluster) => cluster.client.clone(),
        }
    }

    /// A client with the rights of a service account.
    pub(crate) fn client_of(&self, namespace: &str, account: &str) -> Client {
        match self {
            Self::Sandbox(cluster) => cluster.server().client_of(namespace, account),
            Self::Real(cluster) => cluster.client_of(namespace, account),
        }
    }

    /// A way to the API server for the operator, with the rights of its service account.
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

    /// Answers at the address of a Service, once it has one, until that is ended.
    pub(crate) fn answer_at(
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
                    .answer_at((namespace, service), identity, handler);
            }
        }
    }

    /// Has nobody answer at the address of a Service any more.
    pub(crate) async fn end_answers_at(&self, (namespace, service): (&str, &str)) {
        match self {
            Self::Sandbox(cluster) => cluster.server().forget_service(namespace, service),
            Self::Real(cluster) => cluster.services.end((namespace, service)).await,
        }
    }

    /// Brings something that the cluster was set up without.
    pub(crate) async fn install(&self, component: Component) {
        let client = self.client();
        let definitions = component.definitions();
        sandbox::install_crds(&client, definitions).await.unwrap();
        if let Self::Real(cluster) = self {
            cluster.register_virt_api(component).await;
        }
    }

    /// How long something may take that is to happen.
    pub(crate) fn patience(&self) -> Duration {
        match self {
            Self::Sandbox(_) => Duration::from_secs(3600),
            Self::Real(_) => Duration::from_secs(240),
        }
    }

    /// How long something may take that is to happen within so many seconds.
    pub(crate) fn patience_of(&self, seconds: u64) -> Duration {
        match self {
            Self::Sandbox(_) => Duration::from_secs(seconds),
            Self::Real(_) => self.patience().max(Duration::from_secs(seconds)),
        }
    }

    /// Lets time pass: so many seconds, or a few where they are real.
    pub(crate) async fn wait(&self, seconds: u64) {
        self.wait_for(Duration::from_secs(seconds)).await;
    }

    /// Lets time pass: so much, or a few seconds where they are real.
    pub(crate) async fn wait_for(&self, time: Duration) {
        let time = match self {
            Self::Sandbox(_) => time,
            Self::Real(_) => time.min(LONGEST_REAL_WAIT),
        };
        sleep(time).await;
    }

    /// The sandbox's API server.
    pub(crate) fn server(&self) -> &ApiServer {
        match self {
            Self::Sandbox(cluster) => cluster.server(),
            Self::Real(_) => panic!("this story is for tell_in_sandbox"),
        }
    }
}

/// The objects of a file of config/.
pub(crate) fn documents(file: &str) -> Vec<Value> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config");
    let text = std::fs::read_to_string(folder.join(file)).unwrap();
    serde_saphyr::from_multiple(&text).unwrap()
}

/// What answers inside the sandbox, where nobody shows a certificate.
fn backend(handler: Handler) -> Backend {
    Backend::new(move |path, review| {
        let request = Request::post(path).body(review.to_string().into());
        let answering = handler(request.unwrap());
        Box::pin(async move {
            let answer = answering.await;
            let is_fine = answer.status().is_success();
            let body = answer.into_body().collect().await;
            let body = body.map(http_body_util::Collected::to_bytes);
            let body = body.unwrap_or_else(|never| match never {});
            if is_fine {
                serde_json::from_slice(&body).map_err(|error| error.to_string())
            } else {
                Err(String::from_utf8_lossy(&body).into_owned())
            }
        })
    })
}
