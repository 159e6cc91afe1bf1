//! In-memory cluster without a socket.

use std::{collections::BTreeSet, fmt, path::Path};

use actors::{
    Clock, Component, Speed, World,
    faults::Faults,
    kubevirt::{Mode, Strategies},
};
use apiserver::{ApiServer, JournalError};
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::{ApplyError, StartError, cdi, kubevirt, seed};

#[derive(Clone)]
pub struct Setup {
    /// Source of all randomness.
    pub seed: u64,
    /// Key material of tokens.
    pub secret: Vec<u8>,
    /// Time at the start.
    pub start: jiff::Timestamp,
    pub speed: Speed,
    pub nodes: usize,
    pub faults: Faults,
    /// The API server's CA certificate in PEM, published to pods; may be empty.
    pub ca: String,
    /// CustomResourceDefinitions besides those of KubeVirt, CDI and Multus.
    pub definitions: Vec<Value>,
    /// Components that are missing at the start; [`Cluster::install`] adds them.
    pub without: BTreeSet<Component>,
    /// How KubeVirt is installed. [`Mode::Managed`] implies `without` it, and KubeVirt acts while
    /// its components have ready pods.
    pub kubevirt: Mode,
    /// Install strategies in the virt-operator images.
    pub strategies: Strategies,
}

impl fmt::Debug for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Omits the secret.
        f.debug_struct("Setup")
            .field("seed", &self.seed)
            .field("start", &self.start)
            .field("speed", &self.speed)
            .field("nodes", &self.nodes)
            .finish_non_exhaustive()
    }
}

impl Setup {
    /// A reproducible cluster, for tests.
    pub fn seeded(seed: u64) -> Self {
        let server = apiserver::Options::seeded(seed);
        Self {
            seed,
            secret: server.secret,
            start: server.start,
            speed: Speed::Fast,
            nodes: 3,
            faults: Faults::default(),
            ca: String::new(),
            definitions: Vec::new(),
            without: BTreeSet::new(),
            kubevirt: Mode::BuiltIn,
            strategies: Strategies::default(),
        }
    }

    /// Configuration of the same cluster's actors for an API server behind `client`.
    pub fn world(&self, client: kube::Client) -> World {
        World {
            speed: self.speed,
            faults: self.faults.clone(),
            seed: self.seed,
            nodes: self.nodes,
            ca: self.ca.clone(),
            without: self.without.clone(),
            kubevirt: self.kubevirt,
            strategies: self.strategies.clone(),
            ..World::new(client)
        }
    }
}

#[derive(Debug)]
pub struct Cluster {
    server: ApiServer,
    stopping: CancellationToken,
    actors: JoinHandle<()>,
}

impl Cluster {
    /// Starts a cluster and waits until its CustomResourceDefinitions are established. With a
    /// directory, the cluster resumes from the state stored there.
    pub async fn start(setup: Setup, keep: Option<&Path>) -> Result<Self, StartError> {
        let options = apiserver::Options {
            seed: setup.seed,
            secret: setup.secret.clone(),
            start: setup.start,
            extensions: kubevirt::extensions(&setup.faults, setup.kubevirt),
            admissions: [kubevirt::admissions(&setup.faults), vec![cdi::admission()]].concat(),
            programs: kubevirt::programs(),
            ..apiserver::Options::seeded(setup.seed)
        };
        let server = match keep {
            None => ApiServer::start(options),
            Some(folder) => ApiServer::resume(options, folder)?,
        };
        let world = World {
            clock: Clock::starting_at(server.now()),
            aggregates: true,
            ..setup.world(server.client())
        };
        let definitions = world.definitions().into_iter().chain(setup.definitions);
        seed::install_crds(&server.client(), definitions).await?;
        let stopping = CancellationToken::new();
        let actors = tokio::spawn(actors::run(world, stopping.clone()));
        Ok(Self {
            server,
            stopping,
            actors,
        })
    }

    pub fn server(&self) -> &ApiServer {
        &self.server
    }

    /// A client with all rights.
    pub fn client(&self) -> kube::Client {
        self.server.client()
    }

    /// Installs a component and waits until its kinds are served.
    pub async fn install(&self, component: Component) -> Result<(), ApplyError> {
        seed::install_crds(&self.client(), component.definitions()).await
    }

    /// Deletes a component's CustomResourceDefinitions and with them all its objects, whose
    /// finalizers are honoured as with `kubectl delete crd`.
    pub async fn uninstall(&self, component: Component) -> Result<(), ApplyError> {
        seed::delete_crds(&self.client(), component.definitions()).await
    }

    /// Stops the actors, then the API server. The state on disk is complete when this returns.
    pub async fn stop(self) -> Result<(), JournalError> {
        self.stopping.cancel();
        // The panic of an actor has already been printed.
        let _ = self.actors.await;
        self.server.stop()
    }
}
