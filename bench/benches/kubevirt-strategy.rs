//! Parsing of a real install strategy and building of its objects:
//! `KUBEVIRT_OPERATOR_DATA=... cargo bench -p bench --bench kubevirt-strategy`.
//!
//! The data of the release is not in the repository; without it nothing is measured.
#![allow(
    clippy::expect_used,
    clippy::cast_precision_loss,
    reason = "figures for people, and a benchmark without its input has nothing to measure"
)]

use std::{
    collections::BTreeMap,
    hint::black_box,
    path::PathBuf,
    time::{Duration, Instant},
};

use api::kubevirt::install::KubeVirt;
use plan::kubevirt::{
    Desired, Facts, Handlers, Operator, Strategy, Target, desired, observed::Served,
    strategy::decode, target,
};
use serde_json::{Value, json};

const RELEASE: &str = "v1.9.0";

fn main() {
    let Some(data) = std::env::var_os("KUBEVIRT_OPERATOR_DATA").map(PathBuf::from) else {
        println!("NOT RUN bench kubevirt-strategy: KUBEVIRT_OPERATOR_DATA is not set");
        return;
    };
    // `cargo bench` passes this, `cargo test` does not.
    let bench = std::env::args().any(|argument| argument == "--bench");
    let rounds = if bench { 50 } else { 1 };

    let file = format!("kubevirt/fixtures/install-strategy-configmap-{RELEASE}.json");
    let map = std::fs::read_to_string(data.join(file)).expect("the release is there");
    let map: Value = serde_json::from_str(&map).expect("it is a ConfigMap");
    let strings = |pointer: &str| -> BTreeMap<String, String> {
        let strings = map.pointer(pointer).cloned().unwrap_or_default();
        serde_json::from_value(strings).expect("it has text")
    };
    let (contents, annotations) = (strings("/data"), strings("/metadata/annotations"));
    let unpack = || decode(&contents, &annotations).expect("it is packed as releases do");
    let text = unpack();
    let parse = |text: &str| Strategy::parse(text).expect("it is a strategy");
    let strategy = parse(&text);
    let wanted = Wanted::new();

    println!(
        "{RELEASE}: {:.1} MiB of YAML, {} objects, {:.1} MiB of JSON",
        mebibytes(text.len()),
        strategy.objects.len(),
        mebibytes(
            strategy
                .objects
                .iter()
                .map(|object| object.text().len())
                .sum()
        ),
    );
    measure("unpacked", rounds, || drop(black_box(unpack())));
    measure("parsed", rounds, || drop(black_box(parse(&text))));
    measure("prepared", rounds, || {
        drop(black_box(wanted.prepare(&strategy)));
    });
    measure("all of it", rounds, || {
        let strategy = parse(&unpack());
        drop(black_box(wanted.prepare(&strategy)));
    });
    let mut strategy = None;
    let counted = allocation_counter::measure(|| strategy = Some(parse(&text)));
    drop(strategy);
    let kept = mebibytes(usize::try_from(counted.bytes_current).unwrap_or_default());
    println!("a cached strategy takes {kept:.1} MiB");
}

/// Best and median duration of several rounds, and the peak memory of one.
fn measure(label: &str, rounds: usize, mut work: impl FnMut()) {
    let mut times: Vec<Duration> = (0..rounds)
        .map(|_| {
            let start = Instant::now();
            work();
            start.elapsed()
        })
        .collect();
    times.sort();
    let milliseconds = |time: Option<&Duration>| time.map_or(0.0, |time| time.as_secs_f64() * 1e3);
    let counted = allocation_counter::measure(work);
    println!(
        "{label:<12} best {:>6.1} ms   median {:>6.1} ms   peak {:>6.1} MiB   {:>7} allocations",
        milliseconds(times.first()),
        milliseconds(times.get(times.len() / 2)),
        mebibytes(usize::try_from(counted.bytes_max).unwrap_or_default()),
        counted.count_total,
    );
}

fn mebibytes(bytes: usize) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// An installation with defaults.
struct Wanted {
    kubevirt: KubeVirt,
    target: Target,
    served: Served,
}

impl Wanted {
    fn new() -> Self {
        let kubevirt: KubeVirt = serde_json::from_value(json!({
            "apiVersion": "kubevirt.io/v1",
            "kind": "KubeVirt",
            "metadata": {"name": "kubevirt", "namespace": "kubevirt", "generation": 1},
            "spec": {"imageTag": RELEASE, "imageRegistry": "registry.example/kubevirt"},
        }))
        .expect("it is a KubeVirt");
        let operator = Operator {
            namespace: "kubevirt".to_owned(),
            ..Operator::default()
        };
        let served = Served::default();
        Self {
            target: target(&kubevirt, &operator, &served).expect("it names a release"),
            kubevirt,
            served,
        }
    }

    fn prepare(&self, strategy: &Strategy) -> Desired {
        let facts = Facts {
            namespace: "kubevirt",
            served: &self.served,
            schedulable_nodes: 3,
            bundles: BTreeMap::new(),
            handlers: Handlers::None,
        };
        desired(&self.kubevirt, &self.target, strategy, &facts).expect("it is for this namespace")
    }
}
