use std::sync::Arc;

use runtime::cache::Key;
use serde_json::{Value, json};

use plan::machine::PassedOn;

use super::*;
use crate::machine::slim::Slim as _;

/// Fleet with its metrics.
struct Exposed {
    metrics: Metrics,
    fleet: Fleet,
}

impl Exposed {
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
        let packed = |claim: Option<&ObservedClaim>| {
            claim.map(|claim| Arc::new(claim.clone().slim(&PassedOn::none())))
        };
        let changed = Delta {
            key: Key::new("default", "a-root"),
            old: packed(old),
            new: packed(new),
        };
        self.fleet.claims(&[changed], at(600).parse().unwrap());
    }

    /// The samples of a metric, without the bounds of histograms.
    fn samples(&self, name: &str) -> Vec<String> {
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

/// RFC 3339 text of a Unix time.
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
        // Not a progress condition.
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
fn the_oldest_machine_of_a_phase_is_shown_until_it_leaves_the_phase() {
    let mut exposed = Exposed::new();
    let (old, young) = (creating(100, 120), creating(200, 200));
    exposed.machine(None, Some(&old));
    exposed.machine(None, Some(&young));
    assert_eq!(
        exposed.samples("machine_phase_oldest"),
        [r#"machine_phase_oldest_timestamp_seconds{phase="Creating"} 120"#]
    );
    exposed.machine(Some(&old), Some(&running(100, 160)));
    assert_eq!(
        exposed.samples("machine_phase_oldest"),
        [
            r#"machine_phase_oldest_timestamp_seconds{phase="Creating"} 200"#,
            r#"machine_phase_oldest_timestamp_seconds{phase="Running"} 160"#,
        ]
    );
    exposed.machine(Some(&young), None);
    exposed.machine(Some(&running(100, 160)), None);
    assert!(exposed.samples("machine_phase_oldest").is_empty());
    assert!(exposed.samples("machine_waiting").is_empty());
}

#[test]
fn a_machine_without_status_is_pending_since_its_creation() {
    let mut exposed = Exposed::new();
    exposed.machine(None, Some(&machine(42, &json!({}))));
    assert_eq!(
        exposed.samples("machine_phase_oldest"),
        [r#"machine_phase_oldest_timestamp_seconds{phase="Pending"} 42"#]
    );
}

#[test]
fn a_deleted_machine_waits_for_deletion_and_has_no_phase() {
    let mut exposed = Exposed::new();
    let mut machine = creating(100, 120);
    machine.metadata.deletion_timestamp = Some(serde_json::from_value(json!(at(300))).unwrap());
    exposed.machine(None, Some(&machine));
    assert_eq!(
        exposed.samples("machine_waiting"),
        [r#"machine_waiting_oldest_timestamp_seconds{waits_for="deletion"} 300"#]
    );
    assert!(exposed.samples("machine_phase_oldest").is_empty());
}

#[test]
fn a_stopped_machine_does_not_wait_for_its_disks() {
    let mut exposed = Exposed::new();
    exposed.machine(None, Some(&creating(100, 120)));
    assert_eq!(
        exposed.samples("machine_waiting"),
        [r#"machine_waiting_oldest_timestamp_seconds{waits_for="storage"} 120"#]
    );
    // Its class binds disks where they are first used.
    let conditions = [condition("StorageReady", "False", 120)];
    let stopped = json!({ "phase": "Stopped", "conditions": conditions });
    exposed.machine(Some(&creating(100, 120)), Some(&machine(100, &stopped)));
    assert!(exposed.samples("machine_waiting").is_empty());
}

#[test]
fn only_the_first_start_is_timed() {
    let mut exposed = Exposed::new();
    let counted = |exposed: &Exposed| exposed.samples("machine_start_duration_seconds");
    exposed.machine(Some(&creating(100, 120)), Some(&running(100, 145)));
    let once = [
        "machine_start_duration_seconds_count 1",
        "machine_start_duration_seconds_sum 45.0",
    ];
    assert_eq!(counted(&exposed), once);
    let stopped = machine(100, &json!({ "phase": "Stopped" }));
    exposed.machine(Some(&stopped), Some(&running(100, 9_000)));
    exposed.machine(Some(&running(100, 145)), Some(&running(100, 9_000)));
    // The list of a process that was just started.
    exposed.machine(None, Some(&running(100, 145)));
    assert_eq!(counted(&exposed), once);
    let mut another = running(100, 145);
    another.metadata.uid = Some("2".to_owned());
    exposed.machine(Some(&creating(100, 120)), Some(&another));
    assert_eq!(counted(&exposed), once);
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
fn pending_claims_are_counted_by_class_with_the_oldest() {
    let mut exposed = Exposed::new();
    let (first, second) = (claim("fast", 100, "Pending"), claim("fast", 200, ""));
    exposed.claim(None, Some(&first));
    exposed.claim(None, Some(&second));
    exposed.claim(None, Some(&claim("slow", 300, "Pending")));
    assert_eq!(
        exposed.samples("claim"),
        [
            r#"claim_pending_oldest_timestamp_seconds{storage_class="fast"} 100"#,
            r#"claim_pending_oldest_timestamp_seconds{storage_class="slow"} 300"#,
            r#"claims_pending{storage_class="fast"} 2"#,
            r#"claims_pending{storage_class="slow"} 1"#,
        ]
    );
    exposed.claim(Some(&first), Some(&claim("fast", 100, "Bound")));
    let mut going = claim("slow", 300, "Pending");
    going.metadata.deletion_timestamp = Some(serde_json::from_value(json!(at(400))).unwrap());
    exposed.claim(Some(&claim("slow", 300, "Pending")), Some(&going));
    assert_eq!(
        exposed.samples("claim"),
        [
            r#"claim_pending_oldest_timestamp_seconds{storage_class="fast"} 200"#,
            r#"claims_pending{storage_class="fast"} 1"#,
        ]
    );
    assert_eq!(
        exposed.samples("storage_provisioning_duration_seconds_sum"),
        [r#"storage_provisioning_duration_seconds_sum{storage_class="fast"} 500.0"#]
    );
}

#[test]
fn virtual_machines_are_counted_once_after_their_kind_is_served_again() {
    let mut exposed = Exposed::new();
    let vm: ObservedVirtualMachine = serde_json::from_value(json!({
        "metadata": { "name": "a" }, "status": { "printableStatus": "Running" },
    }))
    .unwrap();
    let listed = [Delta {
        key: Key::new("", "a"),
        old: None,
        new: Some(Arc::new(vm.slim(&PassedOn::none()))),
    }];
    let once = [r#"virtual_machines_total{status="Running"} 1"#];
    exposed.fleet.virtual_machines(&listed);
    assert_eq!(exposed.samples("virtual_machines_total"), once);
    exposed.fleet.forget_kind(Watched::VirtualMachines);
    assert!(exposed.samples("virtual_machines_total").is_empty());
    exposed.fleet.virtual_machines(&listed);
    assert_eq!(exposed.samples("virtual_machines_total"), once);
}
