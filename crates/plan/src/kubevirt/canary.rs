//! Rollout of a DaemonSet: one canary node first, then a tenth of the nodes at a time.
//!
//! Its progress is read from the pods, so a restarted operator continues where the last one stopped.
//! Nodes that are down count against maxUnavailable, so it is raised by their number; otherwise no pod
//! would be replaced.

use serde_json::{Value, json};

use super::{
    compare::{self, ComparisonCache},
    desired::with_max_unavailable,
    object::{Live, Object},
    ready::{self, DaemonSetRollout, Readiness},
    stages::{StageContext, StageOutcome},
};

pub(super) fn evaluate(
    context: &StageContext<'_>,
    wanted: &Object,
    comparisons: &mut ComparisonCache,
    outcome: &mut StageOutcome,
) {
    let Some(live) = context.live(&wanted.id) else {
        context.ensure(wanted, comparisons, outcome);
        return;
    };
    let value = live.value();
    let rollout = DaemonSetRollout::of(context.observed, context.target, live, &value);
    let begins = changes_pods(&value, &wanted.value());
    let batch = if begins || (!rollout.outdated.is_empty() && rollout.ready.is_empty()) {
        Batch::Canary
    } else if rollout.outdated.is_empty() {
        Batch::None
    } else {
        Batch::Tenth
    };
    let limited = match with_max_unavailable(wanted, &batch.max_unavailable(&rollout)) {
        Ok(limited) => limited,
        Err(error) => {
            outcome.refusals.push(error.to_string());
            return;
        }
    };
    let before = outcome.steps.len();
    context.ensure(&limited, comparisons, outcome);
    if let Some(step) = outcome.steps.get_mut(before) {
        step.reason = format!("{}: {}", batch.reason(), step.reason);
    }
    if outcome.is_under_way() {
        return;
    }
    if batch == Batch::Canary {
        fail_if_crashed(context, live, &rollout, outcome);
    }
    if let Readiness::NotReady(cause) = ready::component(context, &wanted.id) {
        cause.add_to(&wanted.id, Some(batch.reason()), outcome);
        // Each node that becomes ready extends the deadline.
        let ready = rollout.ready.iter().filter_map(|pod| pod.created.clone());
        outcome.progressed(ready.max_by_key(|at| at.0));
    }
}

/// How many pods are replaced at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Batch {
    Canary,
    /// A tenth of the nodes.
    Tenth,
    /// No pod needs to be replaced.
    None,
}

impl Batch {
    fn max_unavailable(self, rollout: &DaemonSetRollout<'_>) -> Value {
        match (self, rollout.down.len()) {
            (Self::None, _) | (Self::Canary, 0) => json!(1),
            (Self::Canary, down) => json!(down + 1),
            (Self::Tenth, 0) => json!("10%"),
            (Self::Tenth, down) => json!(rollout.eligible.div_ceil(10).max(1) + down),
        }
    }

    fn reason(self) -> &'static str {
        match self {
            Self::Canary => "one node tries the new version",
            Self::Tenth => "a tenth of the nodes gets the new version at a time",
            Self::None => "all nodes have the new version",
        }
    }
}

/// Whether applying the wanted object replaces pods.
fn changes_pods(live: &Value, wanted: &Value) -> bool {
    let of = |value: &Value| json!({"spec": {"template": value.pointer("/spec/template")}});
    !compare::differences_of("DaemonSet", &of(live), &of(wanted)).is_empty()
}

/// A crash-looping canary stops the rollout. It stays failed until its pod is replaced or ready, even
/// while the pod runs between two crashes.
fn fail_if_crashed(
    context: &StageContext<'_>,
    live: &Live,
    rollout: &DaemonSetRollout<'_>,
    outcome: &mut StageOutcome,
) {
    let was_failed = super::status::has_failed(context.observed.kubevirt);
    let has_crashed = |pod: &super::observed::Pod| {
        ready::is_crash_looping(pod) || (was_failed && !pod.ready && pod.restarts > 0)
    };
    let crashed = rollout.updated.iter().find(|pod| has_crashed(pod));
    if let Some(pod) = crashed {
        let problem = ready::describe_problem(pod);
        outcome.failure = Some(format!(
            "{} rollout failed, no further node gets it: {problem}",
            live.id
        ));
    }
}
