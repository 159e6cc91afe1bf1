//! The part of a VMI's status that virt-controller writes, phase by phase.

use serde_json::{Value, json};

use super::SECRET;
use crate::{
    Caches, Context,
    kubevirt::{
        amount::{bytes, units},
        defaults::vcpus,
        edit::{
            hash, label, new_condition, probed, put_condition, remove, remove_condition,
            remove_finalizer, set,
        },
        hotplug, interfaces,
        launcher::{self, is_terminating, pods},
        names::{
            CONTROLLER_FINALIZER, FOREGROUND_FINALIZER, NODE_LABEL, OVERHEAD_ANNOTATION, VM, VMI,
        },
        storage::{self, has_failed},
    },
    object::{
        Object, annotation, condition, controller_key, is_deleted, is_true, list, namespace,
        number, seconds, text, uid,
    },
};

/// The VMI with its next status, from its pod and the result of creating one.
pub(super) fn describe(
    ctx: &mut Context<'_>,
    vmi: &Object,
    pod: Option<&Object>,
    mut problem: Option<(String, String)>,
) -> Value {
    let mut next = Value::clone(vmi);
    let phase = text(vmi, "/status/phase").to_owned();
    show_pods(&mut next, ctx.caches, &phase);
    let ready = ready_condition(ctx, vmi, pod);
    put_condition(&mut next, ready);
    if let Some(pod) = pod {
        show_launcher(&mut next, pod);
    }
    show_data_volumes(&mut next, ctx.caches);
    match phase.as_str() {
        "Pending" => pending(ctx.caches, &mut next, pod, problem.as_ref()),
        "Scheduling" => scheduling(ctx.caches, &mut next, pod, &mut problem),
        "Scheduled" | "Running" => {
            describe_running(ctx.caches, &mut next, pod, &phase);
            if phase == "Running" {
                interfaces::require_migration(ctx, &mut next);
            }
            return next;
        }
        _ => ended(ctx.caches, &mut next),
    }
    match problem {
        Some((reason, message)) if condition(&next, "Synchronized").is_none() => {
            let condition =
                new_condition("Synchronized", "False", &reason, &message, Some(ctx.now));
            put_condition(&mut next, condition);
        }
        Some(_) => {}
        None => remove_condition(&mut next, "Synchronized"),
    }
    record_phase(&mut next, &phase, &seconds(ctx.now));
    next
}

/// Records the time of a new phase.
pub(in crate::kubevirt) fn record_phase(next: &mut Value, before: &str, now: &str) {
    let phase = text(next, "/status/phase").to_owned();
    if phase == before {
        return;
    }
    let mut transitions = list(next, "/status/phaseTransitionTimestamps").to_vec();
    transitions.retain(|transition| text(transition, "/phase") != phase);
    transitions.push(json!({ "phase": phase, "phaseTransitionTimestamp": now }));
    set(next, "/status/phaseTransitionTimestamps", transitions);
}

fn show_pods(next: &mut Value, caches: &Caches, phase: &str) {
    let active: serde_json::Map<String, Value> = pods(caches, next)
        .filter(|pod| !matches!(text(pod, "/status/phase"), "Succeeded" | "Failed"))
        .map(|pod| (uid(pod).to_owned(), text(pod, "/spec/nodeName").into()))
        .collect();
    let handed_over = matches!(phase, "Scheduled" | "Running");
    if active.is_empty() && !handed_over {
        remove(next, "/status/activePods");
    } else {
        set(next, "/status/activePods", active);
    }
}

fn ready_condition(ctx: &mut Context<'_>, vmi: &Object, pod: Option<&Object>) -> Value {
    let now = ctx.now;
    let not_ready = |reason: &str, message: &str| {
        probed(new_condition("Ready", "False", reason, message, Some(now)))
    };
    let Some(pod) = pod else {
        return not_ready(
            "PodNotExists",
            "virt-launcher pod has not yet been scheduled",
        );
    };
    if is_terminating(pod) {
        return not_ready("PodTerminating", "virt-launcher pod is terminating");
    }
    if text(vmi, "/status/phase") != "Running" {
        return not_ready("GuestNotRunning", "Guest VM is not reported as running");
    }
    if is_true(vmi, "Paused") {
        return not_ready(
            "ReadinessGatesNotReady",
            "the status of pod readiness gate \"kubevirt.io/virtual-machine-unpaused\" is not \
             \"True\", but False",
        );
    }
    if ctx.fault(VMI, vmi, "NeverReady").is_some() {
        return not_ready(
            "ContainersNotReady",
            "containers with unready status: [compute]",
        );
    }
    let Some(of_pod) = condition(pod, "Ready") else {
        return not_ready(
            "PodConditionMissing",
            "virt-launcher pod is missing the Ready condition",
        );
    };
    let mut ready = new_condition(
        "Ready",
        text(of_pod, "/status"),
        text(of_pod, "/reason"),
        text(of_pod, "/message"),
        None,
    );
    let since = of_pod
        .get("lastTransitionTime")
        .cloned()
        .unwrap_or_default();
    set(&mut ready, "/lastTransitionTime", since);
    ready
}

