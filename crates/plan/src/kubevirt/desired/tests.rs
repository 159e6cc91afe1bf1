//! Tests of the desired state.

mod customized;
mod omitted;
mod releases;
mod workloads;

use std::collections::BTreeMap;

use api::kubevirt::install::KubeVirt;
use serde_json::{Value, json};

use super::{Desired, DesiredError, Facts, Handlers, OmittedObject, desired};
use crate::kubevirt::{object::Object, observed::Served, strategy::Strategy, target::Target};

/// A small strategy with an object of every kind.
const STRATEGY: &str = include_str!("tests/strategy.yaml");

const BUNDLE: &str = "-----BEGIN CERTIFICATE-----\n";

/// A KubeVirt resource and a cluster.
struct World {
    kubevirt: KubeVirt,
    target: Target,
    strategy: Strategy,
    served: Served,
    nodes: usize,
    bundles: BTreeMap<String, String>,
    handlers: Handlers,
}

fn world(spec: Value) -> World {
    let mut kubevirt = json!({
        "apiVersion": "kubevirt.io/v1",
        "kind": "KubeVirt",
        "metadata": {"name": "kubevirt", "namespace": "kubevirt", "generation": 7},
    });
    kubevirt["spec"] = spec;
    World {
        kubevirt: serde_json::from_value(kubevirt).unwrap(),
        target: target("v1.9.0"),
        strategy: Strategy::parse(STRATEGY).unwrap(),
        served: Served::default(),
        nodes: 3,
        bundles: BTreeMap::from([("kubevirt-ca".to_owned(), BUNDLE.to_owned())]),
        handlers: Handlers::None,
    }
}

fn target(version: &str) -> Target {
    Target {
        version: version.to_owned(),
        registry: "registry.example/kubevirt".to_owned(),
        id: "0123".to_owned(),
        ..Target::default()
    }
}

impl World {
    fn try_desired(&self) -> Result<Desired, DesiredError> {
        let facts = Facts {
            namespace: "kubevirt",
            served: &self.served,
            schedulable_nodes: self.nodes,
            bundles: self.bundles.clone(),
            handlers: self.handlers,
        };
        desired(&self.kubevirt, &self.target, &self.strategy, &facts)
    }

    fn desired(&self) -> Desired {
        self.try_desired().unwrap()
    }

    fn serves(mut self, kinds: &[(&str, &str)]) -> Self {
        for (group, kind) in kinds {
            let key = ((*group).to_owned(), (*kind).to_owned());
            self.served.kinds.insert(key, "v1".to_owned());
        }
        self
    }
}

impl Desired {
    fn find(&self, kind: &str, name: &str) -> Option<&Object> {
        let mut objects = self.objects.iter();
        objects.find(|object| &*object.id.kind == kind && &*object.id.name == name)
    }

    fn get(&self, kind: &str, name: &str) -> Value {
        let object = self.find(kind, name);
        object.unwrap_or_else(|| panic!("no {kind} {name}")).value()
    }

    fn omission(&self, kind: &str, name: &str) -> Option<String> {
        let mut omitted = self.omitted.iter();
        let is = |left: &&OmittedObject| &*left.id.kind == kind && &*left.id.name == name;
        Some(omitted.find(is)?.reason.to_string())
    }
}
