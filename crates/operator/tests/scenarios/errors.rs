//! Errors of Machines: how they are reported, and recovery.

use std::{
    io,
    sync::{Arc, Mutex},
};

use sandbox::{Component, Setup, faults::Faults};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::{
    quota::{enforce_no_pods, enforce_storage, quota},
    runner::{
        Need, run_scenario, run_scenario_alone, run_scenario_in_sandbox, run_scenario_with,
        run_scenario_with_controllers,
    },
    scenario::{Scenario, condition},
};

const VIRTUAL_MACHINES: &str = "virtualmachines.kubevirt.io";
const FAIL: &str = "sandbox.vitistack.io/fail";

fn failing(faults: &str) -> impl FnOnce(&mut Setup) {
    let faults = Faults::from_yaml(faults).unwrap();
    move |setup| setup.faults = faults
}

fn message<'a>(machine: &'a Value, of_type: &str) -> &'a str {
    condition(machine, of_type)["message"]
        .as_str()
        .unwrap_or_default()
}

async fn set_virt_api_unavailable(scenario: &Scenario, unavailable: bool) {
    let fault = unavailable.then_some("WebhookUnavailable");
    let patch = json!({ "metadata": { "annotations": { FAIL: fault } } });
    scenario
        .patch("CustomResourceDefinition", VIRTUAL_MACHINES, patch)
        .await;
}

#[test]
fn a_machine_too_large_for_every_node_is_reported_and_starts_when_one_fits() {
    run_scenario_alone(&[], async {
        let scenario = Scenario::start().await;
        let created_at = Instant::now();
        scenario
            .create_machine("web", json!({ "template": "small", "memory": "500Gi" }))
            .await;
        let machine = scenario.until_reason("web", "InsufficientResources").await;
        assert!(created_at.elapsed() < scenario.cluster.timeout_of(10));
        assert_eq!(machine["status"]["phase"], "Failed");
        let words = message(&machine, "Ready");
        assert!(words.contains("Insufficient memory"), "{words}");

        let room = json!({
            "cpu": "16", "memory": "1Ti", "pods": "110", "ephemeral-storage": "200Gi",
            "devices.kubevirt.io/kvm": "1k", "devices.kubevirt.io/tun": "1k",
            "devices.kubevirt.io/vhost-net": "1k",
        });
        let mut node = scenario.get("Node", "node-1").await;
        node["metadata"] = json!({ "name": "big", "labels": node["metadata"]["labels"] });
        node["metadata"]["labels"]["kubernetes.io/hostname"] = "big".into();
        node["spec"] = json!({});
        node["status"] = json!({ "capacity": room, "allocatable": room });
        scenario.apply_object(node).await;
        let machine = scenario.until_phase("web", "Running").await;
        assert_eq!(machine["status"]["nodeName"], "big");
        scenario.until_condition("web", "Ready", "True").await;
    });
}

#[test]
fn a_disk_beyond_the_quota_is_reported_and_created_when_the_quota_is_raised() {
    run_scenario_with_controllers(async {
        let scenario = Scenario::start().await;
        enforce_storage(&scenario, "10Gi").await;
        scenario
            .create_machine("web", json!({ "template": "small" }))
            .await;
        let machine = scenario.until_reason("web", "InsufficientResources").await;
        assert_eq!(machine["status"]["phase"], "Failed");
        let words = message(&machine, "Ready");
        assert!(words.contains("exceeded quota: budget"), "{words}");
        assert_eq!(condition(&machine, "StorageReady")["status"], "False");
        scenario.wait(3600).await;

        scenario
            .apply_object(quota(&json!({ "requests.storage": "100Gi" })))
            .await;
        let raised = Instant::now();
        scenario.until("VirtualMachine", "web", |_| true).await;
        assert!(raised.elapsed() < scenario.cluster.timeout_of(2));
        scenario.until_phase("web", "Running").await;
    });
}

#[test]
fn a_guest_beyond_the_quota_is_reported_with_the_quotas_message() {
    run_scenario_with_controllers(async {
        let scenario = Scenario::start().await;
        enforce_no_pods(&scenario).await;
        scenario
            .create_machine("web", json!({ "template": "small" }))
            .await;
        let machine = scenario.until_reason("web", "InsufficientResources").await;
        let words = message(&machine, "Ready");
        assert!(words.contains("exceeded quota: budget"), "{words}");

        scenario.apply_object(quota(&json!({ "pods": "5" }))).await;
        scenario.until_phase("web", "Running").await;
        scenario.until_condition("web", "Ready", "True").await;
    });
}

#[test]
fn a_machine_waits_for_kubevirt_and_starts_once_it_is_installed() {
    run_scenario_alone(&[Need::CurrentApis], async {
        let scenario = Scenario::start_with(|setup| {
            setup.without.insert(Component::KubeVirt);
        })
        .await;
        scenario
            .create_machine("web", json!({ "template": "small" }))
            .await;
        let machine = scenario.until_reason("web", "KubeVirtApiError").await;
        assert_eq!(machine["status"]["phase"], "Pending");
        let words = message(&machine, "Ready");
        assert!(words.contains("not installed"), "{words}");
        scenario.wait(3600).await;

        scenario.install(Component::KubeVirt).await;
        scenario.until_phase("web", "Running").await;
    });
}

