//! Container statuses. All containers of a pod are in the same state.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::object::{list, number, seconds, text, time, truth, uid};

/// State of a pod's containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// No status written yet.
    New,
    Creating,
    PullBackOff,
    /// With the start time.
    Running(Option<Timestamp>),
    /// Crashed, to be restarted after the back-off.
    CrashBackOff,
    /// Terminated for good.
    Ended,
}

/// State of the containers, from the status last written.
pub(super) fn stage(pod: &Value) -> Stage {
    let Some(first) = list(pod, "/status/containerStatuses").first() else {
        return Stage::New;
    };
    if first.pointer("/state/running").is_some() {
        return Stage::Running(time(first, "/state/running/startedAt"));
    }
    if first.pointer("/state/terminated").is_some() {
        return Stage::Ended;
    }
    match text(first, "/state/waiting/reason") {
        "ImagePullBackOff" | "ErrImagePull" => Stage::PullBackOff,
        "CrashLoopBackOff" => Stage::CrashBackOff,
        _ => Stage::Creating,
    }
}

/// A container runtime's error for an image that its registry does not have.
pub(super) fn not_found(image: &str) -> String {
    format!(
        "rpc error: code = NotFound desc = failed to pull and unpack image {image:?}: failed to \
         resolve reference {image:?}: {image}: not found"
    )
}

pub(super) fn restarts(pod: &Value) -> i64 {
    list(pod, "/status/containerStatuses")
        .first()
        .and_then(|status| number(status, "/restartCount"))
        .unwrap_or_default()
}

pub(super) fn are_ready(pod: &Value) -> bool {
    let statuses = list(pod, "/status/containerStatuses");
    !statuses.is_empty() && statuses.iter().all(|status| truth(status, "/ready"))
}

/// State to show in the container statuses.
#[derive(Clone, Copy, Debug)]
pub(super) enum Shown {
    Creating,
    PullBackOff,
    Running { is_ready: bool, is_restart: bool },
    CrashBackOff { code: i64 },
    Ended { code: i64 },
}

pub(super) fn statuses(pod: &Value, shown: Shown, now: Timestamp) -> Vec<Value> {
    let old = list(pod, "/status/containerStatuses");
    let containers = list(pod, "/spec/containers").iter();
    containers
        .map(|container| {
            let name = text(container, "/name");
            let old = old
                .iter()
                .find(|status| text(status, "/name") == name)
                .unwrap_or(&Value::Null);
            status(pod, container, old, shown, now)
        })
        .collect()
}

fn status(pod: &Value, container: &Value, old: &Value, shown: Shown, now: Timestamp) -> Value {
    let name = text(container, "/name");
    let image = text(container, "/image");
    let id = format!("containerd://{}-{name}", uid(pod));
    let mut restarts = number(old, "/restartCount").unwrap_or_default();
    let mut last = old.get("lastState").cloned().unwrap_or_else(|| json!({}));
    let ended = |code: i64| {
        let started = old.pointer("/state/running/startedAt").cloned();
        json!({"terminated": {
            "exitCode": code,
            "reason": if code == 0 { "Completed" } else { "Error" },
            "startedAt": started.unwrap_or_else(|| seconds(now).into()),
            "finishedAt": seconds(now),
            "containerID": id,
        }})
    };
    let waiting = |reason: &str, message: Option<String>| match message {
        Some(message) => json!({"waiting": {"reason": reason, "message": message}}),
        None => json!({"waiting": {"reason": reason}}),
    };
    let (state, is_started, is_ready) = match shown {
        Shown::Creating => (waiting("ContainerCreating", None), false, false),
        Shown::PullBackOff => {
            let why = not_found(image);
            let message = format!("Back-off pulling image {image:?}: ErrImagePull: {why}");
            (waiting("ImagePullBackOff", Some(message)), false, false)
        }
        Shown::Running {
            is_ready,
            is_restart,
        } => {
            let running = old
                .pointer("/state/running")
                .filter(|_| !is_restart)
                .cloned();
            if is_restart {
                restarts += 1;
            }
            let running = running.unwrap_or_else(|| json!({"startedAt": seconds(now)}));
            (json!({"running": running}), true, is_ready)
        }
        Shown::CrashBackOff { code } => {
            last = ended(code);
            let message = format!("back-off restarting failed container={name}");
            (waiting("CrashLoopBackOff", Some(message)), false, false)
        }
        Shown::Ended { code } => (ended(code), false, false),
    };
    let is_made = !matches!(shown, Shown::Creating | Shown::PullBackOff);
    let mut status = json!({
        "name": name,
        "image": image,
        "imageID": if is_made { image } else { "" },
        "restartCount": restarts,
        "started": is_started,
        "ready": is_ready,
        "state": state,
        "lastState": last,
    });
    if is_made {
        status["containerID"] = id.into();
    }
    status
}

/// Statuses of the init containers, which are complete once the pod runs.
pub(super) fn init_statuses(pod: &Value, are_done: bool, now: Timestamp) -> Vec<Value> {
    let old = list(pod, "/status/initContainerStatuses");
    let containers = list(pod, "/spec/initContainers").iter();
    containers
        .map(|container| {
            let (name, image) = (text(container, "/name"), text(container, "/image"));
            let done = old.iter().find(|status| {
                text(status, "/name") == name && status.pointer("/state/waiting").is_none()
            });
            if let Some(done) = done {
                return done.clone();
            }
            let at = seconds(now);
            let is_sidecar = text(container, "/restartPolicy") == "Always";
            let state = match (are_done, is_sidecar) {
                (false, _) => json!({"waiting": {"reason": "PodInitializing"}}),
                (true, true) => json!({"running": {"startedAt": at}}),
                (true, false) => json!({"terminated": {
                    "exitCode": 0, "reason": "Completed", "startedAt": at, "finishedAt": at,
                }}),
            };
            json!({
                "name": name,
                "image": image,
                "imageID": if are_done { image } else { "" },
                "restartCount": 0,
                "started": are_done && is_sidecar,
                "ready": are_done,
                "state": state,
                "lastState": {},
            })
        })
        .collect()
}
