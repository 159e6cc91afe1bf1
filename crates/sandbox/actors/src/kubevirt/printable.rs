//! `status.printableStatus`, which `kubectl get vm` shows.

use serde_json::Value;

use super::{
    live_update::is_migrating,
    run::{self, is_final},
    storage::{self, has_failed, is_provisioning},
};
use crate::{
    Caches,
    object::{condition, is_deleted, is_true, list, namespace, text},
};

/// `status.printableStatus`: the first status in KubeVirt's order that applies. `stopping` means
/// that the VMI was deleted in this reconcile and does not show it yet.
pub fn printable_status(
    vm: &Value,
    vmi: Option<&Value>,
    caches: &Caches,
    stopping: bool,
) -> &'static str {
    let phase = vmi.map_or("", |vmi| text(vmi, "/status/phase"));
    let running = phase == "Running";
    let paused = vmi.is_some_and(|vmi| is_true(vmi, "Paused"));
    let volumes = list(vm, "/spec/template/spec/volumes");
    let data_volumes = || storage::data_volumes(caches, namespace(vm), volumes);
    let unsynchronized = |reason: &str| is_false_for(vmi, "Synchronized", reason);
    if is_deleted(vm) {
        return "Terminating";
    }
    if vmi.is_some_and(|vmi| !is_final(vmi) && (stopping || is_deleted(vmi))) {
        return "Stopping";
    }
    if vmi.is_some_and(is_migrating) {
        return "Migrating";
    }
    if running && paused {
        return "Paused";
    }
    if running {
        return "Running";
    }
    if unsynchronized("FailedPvcNotFound") {
        return "ErrorPvcNotFound";
    }
    if data_volumes().any(|volume| has_failed(volume)) {
        return "DataVolumeError";
    }
    if is_false_for(vmi, "PodScheduled", "Unschedulable") {
        return "ErrorUnschedulable";
    }
    if data_volumes().any(|volume| is_provisioning(volume)) {
        return "Provisioning";
    }
    if run::is_set_to_start(vm, vmi) && has_unbound_claim(vm, caches) {
        return "WaitingForVolumeBinding";
    }
    if unsynchronized("ErrImagePull") {
        return "ErrImagePull";
    }
    if unsynchronized("ImagePullBackOff") {
        return "ImagePullBackOff";
    }
    match (vmi, phase) {
        (Some(_), "" | "Pending" | "Scheduling" | "Scheduled") => "Starting",
        (None, _) | (Some(_), "Succeeded" | "Failed") => {
            if run::failures(vm) > 0 && run::restarts(vm) {
                "CrashLoopBackOff"
            } else {
                "Stopped"
            }
        }
        _ => "Unknown",
    }
}

fn is_false_for(vmi: Option<&Value>, of_type: &str, reason: &str) -> bool {
    vmi.and_then(|vmi| condition(vmi, of_type))
        .is_some_and(|condition| {
            text(condition, "/status") == "False" && text(condition, "/reason") == reason
        })
}

fn has_unbound_claim(vm: &Value, caches: &Caches) -> bool {
    storage::claims(
        caches,
        namespace(vm),
        list(vm, "/spec/template/spec/volumes"),
    )
    .filter_map(|(_, claim)| claim)
    .any(|claim| text(claim, "/status/phase") != "Bound")
}