#[test]
fn an_unreachable_virt_api_is_reported_and_retried() {
    run_scenario_alone(&[Need::Services], async {
        let scenario = Scenario::start().await;
        scenario
            .create_machine("old", json!({ "template": "small" }))
            .await;
        scenario.until_phase("old", "Running").await;
        set_virt_api_unavailable(&scenario, true).await;

        scenario
            .create_machine("web", json!({ "template": "small" }))
            .await;
        let machine = scenario.until_reason("web", "KubeVirtApiError").await;
        let words = message(&machine, "Ready");
        assert!(words.contains("failed calling webhook"), "{words}");
        scenario.wait(30).await;
        let old = scenario.get("Machine", "old").await;
        assert_eq!(condition(&old, "Ready")["status"], "True");

        set_virt_api_unavailable(&scenario, false).await;
        scenario.until_phase("web", "Running").await;
        scenario.until_condition("web", "Ready", "True").await;
    });
}

#[test]
fn a_refusal_by_kubevirt_is_reported_verbatim_and_resolved_by_a_new_spec() {
    run_scenario_with(&[Need::Services], async {
        let scenario = Scenario::start().await;
        let with = |type_: &str| json!({ "machine": { "type": type_ } });
        let spec = json!({ "template": "small", "domain": with("pc-i440fx") });
        scenario.create_machine("web", spec).await;
        let machine = scenario.until_reason("web", "KubeVirtApiError").await;
        assert_eq!(machine["status"]["phase"], "Failed");
        assert_eq!(
            condition(&machine, "VirtualMachineReady")["reason"],
            "VMFailed"
        );
        let words = message(&machine, "VirtualMachineReady");
        assert!(words.contains("is not supported: pc-i440fx"), "{words}");
        scenario.wait(3600).await;

        scenario
            .patch_spec("web", json!({ "domain": with("q35") }))
            .await;
        let fixed_at = Instant::now();
        scenario.until("VirtualMachine", "web", |_| true).await;
        assert!(fixed_at.elapsed() < scenario.cluster.timeout_of(2));
        scenario.until_phase("web", "Running").await;
    });
}

#[test]
fn a_change_refused_by_kubevirt_leaves_the_machine_running() {
    run_scenario_with(&[Need::Services], async {
        let scenario = Scenario::start().await;
        scenario
            .create_machine("web", json!({ "template": "small" }))
            .await;
        scenario.until_phase("web", "Running").await;
        let refused = json!({ "domain": { "machine": { "type": "pc-i440fx" } } });
        scenario.patch_spec("web", refused).await;
        let machine = scenario.until_reason("web", "KubeVirtApiError").await;
        assert_eq!(machine["status"]["phase"], "Running");

        scenario.patch_spec("web", json!({ "domain": null })).await;
        scenario.until_condition("web", "Ready", "True").await;
    });
}

#[test]
fn a_crash_looping_guest_is_failed_until_it_runs() {
    run_scenario_alone(&[], async {
        let fault =
            "[{ kind: VirtualMachineInstance, name: web, fault: CrashLoopBackOff, times: 3 }]";
        let scenario = Scenario::start_with(failing(fault)).await;
        scenario
            .create_machine("web", json!({ "template": "small" }))
            .await;
        let machine = scenario.until_phase("web", "Failed").await;
        assert_eq!(
            condition(&machine, "VirtualMachineReady")["reason"],
            "VMFailed"
        );
        assert_eq!(condition(&machine, "Ready")["status"], "False");

        scenario.until_phase("web", "Running").await;
        scenario.until_condition("web", "Ready", "True").await;
        scenario.wait(60).await;
        let events = scenario.events("web").await;
        assert!(events.len() <= 10, "{events:#?}");
    });
}

#[test]
fn a_normal_start_never_shows_a_failure() {
    run_scenario(async {
        let scenario = Scenario::start().await;
        let recording = scenario.record(&["Machine"]).await;
        for name in ["one", "two", "three"] {
            scenario
                .create_machine(name, json!({ "template": "small" }))
                .await;
        }
        for name in ["one", "two", "three"] {
            scenario.until_phase(name, "Running").await;
        }
        let changes = recording.changes();
        assert!(changes.len() > 6);
        for machine in changes.iter().map(|change| &change.object) {
            assert_ne!(machine["status"]["phase"], "Failed", "{machine:#}");
            let reason = &condition(machine, "VirtualMachineReady")["reason"];
            assert_ne!(reason, "VMFailed", "{machine:#}");
        }
        for name in ["one", "two", "three"] {
            assert_eq!(scenario.reasons(name).await, ["Created", "Started"]);
        }
    });
}

