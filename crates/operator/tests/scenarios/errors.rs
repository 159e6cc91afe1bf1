//! What goes wrong, how it is told, and how it passes.

use std::{
    io,
    sync::{Arc, Mutex},
};

use sandbox::{Component, Setup, faults::Faults};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::{
    ground::{Need, tell, tell_alone, tell_in_sandbox, tell_with, tell_with_controllers},
    quota::{enforce_no_pods, enforce_storage, quota},
    story::{Story, condition},
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

async fn break_virt_api(story: &Story, broken: bool) {
    let fault = broken.then_some("WebhookUnavailable");
    let patch = json!({ "metadata": { "annotations": { FAIL: fault } } });
    story
        .patch("CustomResourceDefinition", VIRTUAL_MACHINES, patch)
        .await;
}

#[test]
fn a_machine_too_big_for_every_node_says_so_and_starts_when_one_has_room() {
    tell_alone(&[], async {
        let story = Story::begin().await;
        let asked = Instant::now();
        story
            .machine("web", json!({ "template": "small", "memory": "500Gi" }))
            .await;
        let machine = story.until_reason("web", "InsufficientResources").await;
        assert!(asked.elapsed() < story.ground.patience_of(10));
        assert_eq!(machine["status"]["phase"], "Failed");
        let words = message(&machine, "Ready");
        assert!(words.contains("Insufficient memory"), "{words}");

        let room = json!({
            "cpu": "16", "memory": "1Ti", "pods": "110", "ephemeral-storage": "200Gi",
            "devices.kubevirt.io/kvm": "1k", "devices.kubevirt.io/tun": "1k",
            "devices.kubevirt.io/vhost-net": "1k",
        });
        let mut node = story.get("Node", "node-1").await;
        node["metadata"] = json!({ "name": "big", "labels": node["metadata"]["labels"] });
        node["metadata"]["labels"]["kubernetes.io/hostname"] = "big".into();
        node["spec"] = json!({});
        node["status"] = json!({ "capacity": room, "allocatable": room });
        story.give(node).await;
        let machine = story.until_phase("web", "Running").await;
        assert_eq!(machine["status"]["nodeName"], "big");
        story.until_condition("web", "Ready", "True").await;
    });
}

#[test]
fn a_disk_beyond_the_quota_is_told_in_the_quotas_words_and_made_when_it_is_raised() {
    tell_with_controllers(async {
        let story = Story::begin().await;
        enforce_storage(&story, "10Gi").await;
        story.machine("web", json!({ "template": "small" })).await;
        let machine = story.until_reason("web", "InsufficientResources").await;
        assert_eq!(machine["status"]["phase"], "Failed");
        let words = message(&machine, "Ready");
        assert!(words.contains("exceeded quota: budget"), "{words}");
        assert_eq!(condition(&machine, "StorageReady")["status"], "False");
        story.wait(3600).await;

        story
            .give(quota(&json!({ "requests.storage": "100Gi" })))
            .await;
        let raised = Instant::now();
        story.until("VirtualMachine", "web", |_| true).await;
        assert!(raised.elapsed() < story.ground.patience_of(2));
        story.until_phase("web", "Running").await;
    });
}

#[test]
fn a_guest_beyond_the_quota_is_told_in_the_quotas_words() {
    tell_with_controllers(async {
        let story = Story::begin().await;
        enforce_no_pods(&story).await;
        story.machine("web", json!({ "template": "small" })).await;
        let machine = story.until_reason("web", "InsufficientResources").await;
        let words = message(&machine, "Ready");
        assert!(words.contains("exceeded quota: budget"), "{words}");

        story.give(quota(&json!({ "pods": "5" }))).await;
        story.until_phase("web", "Running").await;
        story.until_condition("web", "Ready", "True").await;
    });
}

#[test]
fn a_machine_waits_for_kubevirt_and_starts_by_itself_once_it_is_there() {
    tell_alone(&[Need::CurrentApis], async {
        let story = Story::begin_with(|setup| {
            setup.without.insert(Component::KubeVirt);
        })
        .await;
        story.machine("web", json!({ "template": "small" })).await;
        let machine = story.until_reason("web", "KubeVirtApiError").await;
        assert_eq!(machine["status"]["phase"], "Pending");
        let words = message(&machine, "Ready");
        assert!(words.contains("not installed"), "{words}");
        story.wait(3600).await;

        story.install(Component::KubeVirt).await;
        story.until_phase("web", "Running").await;
    });
}

#[test]
fn a_virt_api_that_is_away_is_told_and_waited_for() {
    tell_alone(&[Need::Services], async {
        let story = Story::begin().await;
        story.machine("old", json!({ "template": "small" })).await;
        story.until_phase("old", "Running").await;
        break_virt_api(&story, true).await;

        story.machine("web", json!({ "template": "small" })).await;
        let machine = story.until_reason("web", "KubeVirtApiError").await;
        let words = message(&machine, "Ready");
        assert!(words.contains("failed calling webhook"), "{words}");
        story.wait(30).await;
        let old = story.get("Machine", "old").await;
        assert_eq!(condition(&old, "Ready")["status"], "True");

        break_virt_api(&story, false).await;
        story.until_phase("web", "Running").await;
        story.until_condition("web", "Ready", "True").await;
    });
}

#[test]
fn what_kubevirt_refuses_is_told_in_its_words_and_mended_by_another_spec() {
    tell_with(&[Need::Services], async {
        let story = Story::begin().await;
        let with = |type_: &str| json!({ "machine": { "type": type_ } });
        let spec = json!({ "template": "small", "domain": with("pc-i440fx") });
        story.machine("web", spec).await;
        let machine = story.until_reason("web", "KubeVirtApiError").await;
        assert_eq!(machine["status"]["phase"], "Failed");
        assert_eq!(
            condition(&machine, "VirtualMachineReady")["reason"],
            "VMFailed"
        );
        let words = message(&machine, "VirtualMachineReady");
        assert!(words.contains("is not supported: pc-i440fx"), "{words}");
        story.wait(3600).await;

        story.change("web", json!({ "domain": with("q35") })).await;
        let mended = Instant::now();
        story.until("VirtualMachine", "web", |_| true).await;
        assert!(mended.elapsed() < story.ground.patience_of(2));
        story.until_phase("web", "Running").await;
    });
}

#[test]
fn what_kubevirt_refuses_of_a_running_machine_leaves_it_running() {
    tell_with(&[Need::Services], async {
        let story = Story::begin().await;
        story.machine("web", json!({ "template": "small" })).await;
        story.until_phase("web", "Running").await;
        let refused = json!({ "domain": { "machine": { "type": "pc-i440fx" } } });
        story.change("web", refused).await;
        let machine = story.until_reason("web", "KubeVirtApiError").await;
        assert_eq!(machine["status"]["phase"], "Running");

        story.change("web", json!({ "domain": null })).await;
        story.until_condition("web", "Ready", "True").await;
    });
}

#[test]
fn a_guest_that_crashes_again_and_again_is_failed_until_it_runs() {
    tell_alone(&[], async {
        let fault =
            "[{ kind: VirtualMachineInstance, name: web, fault: CrashLoopBackOff, times: 3 }]";
        let story = Story::begin_with(failing(fault)).await;
        story.machine("web", json!({ "template": "small" })).await;
        let machine = story.until_phase("web", "Failed").await;
        assert_eq!(
            condition(&machine, "VirtualMachineReady")["reason"],
            "VMFailed"
        );
        assert_eq!(condition(&machine, "Ready")["status"], "False");

        story.until_phase("web", "Running").await;
        story.until_condition("web", "Ready", "True").await;
        story.wait(60).await;
        let events = story.events("web").await;
        assert!(events.len() <= 10, "{events:#?}");
    });
}

#[test]
fn a_normal_start_never_looks_like_a_failure() {
    tell(async {
        let story = Story::begin().await;
        let record = story.record(&["Machine"]).await;
        for name in ["one", "two", "three"] {
            story.machine(name, json!({ "template": "small" })).await;
        }
        for name in ["one", "two", "three"] {
            story.until_phase(name, "Running").await;
        }
        let changes = record.changes();
        assert!(changes.len() > 6);
        for machine in changes.iter().map(|change| &change.object) {
            assert_ne!(machine["status"]["phase"], "Failed", "{machine:#}");
            let reason = &condition(machine, "VirtualMachineReady")["reason"];
            assert_ne!(reason, "VMFailed", "{machine:#}");
        }
        for name in ["one", "two", "three"] {
            assert_eq!(story.reasons(name).await, ["Created", "Started"]);
        }
    });
}

#[test]
fn everything_that_is_wrong_with_a_spec_is_told_at_once() {
    tell(async {
        let story = Story::begin().await;
        let spec = json!({
            "template": "smal",
            "disks": [{ "name": "data", "size": "5Gi", "storageClass": "fast" }],
            "networks": [{ "name": "lan", "networkName": "prod" }],
        });
        story.machine("web", spec).await;
        let machine = story.until_phase("web", "Failed").await;
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
    tell(async {
        let story = Story::begin().await;
        let annotations = json!({ "vitistack.io/adopt-disks": "yes" });
        let machine = json!({
            "metadata": { "name": "web", "annotations": annotations },
            "spec": { "template": "small" },
        });
        story.create("Machine", machine).await;
        story.until_condition("web", "Ready", "True").await;
        let machine = story.get("Machine", "web").await;
        let words = message(&machine, "AnnotationsValid");
        assert!(words.contains("adopt-disks"), "{words}");
        story.wait(1).await;
        let reasons = story.reasons("web").await;
        let ignored = reasons.iter().filter(|it| *it == "AnnotationIgnored");
        assert_eq!(ignored.count(), 1, "{reasons:?}");

        let corrected = json!({ "vitistack.io/adopt-disks": "true" });
        let patch = json!({ "metadata": { "annotations": corrected } });
        story.patch("Machine", "web", patch).await;
        story
            .until("Machine", "web", |machine| {
                condition(machine, "AnnotationsValid").is_null()
            })
            .await;
    });
}

/// What is logged, in memory.
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
fn what_is_in_a_secret_is_told_nowhere() {
    tell_in_sandbox("it reads all logs", async {
        const MARKER: &str = "correct-horse-battery-staple";
        let logs = Logs::default();
        let writer = logs.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::TRACE)
            .with_writer(move || writer.clone())
            .finish();
        let _guard = tracing::subscriber::set_default(subscriber);

        let story = Story::begin().await;
        let secret = |marker: &str| {
            json!({
                "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "seed" },
                "stringData": { "userdata": format!("#cloud-config\npassword: {marker}\n") },
            })
        };
        story.give(secret(MARKER)).await;
        // Our own Secret is refused at first.
        story.give(quota(&json!({ "count/secrets": "1" }))).await;
        let spec = json!({ "template": "small", "cloudInit": { "secretRef": { "name": "seed" } } });
        story.machine("web", spec).await;
        story.until_reason("web", "InsufficientResources").await;
        story.give(quota(&json!({ "count/secrets": "5" }))).await;
        story.until_phase("web", "Running").await;
        story.give(secret(&format!("{MARKER}-2"))).await;
        let asked = json!({ "restartedAt": "2026-11-15T12:00:00Z" });
        story.change("web", asked).await;
        story.wait(60).await;
        story.until_phase("web", "Running").await;

        for kind in [
            "Machine",
            "VirtualMachine",
            "VirtualMachineInstance",
            "PersistentVolumeClaim",
            "Pod",
            "Event",
        ] {
            for object in story.list(kind).await {
                let text = object.to_string();
                assert!(!text.contains(MARKER), "{text}");
            }
        }
        let logs = String::from_utf8_lossy(&logs.0.lock().unwrap()).into_owned();
        assert!(logs.contains("web"), "something is logged");
        assert!(!logs.contains(MARKER), "the logs hold a secret");
    });
}

#[test]
fn a_machine_that_fails_for_hours_does_so_quietly() {
    tell_in_sandbox("it takes hours", async {
        let story = Story::begin().await;
        let spec = json!({ "template": "small", "domain": { "machine": { "type": "pc-i440fx" } } });
        story.machine("web", spec).await;
        story.until_reason("web", "KubeVirtApiError").await;
        let before = story.writes("");
        story.wait(2 * 3600).await;
        let tries = story.writes("") - before;
        assert!((20..=50).contains(&tries), "{tries} writes in two hours");
        let events = story.events("web").await;
        assert!(events.len() <= 3, "{events:#?}");
    });
}
