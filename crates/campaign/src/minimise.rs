//! Minimisation of a failing script by delta debugging: fewer decisions that still violate the same
//! oracle.

use crate::{
    decision::{Decision, Script},
    run::{RunOutcome, run},
};

/// Shortens a script while it violates the oracle, with at most `most` runs.
pub fn minimise(script: &Script, oracle: &str, most: usize) -> (Script, usize) {
    let mut best = script.clone();
    let mut runs = 0;
    let mut size = best.decisions.len().div_ceil(2);
    while size > 0 && runs < most {
        let mut start = 0;
        let mut shortened = false;
        while start < best.decisions.len() && runs < most {
            let candidate = without(&best, start, size);
            runs += 1;
            if violates(&run(&candidate), oracle) {
                best = candidate;
                shortened = true;
            } else {
                start += size;
            }
        }
        if !shortened || size > best.decisions.len() {
            size /= 2;
        }
    }
    if best.replicas > 1 {
        let alone = Script {
            replicas: 1,
            ..best.clone()
        };
        runs += 1;
        if violates(&run(&alone), oracle) {
            best = alone;
        }
    }
    (best, runs)
}

fn violates(outcome: &RunOutcome, oracle: &str) -> bool {
    outcome
        .violations
        .iter()
        .any(|violation| violation.oracle == oracle)
}

fn without(script: &Script, start: usize, size: usize) -> Script {
    let decisions = script.decisions.iter().enumerate();
    let kept = decisions.filter(|(index, _)| !(start..start + size).contains(index));
    let decisions: Vec<Decision> = kept.map(|(_, decision)| decision.clone()).collect();
    Script {
        decisions,
        ..script.clone()
    }
}
