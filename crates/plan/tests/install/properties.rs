//! Properties of the planner from any state of the cluster.

use std::collections::BTreeMap;

use api::kubevirt::install;
use plan::{
    kubevirt::{Action, Id, Plan, observed::Memory},
    null,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::{
    behaviours::assert_deployed,
    release::{NAMESPACE, NEW, OBSOLETE, OLD},
    world::{Custom, World},
};

/// A change that someone else makes to the cluster.
#[derive(Clone, Copy, Debug)]
enum Change {
    /// Deletes one of its objects.
    Delete(usize),
    /// Edits one of its objects.
    Edit(usize),
    /// Removes labels and annotations of one of its objects.
    Strip(usize),
    /// Creates an object of their own.
    Make(usize),
    /// A node is removed or added.
    Node(usize),
    /// The operator restarts.
    Restart,
    /// Time passes.
    Wait(usize),
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        (0..64_usize).prop_map(Change::Delete),
        (0..64_usize).prop_map(Change::Edit),
        (0..64_usize).prop_map(Change::Strip),
        (0..4_usize).prop_map(Change::Make),
        (0..4_usize).prop_map(Change::Node),
        Just(Change::Restart),
        (1..40_usize).prop_map(Change::Wait),
    ]
}

/// Start state of a cluster, and the changes to it.
#[derive(Clone, Debug)]
struct State {
    nodes: usize,
    first: &'static str,
    /// Number of rounds of the first rollout.
    rounds: usize,
    changes: Vec<Change>,
    then: &'static str,
    has_objects: bool,
    may_prune: bool,
}

fn state() -> impl Strategy<Value = State> {
    let version = || prop_oneof![Just(OLD), Just(NEW)];
    (
        0..4_usize,
        version(),
        prop_oneof![0..30_usize, Just(80_usize)],
        prop::collection::vec(change(), 0..6),
        version(),
        any::<bool>(),
        prop::bool::weighted(0.2),
    )
        .prop_map(
            |(nodes, first, rounds, changes, then, has_objects, may_prune)| State {
                nodes,
                first,
                rounds,
                changes,
                then,
                has_objects,
                may_prune,
            },
        )
}

impl World {
    fn of(state: &State) -> Self {
        let mut world = Self::new(state.first, state.nodes);
        if state.has_objects {
            let custom = Custom {
                name: "default/precious".to_owned(),
                deleting: false,
                stuck: false,
            };
            world.customs.insert(OBSOLETE.to_owned(), vec![custom]);
        }
        if state.may_prune {
            world.annotate(install::PRUNE_DEFINITIONS, "true");
        }
        for _ in 0..state.rounds {
            if !world.round() {
                break;
            }
        }
        if state.then != state.first {
            world.request(state.then);
        }
        for change in &state.changes {
            world.make_change(*change);
        }
        world
    }

    fn pick(&self, number: usize) -> Option<Id> {
        let ids: Vec<&Id> = self.applied().collect();
        let at = number.checked_rem(ids.len())?;
        // Deleting a definition deletes its objects: that would not be the operator's fault.
        let id = ids[at];
        (&*id.name != OBSOLETE).then(|| id.clone())
    }

    fn make_change(&mut self, change: Change) {
        match change {
            Change::Delete(number) => {
                if let Some(id) = self.pick(number) {
                    self.remove(&id);
                }
            }
            Change::Edit(number) => {
                if let Some(id) = self.pick(number) {
                    self.change(&id, edit);
                }
            }
            Change::Strip(number) => {
                if let Some(id) = self.pick(number) {
                    self.change(&id, |value| {
                        let metadata = value["metadata"].as_object_mut().unwrap();
                        metadata.remove("labels");
                        metadata.remove("annotations");
                    });
                }
            }
            Change::Make(number) => {
                let name = format!("theirs-{number}");
                if self.live_object("Service", &name).is_none() {
                    self.store(json!({
                        "apiVersion": "v1", "kind": "Service",
                        "metadata": {"name": name, "namespace": NAMESPACE,
                            "labels": {"kubevirt.io": "virt-api"}},
                    }));
                }
            }
            Change::Node(number) => {
                if number % 2 == 0 {
                    self.nodes.pop();
                    let nodes: Vec<String> =
                        self.nodes.iter().map(|node| node.name.clone()).collect();
                    self.pods
                        .retain(|pod| pod.node.as_ref().is_none_or(|node| nodes.contains(node)));
                } else {
                    let mut node = World::new(NEW, 1).nodes.remove(0);
                    node.name = format!("late-{}", self.nodes.len());
                    self.nodes.push(node);
                }
            }
            Change::Restart => self.forget(),
            Change::Wait(rounds) => {
                for _ in 0..rounds {
                    self.round();
                }
            }
        }
    }

