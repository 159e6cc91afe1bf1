//! Properties of the Machine planner, from any state of the cluster.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod state;
mod world;

use plan::{
    machine::{Action, Kind, Plan},
    null,
};
use proptest::prelude::*;

use state::{MACHINE_UID, State, state};
use world::World;

/// More rounds than any state needs to converge.
const ROUNDS: usize = 24;

/// Plans, executes the plan, and lets KubeVirt and the storage act, until nothing is left to do. `before`
/// gets each plan and the world it was computed for.
fn live(world: &mut World, mut before: impl FnMut(&World, &Plan)) -> Option<usize> {
    for round in 0..ROUNDS {
        let Some(plan) = world.plan() else {
            while world.go_on() {}
            return Some(round);
        };
        before(world, &plan);
        let settled =
            plan.steps.is_empty() && Some(&plan.status) == world.machine().status.as_ref();
        for step in &plan.steps {
            world.carry_out(&step.action);
        }
        if world.is_there() {
            world.set_status(&plan.status);
        }
        if !world.go_on() && settled {
            return Some(round);
        }
    }
    None
}

/// Whether a disk may be deleted now.
fn may_delete_disks(world: &World) -> bool {
    let policy = world.machine().spec.deletion_policy;
    let is_deleted = world.machine().metadata.deletion_timestamp.is_some();
    match policy {
        Some(api::DeletionPolicy::Retain) => false,
        Some(api::DeletionPolicy::Delete) => true,
        None => is_deleted,
    }
}

fn check_deletions(world: &World, plan: &Plan) {
    for step in &plan.steps {
        let Action::Delete {
            kind, name, uid, ..
        } = &step.action
        else {
            continue;
        };
        if matches!(kind, Kind::PersistentVolumeClaim | Kind::DataVolume) {
            assert!(
                may_delete_disks(world),
                "{name} is deleted: {}",
                step.reason
            );
            assert!(!world.uses(name), "{name} is in use");
        }
        assert!(
            !world.is_foreign(uid),
            "{name} is foreign and must not be deleted"
        );
    }
}

fn check_changes(world: &World, plan: &Plan) {
    for step in &plan.steps {
        let (name, uid) = match &step.action {
            Action::Apply { object, uid, .. } | Action::RestoreOwner { object, uid, .. } => {
                (object.name(), uid)
            }
            Action::ChangeMetadata { name, uid, .. } => (name.as_str(), uid),
            _ => continue,
        };
        assert!(!world.is_foreign(uid), "{name} is foreign");
    }
}

/// No body of a plan contains null: objects, the Secret, the status.
fn check_bodies(plan: &Plan) {
    for step in &plan.steps {
        let body = match &step.action {
            Action::Create(object)
            | Action::Recreate(object)
            | Action::Apply { object, .. }
            | Action::RestoreOwner { object, .. } => serde_json::to_value(object),
            Action::WriteSecret(secret) => serde_json::to_value(secret),
            _ => continue,
        };
        assert_eq!(null::find(&body.unwrap()), None, "{}", step.reason);
    }
    let status = serde_json::to_value(&plan.status).unwrap();
    assert_eq!(null::find(&status), None, "the status");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_state_comes_to_rest(state in state()) {
        let mut world = World::of(&state);
        let rounds = live(&mut world, |_, _| {});
        prop_assert!(rounds.is_some(), "{:#?}", world.plan());
        if let Some(plan) = world.plan() {
            prop_assert_eq!(&plan.steps, &[]);
            prop_assert_eq!(Some(&plan.status), world.machine().status.as_ref());
            prop_assert_eq!(&plan.events, &[]);
        }
    }

    #[test]
    fn no_body_contains_null(state in state()) {
        live(&mut World::of(&state), |_, plan| check_bodies(plan));
    }

    #[test]
    fn foreign_objects_are_not_changed(state in state()) {
        let mut world = World::of(&state);
        let foreign = world.foreign();
        live(&mut world, |world, plan| {
            check_deletions(world, plan);
            check_changes(world, plan);
        });
        prop_assert_eq!(foreign, world.foreign());
    }

    #[test]
    fn a_deleted_machine_takes_its_disks_unless_retained_or_in_use(
        state in state()
    ) {
        let mut world = World::of(&State { is_deleted: true, has_finalizer: true, ..state });
        let before = world.own_disks();
        let is_orphaned = world.has_stripped_vm();
        let vm = world.vm();
        let vm_is_going = vm.is_some_and(|vm| vm.metadata.deletion_timestamp.is_some());
        let rounds = live(&mut world, check_deletions);
        prop_assert!(rounds.is_some(), "it does not come to rest");
        let retained = world.machine().spec.deletion_policy == Some(api::DeletionPolicy::Retain);
        let left = world.own_disks();
        if !retained && !is_orphaned && before.iter().any(|claim| world.uses(claim)) {
            prop_assert!(world.is_there());
            let in_use = |claim: &&String| world.uses(claim);
            prop_assert_eq!(before.iter().filter(in_use).count(), left.len());
            return Ok(());
        }
        prop_assert!(!world.is_there());
        // A terminating VirtualMachine without its owner reference may be gone before the plan observes
        // it: then the deletion is an ordinary one.
        let may_be_gone = is_orphaned && vm_is_going && !retained;
        if may_be_gone {
            prop_assert!(left.is_empty() || left == before);
        } else if retained || is_orphaned {
            prop_assert_eq!(before, left);
            for claim in world.claims() {
                let owners = claim.metadata.owner_references.iter().flatten();
                let mut uids = owners.map(|owner| owner.uid.as_str());
                prop_assert!(uids.all(|uid| uid != MACHINE_UID));
            }
        } else {
            prop_assert_eq!(left, Vec::<String>::new());
        }
    }

    #[test]
    fn a_crash_after_any_write_changes_nothing(state in state(), crash in 0_usize..8) {
        let mut straight = World::of(&state);
        // Whether the plan observes a terminating VirtualMachine without its owner reference before it is
        // gone decides whether the deletion is an orphaning one.
        let vm = straight.vm();
        let vm_is_going = vm.is_some_and(|vm| vm.metadata.deletion_timestamp.is_some());
        prop_assume!(!(state.is_deleted && vm_is_going && straight.has_stripped_vm()));
        live(&mut straight, |_, _| {});
        let mut crashed = World::of(&state);
        // Some of the first steps are executed, and everything else is forgotten.
        if let Some(plan) = crashed.plan() {
            for step in plan.steps.iter().take(crash) {
                crashed.carry_out(&step.action);
            }
        }
        let rounds = live(&mut crashed, |_, _| {});
        prop_assert!(rounds.is_some(), "it does not come to rest");
        prop_assert_eq!(straight.final_state(), crashed.final_state());
    }
}
