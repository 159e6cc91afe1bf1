//! Failures: when they are reported, and when they disappear.

use std::time::Duration;

use api::{MachineSpec, MachineStatus, Phase};
use rstest::rstest;
use serde_json::{Value, json};

use super::{World, at, object};
use crate::machine::{ErrorType, Obstacle, Part, Refusal};

#[rstest]
#[case(json!({"template": "huge"}), "TemplateNotFound", "SpecValid")]
#[case(
    json!({"networks": [{"name": "a", "networkName": "lost"}]}),
    "NetworkConfigurationNotFound",
    "NetworkReady"
)]
#[case(
    json!({"disks": [{"name": "root", "size": "1Gi", "storageClass": "tape"}]}),
    "StorageClassNotFound",
    "StorageReady"
)]
#[case(json!({"cpu": {"cores": 0}}), "InvalidSpec", "SpecValid")]
fn errors_of_the_spec(#[case] spec: Value, #[case] error: &str, #[case] condition: &str) {
    let mut world = World::new(spec);
    world.reconcile();
    assert_eq!(world.phase(), Phase::Failed);
    assert_eq!(world.ready(), format!("False {error}"));
    assert_eq!(
        world.condition_summary("SpecValid"),
        format!("False {error}")
    );
    assert_eq!(world.condition(condition).status, "False");
    assert_eq!((world.written.len(), world.events.len()), (1, 1));
    assert!(world.events[0].starts_with(&format!("{error}: spec.")));
    // The reason contains the type already.
    assert!(!world.message("Ready").contains(error));

    world.machine.spec = MachineSpec::default();
    world.machine.metadata.generation = Some(2);
    world.reconcile();
    assert_eq!(world.phase(), Phase::Creating);
    assert_eq!(world.condition_summary("SpecValid"), "True Valid");
    assert_eq!(world.condition("SpecValid").observed_generation, Some(2));
    assert!(world.events[1].starts_with("Recovered: "));
}

#[test]
fn an_error_of_the_spec_does_not_fail_a_guest_that_runs() {
    let mut world = World::running(json!({}));
    world.machine.spec.template = Some("huge".to_owned());
    world.reconcile();
    assert_eq!(world.phase(), Phase::Running);
    assert_eq!(world.ready(), "False TemplateNotFound");
    assert_eq!(world.condition_summary("StorageReady"), "True PVCBound");
    assert_eq!(
        world.condition_summary("NetworkReady"),
        "True NetworkConfigured"
    );
    assert_eq!(world.status().node_name.as_deref(), Some("n1"));
    assert_eq!(world.status().memory_quantity.as_deref(), Some("2Gi"));
    assert_eq!(world.events.len(), 1);
}

#[test]
fn many_errors_are_cut_short() {
    let networks: Vec<Value> = (0..32)
        .map(|index| json!({"name": format!("n{index}"), "networkName": "x".repeat(63)}))
        .collect();
    let mut world = World::new(json!({"networks": networks}));
    world.reconcile();
    assert!(world.message("SpecValid").len() <= 1024);
    assert!(world.events[0].len() <= 1100);
}

#[rstest]
#[case::nothing_was_made(None, None, Phase::Pending)]
#[case::nothing_was_made(Some(Phase::Pending), None, Phase::Pending)]
#[case::nothing_was_made(Some(Phase::Failed), None, Phase::Pending)]
#[case(Some(Phase::Creating), None, Phase::Failed)]
#[case(Some(Phase::Failed), Some("web"), Phase::Failed)]
#[case(Some(Phase::Running), Some("web"), Phase::Failed)]
fn without_kubevirt(
    #[case] phase: Option<Phase>,
    #[case] vm: Option<&str>,
    #[case] expected: Phase,
) {
    let mut world = World::new(json!({}));
    let status = world.machine.status.insert(MachineStatus::default());
    status.phase = phase;
    status.vm_name = vm.map(str::to_owned);
    world.installed.kubevirt = false;
    world.obstacles = vec![Obstacle {
        part: Part::VirtualMachine,
        error_type: Some(ErrorType::KubeVirtApiError),
        message: "KubeVirt is not there".to_owned(),
    }];
    world.reconcile();
    assert_eq!(
        (world.phase(), world.ready()),
        (expected, "False KubeVirtApiError".to_owned())
    );
    assert_eq!(world.status().vm_name.as_deref(), vm);
    assert!(world.message("Ready").contains("KubeVirt is not installed"));
    assert_eq!(world.message("VirtualMachineReady"), world.message("Ready"));
    assert_eq!(world.events.len(), 1);
    world.installed.kubevirt = true;
    world.obstacles.clear();
    world.reconcile();
    assert_ne!(world.phase(), Phase::Failed);
}

