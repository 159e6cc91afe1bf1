//! Run strategies: whether to start or stop a VM's guest.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::edit::hash;
use crate::{
    Speed, Step,
    object::{is_deleted, list, number, text, time, truth, uid},
};

/// In seconds.
const MAX_BACKOFF: u64 = 300;
/// Backoff after the first failed start, in seconds.
const BACKOFF: u64 = 10;

/// Action on a VM's guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    Nothing,
    /// Create a VMI.
    Start,
    /// Create a VMI, not before this time.
    StartAfter(Timestamp),
    /// Delete the VMI.
    Stop,
    /// Delete the VMI and request a start.
    StopAndRequestStart,
    /// Set the run strategy to Always: a start was requested while it is Halted.
    RunAlways,
    /// Unknown run strategy.
    Unknown,
}

/// `spec.runStrategy`, or its equivalent for `spec.running`.
pub fn strategy(vm: &Value) -> &str {
    match text(vm, "/spec/runStrategy") {
        "" if truth(vm, "/spec/running") => "Always",
        "" => "Halted",
        strategy => strategy,
    }
}

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

/// Whether the VM should have a guest.
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

/// Whether the strategy restarts a failed guest.
pub fn restarts(vm: &Value) -> bool {
    matches!(strategy(vm), "Always" | "RerunOnFailure" | "Once")
}

/// Whether a VMI is in a final phase.
pub fn is_final(vmi: &Value) -> bool {
    matches!(text(vmi, "/status/phase"), "Succeeded" | "Failed")
}

/// Whether the first state change request is a start.
pub fn asks_to_start(vm: &Value) -> bool {
    first_request(vm).is_some_and(|request| text(request, "/action") == "Start")
}

/// Whether the first state change request is a start with the guest paused.
pub fn asks_to_start_paused(vm: &Value) -> bool {
    asks_to_start(vm)
        && first_request(vm).is_some_and(|request| text(request, "/data/paused") == "true")
}

/// Whether the first state change request is fulfilled and can be removed.
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

/// Backoff after this many failed starts, plus up to half of it as jitter derived from the UID of
/// the VMI.
pub fn backoff(failures: i64, vmi: &Value, speed: Speed) -> Duration {
    let failures = u64::try_from(failures).unwrap_or(1).max(1);
    let delay = failures.saturating_mul(failures).saturating_mul(BACKOFF);
    let delay = delay.saturating_add(hash(uid(vmi)) % (delay / 2 + 1));
    // Not scaled below this: a VM that cannot start must not become a busy loop.
    speed
        .of(Step::seconds(delay.min(MAX_BACKOFF)))
        .max(Duration::from_secs(1))
}

/// Number of consecutive failed starts.
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
