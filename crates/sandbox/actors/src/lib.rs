//! Controllers that behave as nodes, storage and KubeVirt do.
//!
//! They speak to an API server through an ordinary `kube::Client`: the sandbox's own one, in
//! memory, or a real kube-apiserver that has no such controllers.
//!
//! Each is an [`Actor`]: a pure function from what is observed to what is to be written. The loop
//! that feeds them holds all state, sleeps on tokio's clock only, and takes all randomness from the
//! [`World`]'s seed; so a run on a paused clock can be repeated exactly. Garbage collection by owner
//! references and the end of namespaces are the API server's own business here.

mod caches;
mod clock;
mod events;
pub mod faults;
pub mod kind;
pub mod object;
mod queue;
mod run;
mod speed;
#[cfg(test)]
mod testing;
mod turn;
mod watch;
mod world;
mod write;

use tokio_util::sync::CancellationToken;

pub use self::{
    caches::Caches,
    clock::Clock,
    kind::Kind,
    object::{Key, Object},
    run::run_with,
    speed::{Speed, Step, UnknownSpeed},
    turn::{Actor, Outcome, Turn, Waits, Write, reference},
    world::World,
};

/// All actors of a cluster.
pub fn all(_world: &World) -> Vec<Box<dyn Actor>> {
    Vec::new()
}

/// Runs all actors until the token is cancelled.
pub async fn run(world: World, token: CancellationToken) {
    let actors = all(&world);
    run_with(world, actors, token).await;
}