fn scheduled(message: &str, since: &str) -> Value {
    json!({"phase": "Scheduling", "conditions": [{
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
        "message": message, "lastTransitionTime": since,
    }]})
}

fn synchronized(reason: &str, message: &str) -> Value {
    json!({"phase": "Pending", "conditions": [{
        "type": "Synchronized", "status": "False", "reason": reason, "message": message,
        "lastTransitionTime": "2026-01-01T00:00:10Z",
    }]})
}

const NO_ROOM: &str = "0/3 nodes are available: 3 Insufficient memory.";
const QUOTA: &str = "failed to create virtual machine pod: pods \"virt-launcher-web-x\" is \
                     forbidden: exceeded quota: team, requested: limits.memory=3Gi";

#[rstest]
#[case(
    scheduled(NO_ROOM, "2026-01-01T00:00:10Z"),
    "InsufficientResources",
    NO_ROOM
)]
#[case(synchronized("FailedCreate", QUOTA), "InsufficientResources", QUOTA)]
#[case(
    synchronized("FailedCreate", "no such webhook"),
    "KubeVirtApiError",
    "no such webhook"
)]
#[case(
    synchronized("ImagePullBackOff", "not pulled"),
    "KubeVirtApiError",
    "not pulled"
)]
fn only_persistent_failures_are_reported(
    #[case] instance: Value,
    #[case] error: &str,
    #[case] message: &str,
) {
    let mut world = World::new(json!({}));
    world.vm(json!({"printableStatus": "Starting"}));
    world.claim("Bound");
    world.reconcile();
    world.now = at("2026-01-01T00:00:10Z");
    world.instance(instance);
    assert_eq!(world.reconcile(), Some(Duration::from_secs(5)));
    world.later(4_980);
    assert_eq!(world.reconcile(), Some(Duration::from_millis(20)));
    assert_eq!((world.phase(), world.written.len()), (Phase::Creating, 1));
    world.later(20);
    assert_eq!(world.reconcile(), None);
    assert_eq!(
        (world.phase(), world.ready()),
        (Phase::Failed, format!("False {error}"))
    );
    assert!(world.message("Ready").ends_with(message));
    assert_eq!(
        world.condition_summary("VirtualMachineReady"),
        "False VMFailed"
    );
    assert_eq!((world.written.len(), world.events.len()), (2, 1));

    world.instance(json!({"phase": "Scheduled"}));
    world.reconcile();
    assert_eq!(
        (world.phase(), world.ready()),
        (Phase::Creating, "False Creating".to_owned())
    );
    world.up();
    world.reconcile();
    assert_eq!(world.phase(), Phase::Running);
    assert_eq!(world.events.len(), 3);
}

#[test]
fn failures_of_the_virtual_machine_are_reported_too() {
    let mut world = World::new(json!({}));
    world.vm(json!({"conditions": [{
        "type": "Failure", "status": "True", "reason": "FailedCreate", "message": "no",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }]}));
    assert_eq!(world.reconcile(), Some(Duration::from_secs(5)));
    world.later(5_000);
    world.reconcile();
    assert_eq!(
        (world.phase(), world.ready()),
        (Phase::Failed, "False KubeVirtApiError".to_owned())
    );
}

#[test]
fn a_condition_without_a_time_counts_from_the_creation_of_the_instance() {
    let mut world = World::new(json!({}));
    world.vm(json!({}));
    world.instance(json!({"phase": "Pending", "conditions": [
        {"type": "Synchronized", "status": "False", "reason": "FailedCreate", "message": "no"},
    ]}));
    world.later(3_000);
    assert_eq!(world.reconcile(), Some(Duration::from_secs(2)));
    world.later(2_000);
    world.reconcile();
    assert_eq!(world.phase(), Phase::Failed);
}