#[test]
fn all_errors_of_a_spec_are_reported_at_once() {
    run_scenario(async {
        let scenario = Scenario::start().await;
        let spec = json!({
            "template": "smal",
            "disks": [{ "name": "data", "size": "5Gi", "storageClass": "fast" }],
            "networks": [{ "name": "lan", "networkName": "prod" }],
        });
        scenario.create_machine("web", spec).await;
        let machine = scenario.until_phase("web", "Failed").await;
        let words = message(&machine, "SpecValid");
        for error in [
            "spec.template: no MachineClass is named",
            "spec.disks[0].storageClass: StorageClassNotFound",
            "spec.networks[0].networkName: NetworkConfigurationNotFound",
        ] {
            assert!(words.contains(error), "{error} is not in: {words}");
        }
        let reason = &condition(&machine, "NetworkReady")["reason"];
        assert_eq!(reason, "NetworkFailed");
        assert_eq!(condition(&machine, "StorageReady")["status"], "False");
    });
}

#[test]
fn an_annotation_without_effect_is_answered_with_an_event() {
    run_scenario(async {
        let scenario = Scenario::start().await;
        let annotations = json!({ "vitistack.io/adopt-disks": "yes" });
        let machine = json!({
            "metadata": { "name": "web", "annotations": annotations },
            "spec": { "template": "small" },
        });
        scenario.create("Machine", machine).await;
        scenario.until_condition("web", "Ready", "True").await;
        let machine = scenario.get("Machine", "web").await;
        let words = message(&machine, "AnnotationsValid");
        assert!(words.contains("adopt-disks"), "{words}");
        scenario.wait(1).await;
        let reasons = scenario.reasons("web").await;
        let ignored = reasons.iter().filter(|it| *it == "AnnotationIgnored");
        assert_eq!(ignored.count(), 1, "{reasons:?}");

        let corrected = json!({ "vitistack.io/adopt-disks": "true" });
        let patch = json!({ "metadata": { "annotations": corrected } });
        scenario.patch("Machine", "web", patch).await;
        scenario
            .until("Machine", "web", |machine| {
                condition(machine, "AnnotationsValid").is_null()
            })
            .await;
    });
}

/// Log in memory.
#[derive(Clone, Default)]
struct Logs(Arc<Mutex<Vec<u8>>>);

impl io::Write for Logs {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn secret_data_appears_nowhere() {
    run_scenario_in_sandbox("it reads all logs", async {
        const MARKER: &str = "correct-horse-battery-staple";
        let logs = Logs::default();
        let writer = logs.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::TRACE)
            .with_writer(move || writer.clone())
            .finish();
        let _guard = tracing::subscriber::set_default(subscriber);

        let scenario = Scenario::start().await;
        let secret = |marker: &str| {
            json!({
                "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "seed" },
                "stringData": { "userdata": format!("#cloud-config\npassword: {marker}\n") },
            })
        };
        scenario.apply_object(secret(MARKER)).await;
        // The write of the operator's Secret is refused at first.
        scenario
            .apply_object(quota(&json!({ "count/secrets": "1" })))
            .await;
        let spec = json!({ "template": "small", "cloudInit": { "secretRef": { "name": "seed" } } });
        scenario.create_machine("web", spec).await;
        scenario.until_reason("web", "InsufficientResources").await;
        scenario
            .apply_object(quota(&json!({ "count/secrets": "5" })))
            .await;
        scenario.until_phase("web", "Running").await;
        scenario.apply_object(secret(&format!("{MARKER}-2"))).await;
        let requested = json!({ "restartedAt": "2026-11-15T12:00:00Z" });
        scenario.patch_spec("web", requested).await;
        scenario.wait(60).await;
        scenario.until_phase("web", "Running").await;

        for kind in [
            "Machine",
            "VirtualMachine",
            "VirtualMachineInstance",
            "PersistentVolumeClaim",
            "Pod",
            "Event",
        ] {
            for object in scenario.list(kind).await {
                let text = object.to_string();
                assert!(!text.contains(MARKER), "{text}");
            }
        }
        let logs = String::from_utf8_lossy(&logs.0.lock().unwrap()).into_owned();
        assert!(logs.contains("web"), "nothing is logged");
        assert!(!logs.contains(MARKER), "the logs contain a secret");
    });
}

#[test]
fn a_machine_failing_for_hours_causes_few_writes_and_events() {
    run_scenario_in_sandbox("it takes hours", async {
        let scenario = Scenario::start().await;
        let spec = json!({ "template": "small", "domain": { "machine": { "type": "pc-i440fx" } } });
        scenario.create_machine("web", spec).await;
        scenario.until_reason("web", "KubeVirtApiError").await;
        let before = scenario.writes("");
        scenario.wait(2 * 3600).await;
        let tries = scenario.writes("") - before;
        assert!((20..=50).contains(&tries), "{tries} writes in two hours");
        let events = scenario.events("web").await;
        assert!(events.len() <= 3, "{events:#?}");
    });
}
