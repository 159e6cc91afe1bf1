//! What the operator does, behaviour by behaviour.

use api::kubevirt::install::{self, InstallPhase};
use plan::kubevirt::Stage;

use crate::{
    release::{ADDED, NEW, OBSOLETE, OLD, REGISTRY},
    world::World,
};

fn installed(version: &str, nodes: usize) -> World {
    let mut world = World::new(version, nodes);
    world.live().unwrap();
    let status = world.kubevirt.status.clone().unwrap_or_default();
    assert_eq!(
        status.phase,
        Some(InstallPhase::Deployed),
        "{:#?}",
        world.plan()
    );
    world
}

#[test]
fn everything_is_made_and_then_nothing_is_done() {
    let world = installed(NEW, 3);
    let plan = world.plan();
    assert_eq!(plan.stage, Stage::Deployed);
    assert_eq!(
        (plan.steps, plan.status, plan.events),
        (vec![], None, vec![])
    );
    let status = world.kubevirt.status.as_ref().unwrap();
    assert_eq!(status.observed_kube_virt_version.as_deref(), Some(NEW));
    assert_eq!(
        status.observed_kube_virt_registry.as_deref(),
        Some(REGISTRY)
    );
    assert_eq!(status.observed_deployment_id, status.target_deployment_id);
    assert_eq!(status.observed_generation, Some(1));
    assert_eq!(status.default_architecture.as_deref(), Some("amd64"));
    assert_eq!(status.operator_version.as_deref(), Some("1.0.0"));
    println!("{:#?} {}", world.journal, world.status_writes);
}
