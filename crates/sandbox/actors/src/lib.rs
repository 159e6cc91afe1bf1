//! Actors: controllers that behave like nodes, storage, CDI and KubeVirt.
//!
//! They use an ordinary `kube::Client`, of the sandbox's in-memory API server or of a kube-apiserver
//! that has no such controllers.
//!
//! Each [`Actor`] is a pure function from observed state to writes. One control loop owns all state,
//! sleeps on tokio's clock only, and derives all randomness from the seed of the [`World`], so a run
//! on a paused clock can be repeated exactly. Garbage collection by owner references and the deletion
//! of namespaces are left to the API server.

mod actor;
pub mod aggregation;
mod caches;
pub mod cdi;
mod clock;
mod component;
mod control_loop;
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
mod speed;
pub mod storage;
#[cfg(test)]
mod testing;
mod watch;
pub mod workloads;
mod world;
mod write;

use tokio_util::sync::CancellationToken;

pub use self::{
    actor::{Actor, Context, ReconcileResult, Waits, Write, reference},
    caches::Caches,
    clock::Clock,
    component::Component,
    control_loop::run_with,
    install::Install,
    kind::Kind,
    object::{Key, Object},
    speed::{Speed, Step, UnknownSpeed},
    world::World,
};

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