/// For 20 ms after its claim appeared, KubeVirt reports an instance as unschedulable for lack of it.
#[test]
fn a_claim_that_appears_late_is_no_failure() {
    let mut world = World::new(json!({}));
    world.vm(json!({"printableStatus": "ErrorPvcNotFound"}));
    let message = "PVC shop/web-root does not exist, waiting for it to appear";
    let unschedulable = json!({
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message,
    });
    let waiting = json!({
        "type": "Synchronized", "status": "False", "reason": "FailedPvcNotFound", "message": message,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    world.instance(json!({"phase": "Pending", "conditions": [waiting, unschedulable]}));
    world.reconcile();
    world.later(6_000);
    world.reconcile();
    world.claim("Bound");
    world.vm(json!({"printableStatus": "ErrorUnschedulable"}));
    world.instance(json!({"phase": "Scheduling", "conditions": [unschedulable]}));
    world.reconcile();
    assert_eq!(
        (world.phase(), world.ready()),
        (Phase::Creating, "False Creating".to_owned())
    );
    assert_eq!((world.written.len(), world.events.len()), (2, 0));
}

#[rstest]
#[case(Part::VirtualMachine, "VirtualMachineReady", "False VMFailed")]
#[case(Part::Storage, "StorageReady", "False PVCPending")]
#[case(Part::Network, "NetworkReady", "False NetworkFailed")]
#[case(Part::Spec, "SpecValid", "False ForeignObject")]
fn an_obstacle_or_a_refusal_is_reported_for_its_part(
    #[case] part: Part,
    #[case] condition: &str,
    #[case] expected: &str,
    #[values(true, false)] is_refused: bool,
) {
    let mut world = World::new(json!({}));
    let message = "PersistentVolumeClaim web-root is not ours; rename it".to_owned();
    let error_type = ErrorType::ForeignObject;
    if is_refused {
        world.refusal = Some(Refusal {
            error_type,
            part,
            message: message.clone(),
            is_persistent: true,
        });
    } else {
        world.obstacles = vec![Obstacle {
            part,
            error_type: Some(error_type),
            message: message.clone(),
        }];
    }
    world.reconcile();
    assert_eq!(
        (world.phase(), world.ready()),
        (Phase::Failed, "False ForeignObject".to_owned())
    );
    assert_eq!(world.condition_summary(condition), expected);
    assert_eq!(world.message(condition), message);
    world.refusal = None;
    world.obstacles.clear();
    world.reconcile();
    assert_eq!(world.phase(), Phase::Creating);
}

#[test]
fn a_refusal_that_passes_is_only_a_word_on_the_way() {
    let refusal = Refusal {
        error_type: ErrorType::ApiError,
        part: Part::VirtualMachine,
        message: "the API server does not answer".to_owned(),
        is_persistent: false,
    };
    let mut world = World::new(json!({}));
    world.refusal = Some(refusal.clone());
    world.reconcile();
    assert_eq!(
        (world.phase(), world.ready()),
        (Phase::Creating, "False Creating".to_owned())
    );
    assert_eq!(world.message("Ready"), "the API server does not answer");
    let mut world = World::running(json!({}));
    world.refusal = Some(refusal);
    world.reconcile();
    assert_eq!(world.written.len(), 0);
}

#[test]
fn a_changed_failure_message_is_reported() {
    let mut world = World::new(json!({}));
    world.vm(json!({}));
    world.instance(scheduled(NO_ROOM, "2025-12-31T00:00:00Z"));
    world.reconcile();
    world.instance(scheduled("0/4 nodes are available", "2025-12-31T00:00:00Z"));
    world.reconcile();
    assert!(world.message("Ready").ends_with("0/4 nodes are available"));
    assert_eq!((world.written.len(), world.events.len()), (2, 1));
}

#[test]
fn an_unfilled_volume_is_reported_once() {
    let mut world = World::new(json!({}));
    world.vm(json!({}));
    world.reconcile();
    let volume = |status: &str, message: &str| {
        vec![object(json!({"metadata": {"name": "web-root"}, "status": {
            "phase": "ImportInProgress",
            "conditions": [
                {"type": "Running", "status": status, "reason": "Error", "message": message},
            ],
        }}))]
    };
    for _ in 0..3 {
        world.data_volumes = volume("False", "Status: 404 Not Found");
        world.reconcile();
        assert!(
            world
                .message("StorageReady")
                .ends_with("Status: 404 Not Found")
        );
        world.data_volumes = volume("True", "Pod is running");
        world.reconcile();
    }
    assert_eq!((world.phase(), world.written.len()), (Phase::Creating, 2));
    assert_eq!(world.ready(), "False ImportFailed");
    assert_eq!(world.events.len(), 1);
    assert!(world.events[0].starts_with("ImportFailed: "));

    world.claim("Bound");
    world.data_volumes = vec![object(json!({"metadata": {"name": "web-root"}, "status": {
        "phase": "Succeeded", "restartCount": 3,
    }}))];
    world.reconcile();
    assert_eq!(world.ready(), "False Creating");
}

#[test]
fn a_disk_of_a_running_guest_that_cannot_be_filled_is_an_event_and_leaves_it_ready() {
    let spec = json!({"disks": [{"name": "data", "size": "1Gi", "source": {"http": {"url": "http://i/d"}}}]});
    let mut world = World::running(spec);
    let volume = |restarts: i64| {
        vec![object(json!({"metadata": {"name": "web-data"}, "status": {
            "phase": "ImportInProgress", "restartCount": restarts,
            "conditions": [
                {"type": "Running", "status": "False", "reason": "Error", "message": "404"},
            ],
        }}))]
    };
    for restarts in 0..3 {
        world.data_volumes = volume(restarts);
        world.reconcile();
    }
    assert_eq!(world.ready(), "True Running");
    assert_eq!(
        world.condition_summary("StorageReady"),
        "False ImportFailed"
    );
    assert_eq!(
        world.events,
        ["ImportFailed: DataVolume web-data: cannot be filled, CDI tries again: 404"]
    );
}

#[rstest]
#[case(
    "CloneWithoutSource",
    "The source pvc gold doesn't exist",
    "False SourceNotFound"
)]
#[case("NotFound", "DataSource gold not found", "False SourceNotFound")]
#[case("ErrResourceExists", "Resource exists", "False DiskNotCreated")]
#[case::on_its_way("NotFound", "No PVC found", "False Creating")]
#[case::on_its_way("Pending", "PVC web-root Pending", "False Creating")]
fn what_a_volume_lacks_is_reported(
    #[case] reason: &str,
    #[case] message: &str,
    #[case] ready: &str,
) {
    let mut world = World::new(json!({}));
    world.vm(json!({}));
    world.data_volumes = vec![object(json!({"metadata": {"name": "web-root"}, "status": {
        "phase": "Pending",
        "conditions": [
            {"type": "Bound", "status": "False", "reason": reason, "message": message},
            {"type": "Running", "status": "False"},
        ],
    }}))];
    world.reconcile();
    let is_reported = ready != "False Creating";
    for condition in ["Ready", "StorageReady"] {
        assert_eq!(world.message(condition).contains(message), is_reported);
    }
    assert_eq!(world.ready(), ready);
    assert_eq!(world.events.len(), usize::from(is_reported));
}