fn show_launcher(next: &mut Value, pod: &Value) {
    let image = list(pod, "/spec/containers")
        .iter()
        .find(|container| text(container, "/name") == "compute")
        .map_or("", |container| text(container, "/image"));
    set(next, "/status/launcherContainerImageVersion", image);
    let overhead = annotation(pod, OVERHEAD_ANNOTATION).and_then(|bytes| bytes.parse().ok());
    if let Some(overhead) = overhead {
        set(next, "/status/memory/memoryOverhead", bytes(overhead));
    }
}

fn show_data_volumes(next: &mut Value, caches: &Caches) {
    let volumes = list(next, "/spec/volumes").to_vec();
    let statuses: Vec<&str> = storage::data_volumes(caches, namespace(next), &volumes)
        .map(|volume| condition(volume, "Ready").map_or("Unknown", |ready| text(ready, "/status")))
        .collect();
    if statuses.is_empty() {
        return;
    }
    let status = ["False", "Unknown"]
        .into_iter()
        .find(|status| statuses.contains(status))
        .unwrap_or("True");
    let (reason, message) = if status == "True" {
        ("AllDVsReady", "All of the VMI's DVs are bound and ready")
    } else {
        ("NotAllDVsReady", "Not all of the VMI's DVs are ready")
    };
    put_condition(
        next,
        new_condition("DataVolumesReady", status, reason, message, None),
    );
}

fn pending(
    caches: &Caches,
    next: &mut Value,
    pod: Option<&Object>,
    problem: Option<&(String, String)>,
) {
    let volumes = list(next, "/spec/volumes").to_vec();
    let failed = storage::data_volumes(caches, namespace(next), &volumes)
        .any(|volume| has_failed(volume) && text(volume, "/status/phase") == "Failed");
    if pod.is_some() {
        set(next, "/status/phase", "Scheduling");
    } else if is_deleted(next) || failed {
        set(next, "/status/phase", "Failed");
    } else if let Some((reason, message)) = problem
        && reason == "FailedPvcNotFound"
    {
        // KubeVirt removes and adds the condition again, so it becomes the last one.
        remove_condition(next, "PodScheduled");
        let condition = new_condition("PodScheduled", "False", "Unschedulable", message, None);
        put_condition(next, condition);
    }
}

fn scheduling(
    caches: &Caches,
    next: &mut Value,
    pod: Option<&Object>,
    problem: &mut Option<(String, String)>,
) {
    let Some(pod) = pod else {
        set(next, "/status/phase", "Failed");
        return;
    };
    let class = text(pod, "/status/qosClass");
    if class.is_empty() {
        remove(next, "/status/qosClass");
    } else {
        set(next, "/status/qosClass", class);
    }
    match condition(pod, "PodScheduled") {
        Some(scheduled) if text(scheduled, "/status") == "False" => {
            let mut condition = scheduled.clone();
            if condition.get("lastProbeTime").is_none() {
                set(&mut condition, "/lastProbeTime", Value::Null);
            }
            put_condition(next, condition);
        }
        _ => remove_condition(next, "PodScheduled"),
    }
    if let Some(image_problem) = image_problem(pod) {
        *problem = Some(image_problem);
    }
    if is_ready(caches, next, pod) && !is_deleted(next) {
        hand_over(caches, next, pod);
    } else if is_terminating(pod) {
        set(next, "/status/phase", "Failed");
    }
}

/// Whether a pod is ready. It is not while a Secret that it mounts is missing.
fn is_ready(caches: &Caches, vmi: &Value, pod: &Value) -> bool {
    let mounted = list(vmi, "/spec/volumes")
        .iter()
        .flat_map(launcher::secrets)
        .all(|(_, secret)| caches.find(SECRET, namespace(vmi), secret).is_some());
    mounted && !is_terminating(pod) && is_true(pod, "Ready")
}

