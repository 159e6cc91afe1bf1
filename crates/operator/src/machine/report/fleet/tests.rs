use std::sync::Arc;

use runtime::cache::Key;
use serde_json::{Value, json};

use super::*;
use crate::machine::slim::Slim as _;

/// A fleet, and what it shows.
struct Scene {
    metrics: Metrics,
    fleet: Fleet,
}

impl Scene {
    fn new() -> Self {
        let metrics = Metrics::new("0");
        Self {
            fleet: Fleet::new(metrics.clone()),
            metrics,
        }
    }

    fn machine(&mut self, old: Option<&Machine>, new: Option<&Machine>) {
        let changed = Delta {
            key: Key::new("default", "a"),
            old: old.cloned().map(Arc::new),
            new: new.cloned().map(Arc::new),
        };
        self.fleet.machines(&[changed]);
    }

    fn claim(&mut self, old: Option<&ObservedClaim>, new: Option<&ObservedClaim>) {
        let packed =
            |claim: Option<&ObservedClaim>| claim.map(|claim| Arc::new(claim.clone().slim()));
        let changed = Delta {
            key: Key::new("default", "a-root"),
            old: packed(old),
            new: packed(new),
        };
        self.fleet.claims(&[changed], at(600).parse().unwrap());
    }

    /// The samples of a metric, without the bounds of histograms.
    fn shown(&self, name: &str) -> Vec<String> {
        let prefix = format!("kubevirt_operator_{name}");
        let text = self.metrics.expose();
        let lines = text.lines().filter(|line| line.starts_with(&prefix));
        let lines = lines.filter(|line| !line.contains("_bucket"));
        let mut lines: Vec<_> = lines
            .map(|line| line.replacen("kubevirt_operator_", "", 1))
            .collect();
        lines.sort();
        lines
    }
}

/// So many seconds after 1970.
fn at(second: i64) -> String {
    Timestamp::from_second(second).unwrap().to_string()
}

fn machine(created: i64, status: &Value) -> Machine {
    serde_json::from_value(json!({
        "metadata": { "name": "a", "uid": "1", "creationTimestamp": at(created) },
        "spec": { "template": "small" },
        "status": status,
    }))
    .unwrap()
}

fn condition(type_: &str, status: &str, since: i64) -> Value {
    json!({
        "type": type_, "status": status, "reason": "R", "message": "", "lastTransitionTime": at(since),
    })
}

fn creating(created: i64, storage_since: i64) -> Machine {
    let conditions = [
        condition("Ready", "False", created),
        condition("StorageReady", "False", storage_since),
        // Says nothing of whether it is on its way.
        condition("RestartRequired", "False", 5_000),
    ];
    machine(
        created,
        &json!({ "phase": "Creating", "conditions": conditions }),
    )
}

fn running(created: i64, since: i64) -> Machine {
    let conditions = [
        condition("Ready", "True", since),
        condition("StorageReady", "True", created),
    ];
    machine(
        created,
        &json!({ "phase": "Running", "conditions": conditions }),
    )
}

