//! Managed mode: KubeVirt acts only where its components have ready pods.
//!
//! The controllers act while the Deployment `virt-controller` has a ready pod; virt-handler acts
//! for guests on nodes with a ready `virt-handler` pod, and labels these nodes. Guests run in their
//! virt-launcher pods and do not need either.

use serde_json::{Map, Value, json};

use super::names::{APP_LABEL, LAUNCHER_IMAGE, VMI};
use crate::{
    Actor, Caches, Context, Key, Kind, Object,
    kind::{DEPLOYMENT, NODE, POD},
    nodes::is_simulated,
    object::{annotation, is_deleted, is_true, label, list, name, number, text},
};

const CONTROLLER: &str = "virt-controller";
const HANDLER: &str = "virt-handler";
const SCHEDULABLE: &str = "kubevirt.io/schedulable";
const HEARTBEAT: &str = "kubevirt.io/heartbeat";

/// How KubeVirt is installed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Part of the cluster: it acts as soon as its CustomResourceDefinitions exist.
    #[default]
    BuiltIn,
    /// Installed by an operator: it acts where its pods are ready.
    Managed,
}

/// Pods that an actor depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Needs {
    /// A ready virt-controller pod on any node.
    Controller,
    /// A ready virt-handler pod on the guest's node.
    Handler,
}

/// An actor that is idle while the pods it depends on are not ready.
pub(super) struct Managed {
    actor: Box<dyn Actor>,
    needs: Needs,
    watches: Vec<Kind>,
}

impl Managed {
    pub fn new(actor: Box<dyn Actor>, needs: Needs) -> Self {
        let mut watches = actor.watches().to_vec();
        let needed = match needs {
            Needs::Controller => DEPLOYMENT,
            Needs::Handler => POD,
        };
        if !watches.contains(&needed) {
            watches.push(needed);
        }
        Self {
            actor,
            needs,
            watches,
        }
    }

    /// Keys of all objects of the actor's own kinds.
    fn all(&self, caches: &Caches) -> Vec<Key> {
        let custom = self.actor.watches().iter().filter(|kind| kind.custom);
        custom
            .flat_map(|kind| caches.all(*kind).map(move |object| (*kind, object)))
            .flat_map(|(kind, object)| self.actor.keys(kind, object, caches))
            .collect()
    }
}

impl Actor for Managed {
    fn name(&self) -> &'static str {
        self.actor.name()
    }

    fn watches(&self) -> &[Kind] {
        &self.watches
    }

    fn initial_keys(&self) -> Vec<Key> {
        self.actor.initial_keys()
    }

    fn is_serial(&self) -> bool {
        self.actor.is_serial()
    }

    fn keys(&self, kind: Kind, object: &Value, caches: &Caches) -> Vec<Key> {
        let mut keys = if self.actor.watches().contains(&kind) {
            self.actor.keys(kind, object, caches)
        } else {
            Vec::new()
        };
        let is_needed = match self.needs {
            Needs::Controller => kind == DEPLOYMENT && name(object) == CONTROLLER,
            Needs::Handler => kind == POD && label(object, APP_LABEL) == Some(HANDLER),
        };
        if is_needed {
            keys.extend(self.all(caches));
        }
        keys
    }

    fn reconcile(&self, ctx: &mut Context<'_>) {
        let is_there = match self.needs {
            Needs::Controller => has_controller(ctx.caches),
            Needs::Handler => ctx.observed(VMI).is_none_or(|vmi| {
                let node = text(&vmi, "/status/nodeName");
                node.is_empty() || has_handler(ctx.caches, node)
            }),
        };
        if is_there {
            self.actor.reconcile(ctx);
        }
    }
}

fn controllers(caches: &Caches) -> impl Iterator<Item = &Object> {
    caches.all(DEPLOYMENT).filter(|deployment| {
        name(deployment) == CONTROLLER && label(deployment, APP_LABEL) == Some(CONTROLLER)
    })
}

fn has_controller(caches: &Caches) -> bool {
    controllers(caches).any(|deployment| {
        number(deployment, "/status/readyReplicas").is_some_and(|ready| ready > 0)
    })
}

/// Image of launcher pods: from the virt-controller Deployment, if there is one.
pub(super) fn launcher_image(caches: &Caches) -> &str {
    controllers(caches)
        .find_map(|deployment| {
            let args = list(deployment, "/spec/template/spec/containers/0/args");
            let flag = args.iter().position(|arg| arg == "--launcher-image")?;
            args.get(flag + 1)?.as_str()
        })
        .unwrap_or(LAUNCHER_IMAGE)
}

fn has_handler(caches: &Caches, node: &str) -> bool {
    caches.on_node(POD, node).any(|pod| {
        label(pod, APP_LABEL) == Some(HANDLER) && is_true(pod, "Ready") && !is_deleted(pod)
    })
}

/// Labels that virt-handler sets on a node that can run guests.
pub(crate) fn node_labels() -> Map<String, Value> {
    [
        (SCHEDULABLE, "true"),
        ("cpu-model.node.kubevirt.io/Haswell", "true"),
        ("cpu-model.node.kubevirt.io/Skylake-Server", "true"),
        ("host-model-cpu.node.kubevirt.io/Skylake-Server", "true"),
        ("cpu-vendor.node.kubevirt.io/Intel", "true"),
    ]
    .into_iter()
    .map(|(key, value)| (key.to_owned(), value.into()))
    .collect()
}

/// virt-handler's node labels: set while it is ready, `schedulable` false once it is not. A node
/// whose labels someone removed is not changed.
#[derive(Clone, Copy, Debug)]
pub(super) struct NodeLabeller;

impl Actor for NodeLabeller {
    fn name(&self) -> &'static str {
        HANDLER
    }

    fn watches(&self) -> &[Kind] {
        &[NODE, POD]
    }

    fn keys(&self, kind: Kind, object: &Value, _: &Caches) -> Vec<Key> {
        match kind {
            NODE => vec![Key::cluster(name(object))],
            _ if label(object, APP_LABEL) == Some(HANDLER) => {
                vec![Key::cluster(text(object, "/spec/nodeName"))]
            }
            _ => Vec::new(),
        }
    }

    fn reconcile(&self, ctx: &mut Context<'_>) {
        let Some(node) = ctx.observed(NODE) else {
            return;
        };
        if !is_simulated(&node) || is_deleted(&node) {
            return;
        }
        let now = ctx.timestamp();
        let schedulable = label(&node, SCHEDULABLE);
        if has_handler(ctx.caches, name(&node)) {
            let mut labels = node_labels();
            for key in ["cpumanager", "kubevirt.io/cpumanager"] {
                labels.insert(key.to_owned(), "false".into());
            }
            let heartbeat = match annotation(&node, HEARTBEAT) {
                Some(heartbeat) if schedulable == Some("true") => heartbeat.to_owned(),
                _ => now,
            };
            ctx.patch(
                NODE,
                &node,
                json!({"metadata": {"labels": labels, "annotations": {HEARTBEAT: heartbeat}}}),
            );
        } else if schedulable == Some("true") {
            ctx.patch(
                NODE,
                &node,
                json!({"metadata": {
                    "labels": {SCHEDULABLE: "false"},
                    "annotations": {HEARTBEAT: now},
                }}),
            );
        }
    }
}
