//! Workloads: what users ask for, and what hostile neighbours do.

mod installations;
mod machines;

use std::time::Duration;

use runtime::backoff::Random;
use serde_json::{Value, json};

use crate::decision::{Action, Decision, Fault, Propagation, QUIET, Script, Subject, What, When};

/// What is in the cluster before the operator is.
pub fn furnishings(subject: Subject) -> Vec<Action> {
    match subject {
        Subject::Machine => machines::furnishings(),
        Subject::Kubevirt => installations::furnishings(),
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
        let what = What::Fault(fault(&mut dice, subject));
        let when = dice.when(&what, horizon, requests);
        decisions.push(Decision { when, what });
    }
    Script {
        subject,
        seed,
        replicas,
        quiet: QUIET,
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

/// Everything random of a script.
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

    fn seconds(&mut self, end: usize) -> When {
        When::At(Duration::from_millis(self.below(end * 1000) as u64))
    }

    /// A moment for something: some time, or the worst of all, beside a request.
    fn when(&mut self, what: &What, horizon: usize, requests: usize) -> When {
        let is_of_request = matches!(
            what,
            What::Fault(Fault::Lost | Fault::Silence | Fault::Status(_) | Fault::Crash { .. })
        );
        if !is_of_request && self.once_in(2) {
            return self.seconds(horizon);
        }
        let index = u32::try_from(self.below(requests)).unwrap_or_default();
        if self.once_in(2) {
            When::Before(index)
        } else {
            When::After(index)
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