#[test]
fn the_oldest_of_a_phase_is_told_until_it_leaves() {
    let mut scene = Scene::new();
    let (old, young) = (creating(100, 120), creating(200, 200));
    scene.machine(None, Some(&old));
    scene.machine(None, Some(&young));
    assert_eq!(
        scene.shown("machine_phase_oldest"),
        [r#"machine_phase_oldest_timestamp_seconds{phase="Creating"} 120"#]
    );
    scene.machine(Some(&old), Some(&running(100, 160)));
    assert_eq!(
        scene.shown("machine_phase_oldest"),
        [
            r#"machine_phase_oldest_timestamp_seconds{phase="Creating"} 200"#,
            r#"machine_phase_oldest_timestamp_seconds{phase="Running"} 160"#,
        ]
    );
    scene.machine(Some(&young), None);
    scene.machine(Some(&running(100, 160)), None);
    assert!(scene.shown("machine_phase_oldest").is_empty());
    assert!(scene.shown("machine_waiting").is_empty());
}

#[test]
fn a_machine_that_nobody_has_looked_at_is_pending_since_its_creation() {
    let mut scene = Scene::new();
    scene.machine(None, Some(&machine(42, &json!({}))));
    assert_eq!(
        scene.shown("machine_phase_oldest"),
        [r#"machine_phase_oldest_timestamp_seconds{phase="Pending"} 42"#]
    );
}

#[test]
fn a_machine_that_is_deleted_waits_for_that_and_is_in_no_phase() {
    let mut scene = Scene::new();
    let mut machine = creating(100, 120);
    machine.metadata.deletion_timestamp = Some(serde_json::from_value(json!(at(300))).unwrap());
    scene.machine(None, Some(&machine));
    assert_eq!(
        scene.shown("machine_waiting"),
        [r#"machine_waiting_oldest_timestamp_seconds{waits_for="deletion"} 300"#]
    );
    assert!(scene.shown("machine_phase_oldest").is_empty());
}

#[test]
fn disks_are_waited_for_by_guests_that_are_to_run() {
    let mut scene = Scene::new();
    scene.machine(None, Some(&creating(100, 120)));
    assert_eq!(
        scene.shown("machine_waiting"),
        [r#"machine_waiting_oldest_timestamp_seconds{waits_for="storage"} 120"#]
    );
    // Its class binds disks where they are first used.
    let conditions = [condition("StorageReady", "False", 120)];
    let stopped = json!({ "phase": "Stopped", "conditions": conditions });
    scene.machine(Some(&creating(100, 120)), Some(&machine(100, &stopped)));
    assert!(scene.shown("machine_waiting").is_empty());
}

#[test]
fn the_first_start_is_timed_from_the_creation_and_later_ones_are_not() {
    let mut scene = Scene::new();
    let counted = |scene: &Scene| scene.shown("machine_start_duration_seconds");
    scene.machine(Some(&creating(100, 120)), Some(&running(100, 145)));
    let once = [
        "machine_start_duration_seconds_count 1",
        "machine_start_duration_seconds_sum 45.0",
    ];
    assert_eq!(counted(&scene), once);
    let stopped = machine(100, &json!({ "phase": "Stopped" }));
    scene.machine(Some(&stopped), Some(&running(100, 9_000)));
    scene.machine(Some(&running(100, 145)), Some(&running(100, 9_000)));
    // The list of a process that was just started.
    scene.machine(None, Some(&running(100, 145)));
    assert_eq!(counted(&scene), once);
    let mut another = running(100, 145);
    another.metadata.uid = Some("2".to_owned());
    scene.machine(Some(&creating(100, 120)), Some(&another));
    assert_eq!(counted(&scene), once);
}

fn claim(class: &str, created: i64, phase: &str) -> ObservedClaim {
    serde_json::from_value(json!({
        "metadata": { "name": "a-root", "creationTimestamp": at(created) },
        "spec": { "storageClassName": class },
        "status": { "phase": phase },
    }))
    .unwrap()
}

#[test]
fn pending_claims_are_told_by_class_with_the_oldest() {
    let mut scene = Scene::new();
    let (first, second) = (claim("fast", 100, "Pending"), claim("fast", 200, ""));
    scene.claim(None, Some(&first));
    scene.claim(None, Some(&second));
    scene.claim(None, Some(&claim("slow", 300, "Pending")));
    assert_eq!(
        scene.shown("claim"),
        [
            r#"claim_pending_oldest_timestamp_seconds{storage_class="fast"} 100"#,
            r#"claim_pending_oldest_timestamp_seconds{storage_class="slow"} 300"#,
            r#"claims_pending{storage_class="fast"} 2"#,
            r#"claims_pending{storage_class="slow"} 1"#,
        ]
    );
    scene.claim(Some(&first), Some(&claim("fast", 100, "Bound")));
    let mut going = claim("slow", 300, "Pending");
    going.metadata.deletion_timestamp = Some(serde_json::from_value(json!(at(400))).unwrap());
    scene.claim(Some(&claim("slow", 300, "Pending")), Some(&going));
    assert_eq!(
        scene.shown("claim"),
        [
            r#"claim_pending_oldest_timestamp_seconds{storage_class="fast"} 200"#,
            r#"claims_pending{storage_class="fast"} 1"#,
        ]
    );
    assert_eq!(
        scene.shown("storage_provisioning_duration_seconds_sum"),
        [r#"storage_provisioning_duration_seconds_sum{storage_class="fast"} 500.0"#]
    );
}

#[test]
fn virtual_machines_are_counted_once_when_their_kind_goes_and_comes_back() {
    let mut scene = Scene::new();
    let vm: ObservedVirtualMachine = serde_json::from_value(json!({
        "metadata": { "name": "a" }, "status": { "printableStatus": "Running" },
    }))
    .unwrap();
    let listed = [Delta {
        key: Key::new("", "a"),
        old: None,
        new: Some(Arc::new(vm.slim())),
    }];
    let once = [r#"virtual_machines_total{status="Running"} 1"#];
    scene.fleet.virtual_machines(&listed);
    assert_eq!(scene.shown("virtual_machines_total"), once);
    scene.fleet.forget_kind(Watched::VirtualMachines);
    assert!(scene.shown("virtual_machines_total").is_empty());
    scene.fleet.virtual_machines(&listed);
    assert_eq!(scene.shown("virtual_machines_total"), once);
}
