//! Model checker of the Machine planner: explores every interleaving of the operator, the garbage collector,
//! KubeVirt, the storage and users who may do anything to any object.
//!
//! A breadth-first search instead of the stateright crate: states are numbers of interned objects, and plans
//! are memoized by them, so the real `plan` runs a few thousand times for a million states; the shortest
//! counterexample comes first, and lists one action a line. The properties are of two kinds that need no temporal
//! logic: invariants of a move, and "a fair continuation ends well".
//!
//! `MODEL_ACTS` and `MODEL_STATES` explore further than the tests do, and `MODEL_COUNTEREXAMPLES` also fails with the
//! counterexamples of promises that are known to be broken; see docs/reliability.md.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test fails by panicking, and reports what it explored"
)]
#![allow(
    clippy::disallowed_methods,
    reason = "how far to explore is a setting of the search, not an input of plan"
)]
#![allow(
    clippy::disallowed_types,
    reason = "the order of a memo is never read, and a search reads it at every transition"
)]

mod environment;
mod model;
mod objects;
mod operator;
mod promises;
mod search;
mod server;
mod state;
mod steps;
mod users;

use std::collections::BTreeMap;

use model::Config;
use objects::Policy;
use promises::Promise;
use search::explore;

fn number(name: &str, default: usize) -> usize {
    let given = std::env::var(name).ok();
    given
        .and_then(|given| given.parse().ok())
        .unwrap_or(default)
}

/// Promises that the operator does not keep yet. A broken promise that is not in this list fails.
const KNOWN: &[Promise] = &[];

/// Explores, prints figures, and fails with the counterexamples of the broken promises.
fn check(name: &str, configs: impl IntoIterator<Item = Config>) {
    let mut broken = BTreeMap::new();
    for mut config in configs {
        let acts = number("MODEL_ACTS", usize::from(config.acts));
        config.acts = u8::try_from(acts).unwrap();
        let began = std::time::Instant::now();
        let found = explore(config, number("MODEL_STATES", 30_000));
        eprintln!(
            "{name}, {config:?}: {} states, {} transitions, {} objects, {} plans, {} in {:.1?}",
            found.states,
            found.transitions,
            found.objects,
            found.plans,
            if found.is_complete {
                "complete"
            } else {
                "stopped at the bound"
            },
            began.elapsed(),
        );
        broken.extend(found.counterexamples);
    }
    if std::env::var_os("MODEL_COUNTEREXAMPLES").is_none() {
        broken.retain(|(promise, _), _| !KNOWN.contains(promise));
    }
    let counterexamples: Vec<_> = broken.values().map(String::as_str).collect();
    assert!(
        counterexamples.is_empty(),
        "\n{}",
        counterexamples.join("\n")
    );
}

const ONE: Config = Config {
    machines: 1,
    disks: 1,
    has_source: false,
    policy: Policy::Unset,
    from_running: false,
    acts: 1,
};

#[test]
fn one_machine_from_its_first_moment() {
    let configs = Policy::ALL.into_iter().flat_map(|policy| {
        [1, 2].map(|disks| Config {
            disks,
            policy,
            ..ONE
        })
    });
    check("from the start", configs);
}

#[test]
fn one_machine_that_runs() {
    let configs = Policy::ALL.into_iter().map(|policy| Config {
        policy,
        from_running: true,
        acts: 2,
        ..ONE
    });
    check("running", configs);
}

#[test]
fn one_machine_with_two_disks_that_runs() {
    let configs = Policy::ALL.into_iter().map(|policy| Config {
        policy,
        disks: 2,
        from_running: true,
        acts: 2,
        ..ONE
    });
    check("running", configs);
}

#[test]
fn one_machine_whose_disk_cdi_fills() {
    let policy = Policy::Delete;
    let configs = [false, true].map(|from_running| Config {
        has_source: true,
        policy,
        from_running,
        ..ONE
    });
    check("with a source", configs);
}

#[test]
fn two_machines() {
    let policy = Policy::Delete;
    let configs = [1, 2].map(|disks| Config {
        machines: 2,
        disks,
        policy,
        from_running: true,
        ..ONE
    });
    check("two Machines", configs);
}
