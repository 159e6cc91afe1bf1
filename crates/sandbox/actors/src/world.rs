//! What the actors are told at the start.

use std::collections::BTreeSet;

use kube::Client;
use serde_json::Value;

use crate::{
    Clock, Component, Speed,
    faults::Faults,
    kubevirt::{Mode, Strategies},
};

/// The cluster that the actors work in, and how they are to behave.
#[derive(Clone)]
pub struct World {
    /// The API server.
    pub client: Client,
    /// How long things take.
    pub speed: Speed,
    /// What fails.
    pub faults: Faults,
    /// Where all randomness comes from.
    pub seed: u64,
    /// What time it is.
    pub clock: Clock,
    /// How many nodes there are to be.
    pub nodes: usize,
    /// The API server's CA certificate in PEM, for the pods.
    pub ca: String,
    /// The namespaces to work in; all when absent. Nodes and other objects outside of namespaces
    /// are looked at in either case.
    pub namespaces: Option<BTreeSet<String>>,
    /// What the actors do not install. They act on it all the same once somebody else does.
    pub without: BTreeSet<Component>,
    /// How KubeVirt comes into the cluster. Where it is managed, its definitions are left out too.
    pub kubevirt: Mode,
    /// What is in the images of virt-operator.
    pub strategies: Strategies,
    /// Whether the actors report which APIServices are available. A kube-apiserver does so itself.
    pub aggregates: bool,
}

impl World {
    /// Whether the actors install something.
    pub fn installs(&self, component: Component) -> bool {
        let is_managed = component == Component::KubeVirt && self.kubevirt == Mode::Managed;
        !is_managed && !self.without.contains(&component)
    }

    /// The CustomResourceDefinitions that the actors install.
    pub fn definitions(&self) -> Vec<Value> {
        let components = Component::ALL.into_iter();
        let installed = components.filter(|component| self.installs(*component));
        installed.flat_map(Component::definitions).collect()
    }

    /// A world of three nodes at the default speed, where nothing fails.
    pub fn new(client: Client) -> Self {
        Self {
            client,
            speed: Speed::default(),
            faults: Faults::default(),
            seed: 0,
            clock: Clock::system(),
            nodes: 3,
            ca: String::new(),
            namespaces: None,
            without: BTreeSet::new(),
            kubevirt: Mode::default(),
            strategies: Strategies::default(),
            aggregates: false,
        }
    }
}
