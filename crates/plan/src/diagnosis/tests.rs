//! Causes of Machines, from objects as the API server returns them.

use rstest::rstest;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;

fn decode<T: DeserializeOwned>(value: Value) -> T {
    decode::from_value(value).unwrap()
}

fn time(text: &str) -> Time {
    Time(text.parse().unwrap())
}

fn now() -> Time {
    time("2026-01-01T12:00:00Z")
}

const LONG_AGO: &str = "2026-01-01T10:00:00Z";

/// A Machine with this condition `Ready`, and what surrounds it.
fn observed(status: &str, reason: &str, message: &str) -> Observed {
    Observed {
        machine: decode(json!({
            "apiVersion": "vitistack.io/v1alpha1", "kind": "Machine",
            "metadata": {
                "name": "web", "namespace": "shop", "generation": 1, "uid": "m",
                "creationTimestamp": LONG_AGO,
            },
            "spec": {},
            "status": {
                "phase": "Running", "observedGeneration": 1,
                "conditions": [{
                    "type": "Ready", "status": status, "reason": reason, "message": message,
                    "lastTransitionTime": LONG_AGO,
                }],
            },
        })),
        is_kubevirt_installed: true,
        ..Observed::default()
    }
}

fn running() -> Observed {
    observed("True", "Running", "Running on node-1")
}

fn starting() -> Observed {
    observed("False", "Starting", "the guest starts")
}

impl Observed {
    fn condition(mut self, type_: &str, status: &str, reason: &str) -> Self {
        let condition = json!({
            "type": type_, "status": status, "reason": reason, "message": "as it says",
            "lastTransitionTime": LONG_AGO,
        });
        let status = self.machine.status.as_mut().unwrap();
        status.conditions.as_mut().unwrap().push(decode(condition));
        self
    }

    fn launcher(mut self, status: &Value) -> Self {
        self.launchers.push(decode(json!({
            "metadata": { "name": "virt-launcher-web-abcde", "creationTimestamp": LONG_AGO },
            "spec": { "nodeName": "node-1" }, "status": status,
        })));
        self
    }

    fn node(mut self, ready: &str) -> Self {
        self.nodes.push(decode(json!({
            "metadata": { "name": "node-1" },
            "status": { "conditions": [{ "type": "Ready", "status": ready, "reason": "R", "message": "" }] },
        })));
        self
    }

    fn claim(mut self, phase: &str, capacity: &str) -> Self {
        self.claims.push(decode(json!({
            "metadata": { "name": "web-root", "uid": "c" },
            "spec": { "resources": { "requests": { "storage": "20Gi" } } },
            "status": { "phase": phase, "capacity": { "storage": capacity } },
        })));
        self
    }

    fn event(mut self, kind: &str, name: &str, reason: &str, last: &str) -> Self {
        self.events.push(decode(json!({
            "metadata": { "name": "e" }, "type": "Warning", "reason": reason, "message": "an event",
            "involvedObject": { "kind": kind, "name": name }, "lastTimestamp": last, "count": 2,
        })));
        self
    }

    fn vm(mut self, state: &str, failures: i64) -> Self {
        self.vm = Some(decode(json!({
            "metadata": { "name": "web" }, "spec": {},
            "status": {
                "printableStatus": state, "startFailure": { "consecutiveFailCount": failures },
            },
        })));
        self
    }
}

fn waiting(reason: &str) -> Value {
    json!({ "phase": "Pending", "containerStatuses": [{
        "name": "compute", "image": "registry/launcher", "state": { "waiting": { "reason": reason } },
        "lastState": { "terminated": { "exitCode": 1 } },
    }] })
}

fn unscheduled(message: &str) -> Value {
    json!({ "phase": "Pending", "conditions": [{
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message,
    }] })
}

fn exited(code: i64) -> Value {
    json!({ "phase": "Failed", "containerStatuses": [{
        "name": "compute", "state": { "terminated": { "exitCode": code } },
    }] })
}

fn unready() -> Value {
    json!({ "phase": "Running", "conditions": [{
        "type": "Ready", "status": "False", "reason": "ContainersNotReady", "message": "",
    }] })
}

