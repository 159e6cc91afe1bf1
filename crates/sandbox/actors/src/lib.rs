//! Controllers that behave as nodes, storage and KubeVirt do.
//!
//! They speak to an API server through an ordinary `kube::Client`: the sandbox's own one, in
//! memory, or a real kube-apiserver that has no such controllers.
//!
//! Each is an [`Actor`]: a pure function from what is observed to what is to be written. The loop
//! that feeds them holds all state, sleeps on tokio's clock only, and takes all randomness from the
//! [`World`]'s seed; so a run on a paused clock can be repeated exactly. Garbage collection by owner
//! references and the end of namespaces are the API server's own business here.

pub mod aggregation;
mod caches;
pub mod cdi;
mod clock;
mod component;
mod events;
pub mod faults;
mod install;
pub mod kind;
pub mod kubevirt;
pub mod networks;
pub mod nodes;
pub mod object;
pub mod pods;
mod queue;
mod run;
mod speed;
pub mod storage;
#[cfg(test)]
mod testing;
mod turn;
mod watch;
pub mod workloads;
mod world;
mod write;

use tokio_util::sync::CancellationToken;

pub use self::{
    caches::Caches,
    clock::Clock,
    component::Component,
    install::Install,
    kind::Kind,
    object::{Key, Object},
    run::run_with,
    speed::{Speed, Step, UnknownSpeed},
    turn::{Actor, Outcome, Turn, Waits, Write, reference},
    world::World,
};

/// All actors of a cluster.
pub fn all(world: &World) -> Vec<Box<dyn Actor>> {
    let mut actors: Vec<Box<dyn Actor>> = vec![
        Box::new(Install::new(world.definitions())),
        Box::new(nodes::Nodes {
            count: world.nodes,
            kubevirt: world.kubevirt,
        }),
        Box::new(nodes::NodeLifecycle),
        Box::new(pods::Scheduler),
        Box::new(pods::Kubelet {
            strategies: world.strategies.clone(),
        }),
        Box::new(pods::TaintEviction),
        Box::new(pods::PodGarbageCollector),
        Box::new(workloads::Namespaces {
            ca: world.ca.clone(),
        }),
        Box::new(workloads::Deployments),
        Box::new(workloads::ReplicaSets),
        Box::new(workloads::DaemonSets),
        Box::new(workloads::StatefulSets),
        Box::new(workloads::Jobs),
        Box::new(workloads::DisruptionBudgets),
        Box::new(storage::Claims),
        Box::new(storage::Volumes),
        Box::new(cdi::DataVolumes),
    ];
    if world.aggregates && world.kubevirt == kubevirt::Mode::Managed {
        actors.push(Box::new(aggregation::ApiServices));
    }
    actors.extend(kubevirt::actors(world.kubevirt));
    actors
}

/// Runs all actors until the token is cancelled.
pub async fn run(world: World, token: CancellationToken) {
    let actors = all(&world);
    run_with(world, actors, token).await;
}