fn image_problem(pod: &Value) -> Option<(String, String)> {
    list(pod, "/status/containerStatuses")
        .iter()
        .filter_map(|status| status.pointer("/state/waiting"))
        .map(|waiting| (text(waiting, "/reason"), text(waiting, "/message")))
        .find(|(reason, _)| matches!(*reason, "ErrImagePull" | "ImagePullBackOff"))
        .map(|(reason, message)| (reason.to_owned(), message.to_owned()))
}

/// Hands the VMI over to virt-handler.
fn hand_over(caches: &Caches, next: &mut Value, pod: &Value) {
    let volumes = list(next, "/spec/volumes").to_vec();
    let statuses = storage::volume_statuses(caches, namespace(next), &volumes);
    if !statuses.is_empty() {
        set(next, "/status/volumeStatus", statuses);
    }
    let interfaces: Vec<Value> = list(next, "/spec/domain/devices/interfaces")
        .iter()
        .map(|interface| {
            let network = text(interface, "/name");
            let name = pod_interface(next, network);
            json!({ "name": network, "podInterfaceName": name })
        })
        .collect();
    if !interfaces.is_empty() {
        set(next, "/status/interfaces", interfaces);
    }
    let node = text(pod, "/spec/nodeName");
    label(next, NODE_LABEL, node);
    set(next, "/status/nodeName", node);
    set(next, "/status/migrationTransport", "Unix");
    set(next, "/status/phase", "Scheduled");
}

/// The pod network's interface is `eth0`; others are named after a hash.
pub(in crate::kubevirt) fn pod_interface(vmi: &Value, network: &str) -> String {
    let of_pod = list(vmi, "/spec/networks")
        .iter()
        .any(|candidate| text(candidate, "/name") == network && candidate.get("pod").is_some());
    if of_pod {
        "eth0".to_owned()
    } else {
        format!("pod{:011x}", hash(network) & 0xfff_ffff_ffff)
    }
}

fn describe_running(caches: &Caches, next: &mut Value, pod: Option<&Object>, phase: &str) {
    if pod.is_none() {
        set(next, "/status/phase", "Failed");
        return;
    }
    let volumes = list(next, "/spec/volumes").to_vec();
    let mut statuses = storage::volume_statuses(caches, namespace(next), &volumes);
    for status in &mut statuses {
        // Keep the device names that virt-handler has reported.
        let shown = list(next, "/status/volumeStatus")
            .iter()
            .find(|shown| text(shown, "/name") == text(status, "/name"));
        if let Some(target) = shown.and_then(|shown| shown.get("target")) {
            set(status, "/target", target.clone());
        }
    }
    hotplug::show(caches, next, &mut statuses);
    if !statuses.is_empty() {
        set(next, "/status/volumeStatus", statuses);
    }
    if phase != "Running" {
        return;
    }
    let sockets = vcpus(next.pointer("/spec/domain/cpu").unwrap_or(&Value::Null));
    let shown = next.pointer("/status/currentCPUTopology").map(vcpus);
    let room = number(next, "/spec/domain/cpu/maxSockets").unwrap_or_default() > 0;
    if room && shown.is_some_and(|shown| shown != sockets) {
        begin_change(next, "HotVCPUChange");
    }
    let guest = units(next, "/spec/domain/memory/guest");
    let requested = units(next, "/status/memory/guestRequested");
    let room = units(next, "/spec/domain/memory/maxGuest").is_some();
    if room && guest.is_some() && requested.is_some() && guest != requested {
        begin_change(next, "HotMemoryChange");
    }
}

fn begin_change(next: &mut Value, of_type: &str) {
    if condition(next, of_type).is_none() {
        put_condition(next, new_condition(of_type, "True", "", "", None));
    }
}

fn ended(caches: &Caches, next: &mut Value) {
    if pods(caches, next).next().is_none() {
        remove_finalizer(next, FOREGROUND_FINALIZER);
        remove(next, "/status/launcherContainerImageVersion");
    }
    let owner = controller_key(next, VM).and_then(|key| caches.get(VM, &key));
    if owner.is_none() {
        remove_finalizer(next, CONTROLLER_FINALIZER);
    }
}