#[rstest]
#[case::node(starting().launcher(&unready()).node("Unknown"), Cause::NodeNotReady, "Node node-1")]
#[case::unschedulable(starting().launcher(&unscheduled("0/3 nodes")), Cause::Unschedulable, "Pod shop/virt-launcher-web-abcde")]
#[case::image(starting().launcher(&waiting("ImagePullBackOff")).node("True"), Cause::ImagePullFailed, "Pod shop/virt-launcher-web-abcde")]
#[case::restarts(starting().launcher(&waiting("CrashLoopBackOff")).node("True"), Cause::LauncherExited, "Pod shop/virt-launcher-web-abcde")]
#[case::exit(starting().launcher(&exited(137)), Cause::LauncherExited, "Pod shop/virt-launcher-web-abcde")]
#[case::unready(starting().launcher(&unready()).node("True"), Cause::PodNotReady, "Pod shop/virt-launcher-web-abcde")]
#[case::provisioning(starting().claim("Pending", "").event("PersistentVolumeClaim", "web-root", "ProvisioningFailed", LONG_AGO), Cause::ProvisioningFailed, "PersistentVolumeClaim shop/web-root")]
#[case::lost(starting().claim("Lost", ""), Cause::ClaimLost, "PersistentVolumeClaim shop/web-root")]
#[case::crash_loop(starting().vm("CrashLoopBackOff", 3), Cause::GuestCrashLoop, "VirtualMachine shop/web")]
#[case::crashed(
    observed("False", "Crashed", "the guest crashed"),
    Cause::GuestCrashed,
    "VirtualMachine shop/web"
)]
#[case::shut_down(
    observed("False", "GuestShutdown", "from inside"),
    Cause::GuestShutdown,
    "VirtualMachine shop/web"
)]
#[case::not_ready(
    observed("False", "GuestNotReady", "not ready"),
    Cause::GuestNotReady,
    "VirtualMachineInstance shop/web"
)]
#[case::spec(observed("False", "TemplateNotFound", "x").condition("SpecValid", "False", "TemplateNotFound"), Cause::InvalidSpec, "Machine shop/web")]
#[case::data(starting().condition("DataLost", "True", "ClaimGone"), Cause::DataLost, "Machine shop/web")]
#[case::network(starting().condition("NetworkReady", "False", "NetworkPending"), Cause::NetworkNotReady, "Machine shop/web")]
#[case::webhook(
    observed(
        "False",
        "KubeVirtApiError",
        "Internal error occurred: failed calling webhook \"virtualmachine-validator.kubevirt.io\": failed to call webhook: Post \"https://virt-api.kubevirt.svc:443/x\": refused"
    ),
    Cause::VirtApiUnavailable,
    "Service virt-api"
)]
#[case::reported(observed("False", "InsufficientResources", "quota"), Cause::Reported("InsufficientResources".to_owned()), "Machine shop/web")]
fn a_broken_machine_has_its_first_cause(
    #[case] observed: Observed,
    #[case] cause: Cause,
    #[case] object: &str,
) {
    let Diagnosis { verdict, .. } = diagnose(&observed, &now());
    assert_eq!(
        (&verdict.cause, verdict.object.as_str()),
        (&cause, object),
        "{verdict:?}"
    );
    assert_eq!(verdict.severity, Severity::Broken);
    assert_ne!(verdict.remedy, "");
}

#[rstest]
#[case::resize(running().claim("Bound", "10Gi").event("PersistentVolumeClaim", "web-root", "VolumeResizeFailed", LONG_AGO), Some(Cause::ResizeFailed))]
#[case::resized(running().claim("Bound", "20Gi").event("PersistentVolumeClaim", "web-root", "VolumeResizeFailed", LONG_AGO), None)]
#[case::recent_crash(running().event("Machine", "web", "Crashed", "2026-01-01T11:55:00Z"), Some(Cause::GuestCrashed))]
#[case::old_crash(running().event("Machine", "web", "Crashed", LONG_AGO), None)]
#[case::restart(running().condition("RestartRequired", "True", "ChangesPending"), Some(Cause::RestartRequired))]
#[case::boot(running().condition("Bootable", "False", "NothingToBoot"), Some(Cause::NothingToBoot))]
#[case::mac(running().condition("MacAddressShared", "True", "DuplicateMacAddress"), Some(Cause::MacAddressShared))]
#[case::exited_before(running().launcher(&exited(1)).node("True"), None)]
fn what_does_not_keep_the_guest_from_running_is_degraded(
    #[case] observed: Observed,
    #[case] cause: Option<Cause>,
) {
    let Diagnosis { verdict, .. } = diagnose(&observed, &now());
    match cause {
        Some(cause) => assert_eq!(
            (verdict.cause, verdict.severity),
            (cause, Severity::Degraded)
        ),
        None => assert_eq!(
            (verdict.cause, verdict.severity),
            (Cause::Running, Severity::Healthy)
        ),
    }
}

