//! Workloads: random actions of users, other controllers and intruders, and random faults.

mod installations;
mod machines;

use std::time::Duration;

use runtime::backoff::Random;
use serde_json::{Value, json};

use crate::decision::{
    Action, Decision, Effect, Fault, Propagation, QUIET_PERIOD, Script, Subject, Trigger,
};

/// Objects that exist before the operator starts.
pub fn seed_objects(subject: Subject) -> Vec<Action> {
    match subject {
        Subject::Machine => machines::seed_objects(),
        Subject::Kubevirt => installations::seed_objects(),
    }
}

/// The script of a seed.
pub fn script(subject: Subject, seed: u64) -> Script {
    let mut dice = Dice(Random::seeded(seed.wrapping_mul(2).wrapping_add(1)));
    let replicas = 1 + usize::from(dice.once_in(4));
    let mut decisions = match subject {
        Subject::Machine => machines::decisions(&mut dice),
        Subject::Kubevirt => installations::decisions(&mut dice),
    };
    let (horizon, requests) = match subject {
        Subject::Machine => (600, 80),
        Subject::Kubevirt => (600, 500),
    };
    for _ in 0..dice.below(6) {
        let effect = Effect::Fault(fault(&mut dice, subject));
        let trigger = dice.trigger(&effect, horizon, requests);
        decisions.push(Decision { trigger, effect });
    }
    Script {
        subject,
        seed,
        replicas,
        quiet: QUIET_PERIOD,
        decisions,
    }
}

fn fault(dice: &mut Dice, subject: Subject) -> Fault {
    let resources: &[&'static str] = match subject {
        Subject::Machine => &[
            "machines",
            "virtualmachines",
            "virtualmachineinstances",
            "persistentvolumeclaims",
            "datavolumes",
            "networkconfigurations",
            "machineclasses",
        ],
        Subject::Kubevirt => &["kubevirts", "deployments", "daemonsets", "secrets", "pods"],
    };
    let lasts = Duration::from_secs([5, 20, 60, 180, 300][dice.below(5)]);
    match dice.below(14) {
        0..=2 => Fault::Crash {
            down: Duration::from_secs([0, 1, 5, 30][dice.below(4)]),
        },
        3 => Fault::Down { down: lasts },
        4 => Fault::Lost,
        5 => Fault::Silence,
        6 => Fault::Status([409, 429, 500, 503, 504][dice.below(5)]),
        7 => Fault::Stale {
            resource: None,
            lasts,
        },
        8 => Fault::Stale {
            resource: Some(*dice.pick(resources)),
            lasts,
        },
        9 => Fault::NoBookmarks { lasts },
        10 => Fault::Cut,
        11 => Fault::Compact,
        12 => Fault::Outage {
            code: [0, 429, 500, 503, 504][dice.below(5)],
            lasts,
        },
        _ if dice.once_in(2) => Fault::Partition { lasts },
        _ => Fault::Clock {
            by: [-3600, -60, 60, 3600, 86400][dice.below(5)],
        },
    }
}

/// Random choices of a script.
pub struct Dice(Random);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.0.next() % end.max(1) as u64).unwrap_or_default()
    }

    fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }

    /// A value, or its removal.
    fn maybe(&mut self, value: Value) -> Value {
        if self.once_in(2) { Value::Null } else { value }
    }

    fn seconds(&mut self, end: usize) -> Trigger {
        Trigger::At(Duration::from_millis(self.below(end * 1000) as u64))
    }

    /// A time, or the worst case: right before or after a request.
    fn trigger(&mut self, effect: &Effect, horizon: usize, requests: usize) -> Trigger {
        let is_of_request = matches!(
            effect,
            Effect::Fault(Fault::Lost | Fault::Silence | Fault::Status(_) | Fault::Crash { .. })
        );
        if !is_of_request && self.once_in(2) {
            return self.seconds(horizon);
        }
        let index = u32::try_from(self.below(requests)).unwrap_or_default();
        if self.once_in(2) {
            Trigger::Before(index)
        } else {
            Trigger::After(index)
        }
    }
}

fn create(kind: &'static str, name: &str, spec: Value) -> Action {
    Action::Create {
        kind,
        object: json!({ "metadata": { "name": name }, "spec": spec }),
    }
}

fn patch(kind: &'static str, name: &str, patch: Value) -> Action {
    Action::Patch {
        kind,
        name: name.to_owned(),
        patch,
    }
}

fn delete(kind: &'static str, name: &str, propagation: Propagation) -> Action {
    Action::Delete {
        kind,
        name: name.to_owned(),
        propagation,
    }
}
