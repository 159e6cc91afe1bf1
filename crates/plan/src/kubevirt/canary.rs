//! How a DaemonSet goes from one version to the next: one node first, then a tenth of them at a
//! time.
//!
//! How far it has come is read from its pods, so that an operator that starts again goes on where
//! the last one stopped. Nodes that are down count against what may be unavailable: room is made for
//! them, or nothing would ever be replaced.

use serde_json::{Value, json};

use super::{
    compare,
    desired::paced,
    object::{Live, Object},
    ready::{self, Readiness, Roll},
    stages::{Outcome, Scene},
};

/// Brings a DaemonSet to what is wanted.
pub(super) fn look(scene: &Scene<'_>, wanted: &Object, outcome: &mut Outcome) {
    let Some(live) = scene.live(&wanted.id) else {
        scene.put(wanted, outcome);
        return;
    };
    let value = live.value();
    let roll = Roll::of(scene.observed, scene.aim, live, &value);
    let begins = changes_pods(&value, &wanted.value());
    let speed = if begins || (!roll.outdated.is_empty() && roll.ready.is_empty()) {
        Speed::Canary
    } else if roll.outdated.is_empty() {
        Speed::Rest
    } else {
        Speed::Fast
    };
    let at_speed = match paced(wanted, &speed.max_unavailable(&roll)) {
        Ok(at_speed) => at_speed,
        Err(error) => {
            outcome.refusals.push(error.to_string());
            return;
        }
    };
    let before = outcome.steps.len();
    scene.put(&at_speed, outcome);
    if let Some(step) = outcome.steps.get_mut(before) {
        step.reason = format!("{}: {}", speed.reason(), step.reason);
    }
    if outcome.is_under_way() {
        return;
    }
    if speed == Speed::Canary {
        fail_if_crashed(scene, live, &roll, outcome);
    }
    if let Readiness::NotReady(message) = ready::component(scene, &wanted.id) {
        outcome.wait(&wanted.id, format!("{}: {message}", speed.reason()));
        // However many nodes there are, each of them has its time.
        let ready = roll.ready.iter().filter_map(|pod| pod.created.clone());
        outcome.progressed(ready.max_by_key(|at| at.0));
    }
}

/// How many pods are replaced at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Speed {
    /// One node tries it.
    Canary,
    /// A tenth of the nodes at a time.
    Fast,
    /// Nothing is to be replaced.
    Rest,
}

impl Speed {
    fn max_unavailable(self, roll: &Roll<'_>) -> Value {
        match (self, roll.down.len()) {
            (Self::Rest, _) | (Self::Canary, 0) => json!(1),
            (Self::Canary, down) => json!(down + 1),
            (Self::Fast, 0) => json!("10%"),
            (Self::Fast, down) => json!(roll.eligible.div_ceil(10).max(1) + down),
        }
    }

    fn reason(self) -> &'static str {
        match self {
            Self::Canary => "one node tries the new version",
            Self::Fast => "the new version goes to a tenth of the nodes at a time",
            Self::Rest => "every node has the new version",
        }
    }
}

/// Whether applying what is wanted replaces pods.
fn changes_pods(live: &Value, wanted: &Value) -> bool {
    let of = |value: &Value| json!({"spec": {"template": value.pointer("/spec/template")}});
    !compare::differences_of("DaemonSet", &of(live), &of(wanted)).is_empty()
}

/// A canary that ends again and again is not given to other nodes. It is told as failed until its
/// pod is replaced or ready, though between two attempts it looks as if it ran.
fn fail_if_crashed(scene: &Scene<'_>, live: &Live, roll: &Roll<'_>, outcome: &mut Outcome) {
    let was_failed = super::status::has_failed(scene.observed.kubevirt);
    let has_crashed = |pod: &super::observed::Pod| {
        ready::is_crash_looping(pod) || (was_failed && !pod.ready && pod.restarts > 0)
    };
    let crashed = roll.updated.iter().find(|pod| has_crashed(pod));
    if let Some(pod) = crashed {
        let problem = ready::describe_problem(pod);
        outcome.failure = Some(format!(
            "{} rollout failed, no further node gets it: {problem}",
            live.id
        ));
    }
}
