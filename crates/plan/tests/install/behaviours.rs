//! Helpers of the tests of single behaviours.

use api::kubevirt::install::InstallPhase;
use plan::kubevirt::Stage;

use crate::world::{Custom, World};

pub(crate) fn installed(version: &str, nodes: usize) -> World {
    let mut world = World::new(version, nodes);
    world.run().unwrap();
    assert_deployed(&world, version);
    world
}

pub(crate) fn assert_deployed(world: &World, version: &str) {
    let status = world.kubevirt.status.clone().unwrap_or_default();
    let plan = world.plan();
    assert_eq!(status.phase, Some(InstallPhase::Deployed), "{plan:#?}");
    assert_eq!(
        status.observed_kube_virt_version.as_deref(),
        Some(version),
        "{plan:#?}"
    );
    assert_eq!(plan.stage, Stage::Deployed, "{plan:#?}");
    assert_eq!(
        (plan.steps, plan.status, plan.events),
        (vec![], None, vec![])
    );
}

pub(crate) fn status_of(world: &World, type_: &str) -> (String, String) {
    let (status, reason, _) = world.condition(type_);
    (status, reason)
}

pub(crate) fn is(status: &str, reason: &str) -> (String, String) {
    (status.to_owned(), reason.to_owned())
}

pub(crate) fn vm(name: &str, stuck: bool) -> Custom {
    Custom {
        name: name.to_owned(),
        deleting: false,
        stuck,
    }
}