#[test]
fn what_comes_first_in_the_walk_is_the_verdict() {
    let all = observed("False", "Crashed", "the guest crashed")
        .claim("Lost", "")
        .launcher(&unready())
        .node("False");
    let Diagnosis { verdict, others } = diagnose(&all, &now());
    assert_eq!(verdict.cause, Cause::ClaimLost);
    let others: Vec<&Cause> = others.iter().map(|finding| &finding.cause).collect();
    assert_eq!(
        others,
        [
            &Cause::NodeNotReady,
            &Cause::PodNotReady,
            &Cause::GuestCrashed
        ]
    );
}

#[test]
fn operations_are_those_of_the_virtual_machine() {
    let migration = |vm: &str| -> Operation {
        decode(json!({
            "metadata": { "name": "move", "creationTimestamp": LONG_AGO },
            "spec": { "vmiName": vm }, "status": { "phase": "Failed" },
        }))
    };
    let cause = |vm: &str| {
        let observed = Observed {
            migrations: vec![migration(vm)],
            ..running()
        };
        diagnose(&observed, &now()).verdict.cause
    };
    assert_eq!(cause("web"), Cause::MigrationFailed);
    assert_eq!(cause("db"), Cause::Running);
}

#[test]
fn a_young_state_is_on_its_way() {
    let mut young = starting().launcher(&unready()).node("True");
    young.launchers[0].metadata.creation_timestamp = Some(time("2026-01-01T11:59:50Z"));
    let verdict = diagnose(&young, &now()).verdict;
    assert_eq!(
        (verdict.cause, verdict.severity),
        (Cause::Starting, Severity::Progressing)
    );
}

#[test]
fn an_operator_that_does_not_act_is_the_cause() {
    let mut observed = running();
    observed.machine.metadata.generation = Some(2);
    assert_eq!(
        diagnose(&observed, &now()).verdict.cause,
        Cause::NotReconciled
    );
    observed.machine.metadata.creation_timestamp = Some(now());
    assert_eq!(diagnose(&observed, &now()).verdict.cause, Cause::Running);
    observed.machine.spec.provider = Some("proxmox".to_owned());
    assert_eq!(
        diagnose(&observed, &now()).verdict.cause,
        Cause::OtherProvider
    );
}

#[test]
fn a_machine_that_is_to_be_stopped_needs_no_pod() {
    let mut observed = observed("False", "Stopped", "powered off").launcher(&exited(1));
    observed.machine.spec.power_state = Some(api::PowerState::Stopped);
    let verdict = diagnose(&observed, &now()).verdict;
    assert_eq!(
        (verdict.cause, verdict.severity),
        (Cause::Stopped, Severity::Healthy)
    );
}

#[test]
fn a_cluster_without_kubevirt_is_the_cause() {
    let observed = Observed {
        is_kubevirt_installed: false,
        ..starting()
    };
    assert_eq!(
        diagnose(&observed, &now()).verdict.cause,
        Cause::KubeVirtMissing
    );
}

#[test]
fn a_component_without_a_ready_pod_is_named_with_its_reason() {
    let pod: Pod = decode(json!({
        "metadata": {
            "name": "virt-controller-1", "namespace": "kubevirt",
            "labels": { "kubevirt.io": "virt-controller" },
        },
        "status": waiting("ImagePullBackOff"),
    }));
    let observed = Observed {
        components: vec![pod],
        ..starting()
    };
    let verdict = diagnose(&observed, &now()).verdict;
    assert_eq!(verdict.cause, Cause::KubeVirtNotReady);
    assert_eq!(verdict.object, "Pod kubevirt/virt-controller-1");
    assert!(verdict.message.contains("ImagePullBackOff"), "{verdict:?}");
}

#[test]
fn the_walk_goes_from_the_machine_to_its_node() {
    let observed = running()
        .claim("Bound", "20Gi")
        .vm("Running", 0)
        .launcher(&unready())
        .node("True");
    let kinds: Vec<&str> = walk(&observed).iter().map(|link| link.kind).collect();
    assert_eq!(
        kinds,
        [
            "Machine",
            "PersistentVolumeClaim",
            "VirtualMachine",
            "Pod",
            "Node"
        ]
    );
}
