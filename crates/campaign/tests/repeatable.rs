//! Repeatability of runs, to the last request.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use campaign::{decision::Subject, run::run, workload};

#[test]
fn the_same_seed_gives_the_same_run() {
    for subject in [Subject::Machine, Subject::Kubevirt] {
        let script = workload::script(subject, 7);
        let (first, second) = (run(&script), run(&script));
        assert!(first.requests > 0);
        assert_eq!(first.digest, second.digest);
        assert_eq!(first.violations, second.violations);
    }
}

#[test]
fn another_seed_gives_another_run() {
    let digest = |seed| run(&workload::script(Subject::Machine, seed)).digest;
    assert_ne!(digest(1), digest(2));
}