    /// The process ends and loses its memory.
    fn forget(&mut self) {
        self.memory = Memory::default();
        self.counts.clear();
    }

    /// Foreign objects.
    fn foreign(&self) -> BTreeMap<Id, Value> {
        let theirs = self
            .objects()
            .iter()
            .filter(|(id, _)| id.name.starts_with("theirs"));
        theirs
            .map(|(id, live)| (id.clone(), live.value()))
            .collect()
    }
}

/// Changes a field that objects of the kind have.
fn edit(value: &mut Value) {
    let places = [
        "/spec/replicas",
        "/spec/template/spec/containers/0/image",
        "/spec/ports/0/port",
        "/spec/minAvailable",
        "/rules",
        "/subjects",
        "/webhooks",
        "/spec/versions/0/served",
        "/data/ca-bundle",
        "/spec/group",
    ];
    for place in places {
        if let Some(field) = value.pointer_mut(place) {
            *field = match field {
                Value::Number(number) => json!(number.as_i64().unwrap_or_default() + 3),
                Value::Array(_) => json!([]),
                Value::Bool(is) => json!(!*is),
                _ => json!("something else"),
            };
            return;
        }
    }
}

/// No object that is created or applied contains null.
fn check_bodies(plan: &Plan) {
    for step in &plan.steps {
        if let Action::Create(object) | Action::Apply { object, .. } = &step.action {
            assert_eq!(null::find(&object.value()), None, "{}", object.id);
        }
    }
}

fn check_deletions(world: &World, plan: &Plan) {
    check_bodies(plan);
    for step in &plan.steps {
        let Action::Delete { id, .. } = &step.action else {
            continue;
        };
        let value = world.value(id);
        let label = &value["metadata"]["labels"][install::MANAGED_BY];
        let is_replaced = step.reason.contains("is immutable");
        assert!(
            *label == install::MANAGER || is_replaced,
            "{id} is foreign: {}",
            step.reason
        );
        let customs = world
            .customs
            .get(&*id.name)
            .is_some_and(|all| !all.is_empty());
        let may_prune = world.annotation(install::PRUNE_DEFINITIONS) == Some("true");
        let is_removed = world.kubevirt.metadata.deletion_timestamp.is_some();
        assert!(!customs || may_prune || is_removed, "{id} has objects");
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 24, failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn every_state_converges_to_the_desired_state(state in state()) {
        let mut world = World::of(&state);
        let foreign = world.foreign();
        let rounds = world.run_with(check_deletions);
        prop_assert!(rounds.is_some(), "{:#?}", world.plan());
        assert_deployed(&world, state.then);
        prop_assert_eq!(foreign, world.foreign());
        // A restarted operator sends no further writes.
        world.forget();
        let plan = world.plan();
        let writes = plan.steps.iter().filter(|step| !matches!(step.action, Action::Count { .. }));
        prop_assert_eq!(writes.count(), 0, "{:#?}", plan.steps);
    }

    #[test]
    fn a_crash_after_any_write_does_not_change_the_end_state(
        state in state(), crash in 0..60_usize, done in 0..6_usize,
    ) {
        let mut straight = World::of(&state);
        let mut crashed = straight.clone();
        straight.run();
        for _ in 0..crash {
            crashed.round();
        }
        // The operator crashes after some of the next steps.
        for step in crashed.plan().steps.iter().take(done) {
            crashed.execute(step);
        }
        crashed.forget();
        prop_assert!(crashed.run().is_some(), "{:#?}", crashed.plan());
        prop_assert_eq!(straight.end_state(), crashed.end_state());
    }

    #[test]
    fn a_removal_from_any_state_leaves_nothing_behind(state in state()) {
        let mut world = World::of(&state);
        let stripped = world.objects().values().filter(|live| {
            !live.labels.contains_key(install::MANAGED_BY)
        });
        let unmarked = stripped.count();
        world.delete_resource();
        let rounds = world.run_with(check_deletions);
        prop_assert!(rounds.is_some() && !world.exists, "{:#?}", world.plan());
        prop_assert_eq!(world.objects().len(), unmarked, "{:?}", world.objects().keys());
    }
}