#[test]
fn a_volume_that_failed_for_good_fails_the_machine() {
    let mut world = World::new(json!({}));
    let status = json!({"phase": "Failed"});
    let volume = json!({"metadata": {"name": "web-root"}, "status": status});
    world.data_volumes = vec![object(volume)];
    world.reconcile();
    assert_eq!(
        (world.phase(), world.ready()),
        (Phase::Failed, "False KubeVirtApiError".to_owned())
    );
    assert_eq!(world.condition_summary("StorageReady"), "False PVCPending");
}

/// The scheduler reports the same for lack of room and for claims that are not bound.
#[test]
fn a_claim_that_is_never_bound_leaves_a_machine_waiting_for_it() {
    let mut world = World::new(json!({}));
    world.vm(json!({"printableStatus": "ErrorUnschedulable"}));
    world.claim("Pending");
    let unschedulable = json!({
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
        "message": "0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims.",
        "lastTransitionTime": "2025-01-01T00:00:00Z",
    });
    world.instance(json!({"phase": "Scheduling", "conditions": [unschedulable]}));
    world.reconcile();
    world.later(60_000);
    world.reconcile();
    assert_eq!(world.phase(), Phase::Creating);
    assert_eq!(world.condition_summary("StorageReady"), "False PVCPending");
}

#[rstest]
#[case("FailedPvcNotFound")]
#[case("PVCNotReady")]
#[case("BackendStorageNotReady")]
fn a_claim_that_is_waited_for_does_not_fail_a_guest_that_runs(#[case] reason: &str) {
    let mut world = World::running(json!({}));
    world.instance.as_mut().unwrap().status.conditions = object(json!([{
        "type": "Synchronized", "status": "False", "reason": reason, "message": "PVC pending",
        "lastTransitionTime": "2025-01-01T00:00:00Z",
    }]));
    world.reconcile();
    assert_eq!(world.ready(), "True Running");
}
