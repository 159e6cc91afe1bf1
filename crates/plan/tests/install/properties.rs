//! What holds from any state that a cluster may be in.

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

/// What somebody does to an installation.
#[derive(Clone, Copy, Debug)]
enum Deed {
    /// Deletes one of its objects.
    Delete(usize),
    /// Edits one of its objects.
    Edit(usize),
    /// Takes labels and annotations off one of its objects.
    Strip(usize),
    /// Makes something of their own.
    Make(usize),
    /// A node goes, or comes.
    Node(usize),
    /// The operator starts again.
    Restart,
    /// Some time passes.
    Wait(usize),
}

fn deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        (0..64_usize).prop_map(Deed::Delete),
        (0..64_usize).prop_map(Deed::Edit),
        (0..64_usize).prop_map(Deed::Strip),
        (0..4_usize).prop_map(Deed::Make),
        (0..4_usize).prop_map(Deed::Node),
        Just(Deed::Restart),
        (1..40_usize).prop_map(Deed::Wait),
    ]
}

/// A cluster and what becomes of it.
#[derive(Clone, Debug)]
struct State {
    nodes: usize,
    first: &'static str,
    /// How far the first version has come.
    rounds: usize,
    deeds: Vec<Deed>,
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
        prop::collection::vec(deed(), 0..6),
        version(),
        any::<bool>(),
        prop::bool::weighted(0.2),
    )
        .prop_map(
            |(nodes, first, rounds, deeds, then, has_objects, may_prune)| State {
                nodes,
                first,
                rounds,
                deeds,
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
            world.ask_for(state.then);
        }
        for deed in &state.deeds {
            world.suffer(*deed);
        }
        world
    }

    fn pick(&self, number: usize) -> Option<Id> {
        let ids: Vec<&Id> = self.applied.keys().collect();
        let at = number.checked_rem(ids.len())?;
        // Deleting a definition that has objects deletes them: that is not the operator's doing.
        let id = ids[at];
        (&*id.name != OBSOLETE).then(|| id.clone())
    }

    fn suffer(&mut self, deed: Deed) {
        match deed {
            Deed::Delete(number) => {
                if let Some(id) = self.pick(number) {
                    self.remove(&id);
                }
            }
            Deed::Edit(number) => {
                if let Some(id) = self.pick(number) {
                    self.change(&id, edit);
                }
            }
            Deed::Strip(number) => {
                if let Some(id) = self.pick(number) {
                    self.change(&id, |value| {
                        let metadata = value["metadata"].as_object_mut().unwrap();
                        metadata.remove("labels");
                        metadata.remove("annotations");
                    });
                }
            }
            Deed::Make(number) => {
                self.store(json!({
                    "apiVersion": "v1", "kind": "Service",
                    "metadata": {"name": format!("theirs-{number}"), "namespace": NAMESPACE,
                        "labels": {"kubevirt.io": "virt-api"}},
                }));
            }
            Deed::Node(number) => {
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
            Deed::Restart => self.forget(),
            Deed::Wait(rounds) => {
                for _ in 0..rounds {
                    self.round();
                }
            }
        }
    }

    /// The process ends, and with it everything that it remembered.
    fn forget(&mut self) {
        self.memory = Memory::default();
        self.counts.clear();
    }

    /// What is not ours, as it is.
    fn foreign(&self) -> BTreeMap<Id, Value> {
        let theirs = self
            .objects
            .iter()
            .filter(|(id, _)| id.name.starts_with("theirs"));
        theirs
            .map(|(id, value)| (id.clone(), value.clone()))
            .collect()
    }
}

/// Changes something that an object of that kind has.
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
        let value = &world.objects[id];
        let label = &value["metadata"]["labels"][install::MANAGED_BY];
        let is_replaced = step.reason.contains("made anew");
        assert!(
            *label == install::MANAGER || is_replaced,
            "{id} is not ours: {}",
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
    fn every_state_comes_to_rest_as_wanted(state in state()) {
        let mut world = World::of(&state);
        let foreign = world.foreign();
        let rounds = world.live_with(check_deletions);
        prop_assert!(rounds.is_some(), "{:#?}", world.plan());
        assert_deployed(&world, state.then);
        prop_assert_eq!(foreign, world.foreign());
        // Nobody is asked again by an operator that has just started.
        world.forget();
        let plan = world.plan();
        let writes = plan.steps.iter().filter(|step| !matches!(step.action, Action::Count { .. }));
        prop_assert_eq!(writes.count(), 0, "{:#?}", plan.steps);
    }

    #[test]
    fn a_crash_after_any_write_changes_nothing_in_the_end(
        state in state(), crash in 0..60_usize, done in 0..6_usize,
    ) {
        let mut straight = World::of(&state);
        let mut crashed = straight.clone();
        straight.live();
        for _ in 0..crash {
            crashed.round();
        }
        // Some of the next steps are carried out, and everything else is forgotten.
        for step in crashed.plan().steps.iter().take(done) {
            crashed.carry_out(step);
        }
        crashed.forget();
        prop_assert!(crashed.live().is_some(), "{:#?}", crashed.plan());
        prop_assert_eq!(straight.told(), crashed.told());
    }

    #[test]
    fn whatever_the_state_a_removal_leaves_nothing_behind(state in state()) {
        let mut world = World::of(&state);
        let stripped = world.objects.values().filter(|value| {
            value["metadata"]["labels"][install::MANAGED_BY].is_null()
        });
        let unmarked = stripped.count();
        world.delete_resource();
        let rounds = world.live_with(check_deletions);
        prop_assert!(rounds.is_some() && !world.exists, "{:#?}", world.plan());
        prop_assert_eq!(world.objects.len(), unmarked, "{:?}", world.objects.keys());
    }
}
