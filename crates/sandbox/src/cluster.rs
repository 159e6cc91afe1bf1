//! The cluster without a socket.

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

/// How a cluster is set up.
#[derive(Clone)]
pub struct Setup {
    /// Where all randomness comes from.
    pub seed: u64,
    /// What the keys of tokens are made from.
    pub secret: Vec<u8>,
    /// What time it is at the start.
    pub start: jiff::Timestamp,
    /// How long things take.
    pub speed: Speed,
    /// How many nodes there are.
    pub nodes: usize,
    /// What fails.
    pub faults: Faults,
    /// The API server's CA certificate in PEM, for the pods; empty for none.
    pub ca: String,
    /// CustomResourceDefinitions besides those of KubeVirt, CDI and Multus.
    pub definitions: Vec<Value>,
    /// What is not there at the start. [`Cluster::install`] brings it later.
    pub without: BTreeSet<Component>,
    /// How KubeVirt comes into the cluster. Where it is managed, it is as if `without` held it too,
    /// and it acts as long as its components have ready pods.
    pub kubevirt: Mode,
    /// What the images of virt-operator have for `--dump-install-strategy`.
    pub strategies: Strategies,
}

impl fmt::Debug for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the secret.
        f.debug_struct("Setup")
            .field("seed", &self.seed)
            .field("start", &self.start)
            .field("speed", &self.speed)
            .field("nodes", &self.nodes)
            .finish_non_exhaustive()
    }
}

impl Setup {
    /// A cluster whose every byte is repeatable: for tests.
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

    /// The same cluster for actors that reach their API server through `client`.
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

/// A cluster in memory, with everything that acts in it.
#[derive(Debug)]
pub struct Cluster {
    server: ApiServer,
    stopping: CancellationToken,
    actors: JoinHandle<()>,
}

impl Cluster {
    /// Starts a cluster, and waits until its definitions are served. With a folder, it goes on
    /// where the last one that had it ended.
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

    /// The API server.
    pub fn server(&self) -> &ApiServer {
        &self.server
    }

    /// A client of the administrator.
    pub fn client(&self) -> kube::Client {
        self.server.client()
    }

    /// Brings something that the cluster was set up without, and waits until it is served.
    pub async fn install(&self, component: Component) -> Result<(), ApplyError> {
        seed::install_crds(&self.client(), component.definitions()).await
    }

    /// Removes something, and with it all objects of its kinds. They may take their time to go:
    /// their finalizers are heeded, as `kubectl delete crd` does.
    pub async fn uninstall(&self, component: Component) -> Result<(), ApplyError> {
        seed::delete_crds(&self.client(), component.definitions()).await
    }

    /// Ends the actors, then the server; what is kept on disk is complete then.
    pub async fn stop(self) -> Result<(), JournalError> {
        self.stopping.cancel();
        // An actor that has panicked has said so already.
        let _ = self.actors.await;
        self.server.stop()
    }
}
