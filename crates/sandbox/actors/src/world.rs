//! Configuration of the actors: API server, speed, faults, seed and components.

use std::collections::BTreeSet;

use kube::Client;
use serde_json::Value;

use crate::{
    Clock, Component, Speed,
    faults::Faults,
    kubevirt::{Mode, Strategies},
};

#[derive(Clone)]
pub struct World {
    pub client: Client,
    pub speed: Speed,
    pub faults: Faults,
    /// Source of all randomness.
    pub seed: u64,
    pub clock: Clock,
    pub nodes: usize,
    /// The API server's CA certificate in PEM, published to pods.
    pub ca: String,
    /// Namespaces to work in; all if absent. Cluster-scoped objects are always observed.
    pub namespaces: Option<BTreeSet<String>>,
    /// Components that the actors do not install. They act on them once someone else does.
    pub without: BTreeSet<Component>,
    /// How KubeVirt is installed. [`Mode::Managed`] leaves out its CustomResourceDefinitions too.
    pub kubevirt: Mode,
    /// Content of the virt-operator images.
    pub strategies: Strategies,
    /// Whether the actors report which APIServices are available, which a kube-apiserver does
    /// itself.
    pub aggregates: bool,
}

impl World {
    pub fn installs(&self, component: Component) -> bool {
        let is_managed = component == Component::KubeVirt && self.kubevirt == Mode::Managed;
        !is_managed && !self.without.contains(&component)
    }

    pub fn definitions(&self) -> Vec<Value> {
        let components = Component::ALL.into_iter();
        let installed = components.filter(|component| self.installs(*component));
        installed.flat_map(Component::definitions).collect()
    }

    /// Three nodes, the default speed, no faults.
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
