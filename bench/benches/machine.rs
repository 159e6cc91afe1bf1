//! Resolving and building of Machines: `cargo bench -p bench --bench machine`.
#![allow(
    clippy::expect_used,
    reason = "a benchmark without its input has nothing to measure"
)]

use api::Machine;
use divan::{AllocProfiler, Bencher, black_box};
use plan::machine::{Surroundings, build, resolve};

#[global_allocator]
static ALLOCATOR: AllocProfiler = AllocProfiler::system();

fn main() {
    divan::main();
}

const EXAMPLES: [&str; 3] = ["machine-small", "machine-three-disks", "machine-windows"];

fn machine(name: &str) -> Machine {
    let file = format!("{}/../examples/{name}.yaml", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(file).expect("the example is there");
    serde_saphyr::from_str(&text).expect("the example is a Machine")
}

#[divan::bench(args = EXAMPLES)]
fn resolve_and_build(bencher: Bencher<'_, '_>, name: &str) {
    let machine = machine(name);
    let surroundings = Surroundings::default();
    bencher.bench(|| {
        let resolution = resolve(black_box(&machine), &surroundings).expect("it resolves");
        build(&resolution.machine)
    });
}

#[divan::bench(args = EXAMPLES)]
fn objects_to_json(bencher: Bencher<'_, '_>, name: &str) {
    let resolution = resolve(&machine(name), &Surroundings::default()).expect("it resolves");
    let objects = build(&resolution.machine);
    bencher.bench(|| serde_json::to_vec(black_box(&objects.virtual_machine)));
}
