//! What a VM's run strategy asks for, given its guest and the requests to start or stop it.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::edit::hash;
use crate::{
    Speed, Step,
    object::{is_deleted, list, number, text, time, truth, uid},
};

/// The longest wait after a failed start.
const MAX_BACKOFF: u64 = 300;
/// The wait after the first failed start.
const BACKOFF: u64 = 10;

/// What is to be done about a VM's guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing.
    Nothing,
    /// Create a VMI.
    Start,
    /// Create a VMI, though not before this instant.
    StartAfter(Timestamp),
    /// Delete the VMI.
    Stop,
    /// Delete the VMI, and ask for a new one.
    StopAndRequestStart,
    /// Let the VM run from now on: it was asked to start while it is halted.
    RunAlways,
    /// The strategy is none that is known.
    Unknown,
}

/// `spec.runStrategy`, or what `spec.running` says in its words.
pub fn strategy(vm: &Value) -> &str {
    match text(vm, "/spec/runStrategy") {
        "" if truth(vm, "/spec/running") => "Always",
        "" => "Halted",
        strategy => strategy,
    }
}

/// Decides by the VM's run strategy.
pub fn action(vm: &Value, vmi: Option<&Value>, now: Timestamp) -> Action {
    let Some(vmi) = vmi else {
        return action_without_guest(vm, now);
    };
    let stops = match strategy(vm) {
        "Always" | "RerunOnFailure" => asks_to_stop(vm, vmi) || is_final(vmi),
        "Manual" => asks_to_stop(vm, vmi),
        "Halted" => true,
        "Once" => false,
        _ => return Action::Unknown,
    };
    if !stops || is_deleted(vmi) {
        Action::Nothing
    } else if strategy(vm) == "RerunOnFailure" && text(vmi, "/status/phase") == "Failed" {
        Action::StopAndRequestStart
    } else {
        Action::Stop
    }
}

fn action_without_guest(vm: &Value, now: Timestamp) -> Action {
    let starts = match strategy(vm) {
        "Always" | "Once" => true,
        "RerunOnFailure" => starts_rerun(vm),
        "Manual" => asks_to_start(vm),
        "Halted" if asks_to_start(vm) => return Action::RunAlways,
        "Halted" => false,
        _ => return Action::Unknown,
    };
    let backs_off = matches!(strategy(vm), "Always" | "RerunOnFailure");
    match time(vm, "/status/startFailure/retryAfterTimestamp").filter(|_| backs_off) {
        _ if !starts => Action::Nothing,
        Some(retry) if retry.as_second() > now.as_second() => Action::StartAfter(retry),
        _ => Action::Start,
    }
}

/// Whether the VM is meant to have a guest.
pub fn is_set_to_start(vm: &Value, vmi: Option<&Value>) -> bool {
    match (strategy(vm), vmi) {
        ("Always", _) | ("Once", None) => true,
        ("Manual", Some(vmi)) => !asks_to_stop(vm, vmi),
        ("Manual", None) => asks_to_start(vm),
        ("RerunOnFailure", Some(vmi)) => text(vmi, "/status/phase") != "Succeeded",
        ("RerunOnFailure", None) => starts_rerun(vm),
        _ => false,
    }
}

/// Whether a strategy starts a guest again that failed.
pub fn restarts(vm: &Value) -> bool {
    matches!(strategy(vm), "Always" | "RerunOnFailure" | "Once")
}

/// Whether a VMI has come to its end.
pub fn is_final(vmi: &Value) -> bool {
    matches!(text(vmi, "/status/phase"), "Succeeded" | "Failed")
}

/// Whether the first request of the VM is to start.
pub fn asks_to_start(vm: &Value) -> bool {
    first_request(vm).is_some_and(|request| text(request, "/action") == "Start")
}

/// Whether the first request of the VM is to start with the guest paused.
pub fn asks_to_start_paused(vm: &Value) -> bool {
    asks_to_start(vm)
        && first_request(vm).is_some_and(|request| text(request, "/data/paused") == "true")
}

/// Whether the first request of the VM has been met and can be forgotten.
pub fn first_request_is_met(vm: &Value, vmi: Option<&Value>) -> bool {
    let Some(request) = first_request(vm) else {
        return false;
    };
    match (text(request, "/action"), vmi) {
        ("Stop", None) => true,
        ("Stop", Some(vmi)) => text(request, "/uid") != uid(vmi),
        ("Start", Some(vmi)) => !is_deleted(vmi) && !is_final(vmi),
        _ => false,
    }
}

/// How long to wait after so many failed starts. Up to half of it is added by chance, so that VMs
/// that failed together do not start together: the uid of the VMI decides on it.
pub fn backoff(failures: i64, vmi: &Value, speed: Speed) -> Duration {
    let failures = u64::try_from(failures).unwrap_or(1).max(1);
    let delay = failures.saturating_mul(failures).saturating_mul(BACKOFF);
    let delay = delay.saturating_add(hash(uid(vmi)) % (delay / 2 + 1));
    // At no speed may a VM that cannot start keep everything else busy.
    speed
        .of(Step::seconds(delay.min(MAX_BACKOFF)))
        .max(Duration::from_secs(1))
}

/// How often the VM failed to start without a success between.
pub fn failures(vm: &Value) -> i64 {
    number(vm, "/status/startFailure/consecutiveFailCount").unwrap_or_default()
}

fn starts_rerun(vm: &Value) -> bool {
    asks_to_start(vm) || text(vm, "/status/runStrategy") != strategy(vm)
}

fn asks_to_stop(vm: &Value, vmi: &Value) -> bool {
    first_request(vm).is_some_and(|request| {
        text(request, "/action") == "Stop" && text(request, "/uid") == uid(vmi)
    })
}

fn first_request(vm: &Value) -> Option<&Value> {
    list(vm, "/status/stateChangeRequests").first()
}
