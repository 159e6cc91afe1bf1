//! Checks of the order in which components change.

use api::kubevirt::install;
use plan::kubevirt::{Action, Plan};

use crate::world::World;

/// The version in which a plan applies a component, if it does.
fn applied(plan: &Plan, kind: &str, name: &str) -> Option<String> {
    plan.steps.iter().find_map(|step| match &step.action {
        Action::Apply { object, .. } if &*object.id.kind == kind && &*object.id.name == name => {
            let value = object.value();
            let version = &value["metadata"]["annotations"][install::STRATEGY_VERSION];
            Some(version.as_str().unwrap().to_owned())
        }
        _ => None,
    })
}

/// Whether all pods of a component are ready and of a version.
fn runs(world: &World, name: &str, version: &str) -> bool {
    let prefix = format!("{name}-");
    let mut pods = world.pods.iter().filter(|pod| {
        let (_, owner) = pod.owner.as_ref().unwrap();
        owner == name || owner.starts_with(&prefix)
    });
    pods.all(|pod| {
        pod.ready
            && pod
                .annotations
                .get(install::STRATEGY_VERSION)
                .is_some_and(|is| is == version)
    })
}

/// In an update: handlers, then the controller, then the API.
pub(crate) fn check_from_nodes_to_api(world: &World, plan: &Plan) {
    if let Some(version) = applied(plan, "Deployment", "virt-controller") {
        assert!(runs(world, "virt-handler", &version), "handlers come first");
    }
    if let Some(version) = applied(plan, "Deployment", "virt-api") {
        assert!(runs(world, "virt-handler", &version), "handlers come first");
        assert!(
            runs(world, "virt-controller", &version),
            "the controller comes first"
        );
    }
}

/// In any other rollout: the API, then the controller, then handlers.
pub(crate) fn check_from_api_to_nodes(world: &World, plan: &Plan) {
    let is_there = |name: &str| world.live_object("Deployment", name).is_some();
    for (kind, name) in [
        ("Deployment", "virt-controller"),
        ("DaemonSet", "virt-handler"),
    ] {
        if let Some(version) = applied(plan, kind, name) {
            assert!(
                is_there("virt-api") && runs(world, "virt-api", &version),
                "the API is first"
            );
        }
    }
    if applied(plan, "DaemonSet", "virt-handler").is_some() {
        assert!(
            is_there("virt-controller"),
            "the controller comes before handlers"
        );
    }
}
