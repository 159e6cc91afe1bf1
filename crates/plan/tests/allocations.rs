//! Allocations and reallocations per Machine: counts are exact, so they can be asserted.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "a test reads its example")]

use api::Machine;
use plan::machine::{Surroundings, build, resolve};
use rstest::rstest;

#[rstest]
#[case("machine-small", 52)]
#[case("machine-three-disks", 104)]
#[case("machine-windows", 99)]
fn a_machine_costs_no_more_allocations_than_it_did(#[case] example: &str, #[case] most: u64) {
    let file = format!(
        "{}/../../examples/{example}.yaml",
        env!("CARGO_MANIFEST_DIR")
    );
    let machine: Machine = serde_saphyr::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    let surroundings = Surroundings::default();
    let counted = allocation_counter::measure(|| {
        let resolution = resolve(&machine, &surroundings).unwrap();
        drop(build(&resolution.machine));
    });
    assert!(
        counted.count_total <= most,
        "{} allocations, not {most}",
        counted.count_total
    );
}
