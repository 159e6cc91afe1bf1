//! Pod printer. The status column is derived from the container states.

use jiff::Timestamp;
use serde_json::Value;

use super::{AGE, Column, NAME, Row, age};
use crate::value::{at, flag, has, int, list, text};

pub(super) const COLUMNS: &[Column] = &[
    NAME,
    Column::text("Ready", "How many containers are ready"),
    Column::text("Status", "What it does, or what it waits for"),
    Column::text("Restarts", "How often its containers were restarted"),
    AGE,
    Column::text("IP", "Its address").wide(),
    Column::text("Node", "Where it runs").wide(),
    Column::text("Nominated Node", "Where it may run once there is room").wide(),
    Column::text("Readiness Gates", "How many further conditions are met").wide(),
];

pub(super) fn cells(row: Row<'_>) -> Vec<Value> {
    let summary = summary(row);
    let restarts = match (summary.restarts, summary.last_restart) {
        (0, _) | (_, None) => summary.restarts.to_string(),
        (count, last) => format!("{count} ({} ago)", age(last, row.now)),
    };
    let ip = list(row.object, "status.podIPs")
        .first()
        .map_or("", |ip| text(ip, "ip"));
    vec![
        row.name(),
        format!("{}/{}", summary.ready, summary.total).into(),
        summary.word.into(),
        restarts.into(),
        row.age(),
        if ip.is_empty() {
            "<none>".into()
        } else {
            ip.into()
        },
        row.or("spec.nodeName", "<none>"),
        row.or("status.nominatedNodeName", "<none>"),
        readiness_gates(row).into(),
    ]
}

struct Summary {
    word: String,
    ready: usize,
    total: usize,
    restarts: i64,
    last_restart: Option<Timestamp>,
}

impl Summary {
    fn count_restarts(&mut self, container: &Value) {
        self.restarts += int(container, "restartCount");
        let finished = at(container, "lastState.terminated.finishedAt").as_str();
        let finished = finished.and_then(|time| time.parse().ok());
        self.last_restart = self.last_restart.max(finished);
    }
}

fn summary(row: Row<'_>) -> Summary {
    let pod = row.object;
    let sidecars: Vec<&str> = list(pod, "spec.initContainers")
        .iter()
        .filter(|container| text(container, "restartPolicy") == "Always")
        .map(|container| text(container, "name"))
        .collect();
    let mut word = match text(pod, "status.reason") {
        "" => text(pod, "status.phase"),
        reason => reason,
    };
    let gated = |condition: &Value| {
        text(condition, "type") == "PodScheduled" && text(condition, "reason") == "SchedulingGated"
    };
    if list(pod, "status.conditions").iter().any(gated) {
        word = "SchedulingGated";
    }
    let mut summary = Summary {
        word: word.to_owned(),
        ready: 0,
        total: list(pod, "spec.containers").len() + sidecars.len(),
        restarts: 0,
        last_restart: None,
    };
    let initializing = init_containers(row, &sidecars, &mut summary);
    if !initializing || row.condition("Initialized") == "True" {
        containers(row, &sidecars, &mut summary);
    }
    let ended = matches!(text(pod, "status.phase"), "Succeeded" | "Failed");
    if row.is_deleted() && text(pod, "status.reason") == "NodeLost" {
        "Unknown".clone_into(&mut summary.word);
    } else if row.is_deleted() && !ended {
        "Terminating".clone_into(&mut summary.word);
    }
    summary
}

/// Whether an init container has not completed yet.
fn init_containers(row: Row<'_>, sidecars: &[&str], summary: &mut Summary) -> bool {
    let total = list(row.object, "spec.initContainers").len();
    for (index, container) in list(row.object, "status.initContainerStatuses")
        .iter()
        .enumerate()
    {
        summary.count_restarts(container);
        let terminated = has(container, "state.terminated");
        if terminated && int(container, "state.terminated.exitCode") == 0 {
            continue;
        }
        if sidecars.contains(&text(container, "name")) && flag(container, "started") {
            summary.ready += usize::from(flag(container, "ready"));
            continue;
        }
        let waiting = text(container, "state.waiting.reason");
        summary.word = if terminated {
            format!("Init:{}", end(container))
        } else if !matches!(waiting, "" | "PodInitializing") {
            format!("Init:{waiting}")
        } else {
            format!("Init:{index}/{total}")
        };
        return true;
    }
    false
}

fn containers(row: Row<'_>, sidecars: &[&str], summary: &mut Summary) {
    summary.restarts = 0;
    summary.last_restart = None;
    for container in list(row.object, "status.initContainerStatuses") {
        if sidecars.contains(&text(container, "name")) {
            summary.count_restarts(container);
        }
    }
    let mut running = false;
    let mut error = None;
    for container in list(row.object, "status.containerStatuses").iter().rev() {
        summary.count_restarts(container);
        let waiting = text(container, "state.waiting.reason");
        if !waiting.is_empty() {
            waiting.clone_into(&mut summary.word);
        } else if has(container, "state.terminated") {
            summary.word = end(container);
            if int(container, "state.terminated.exitCode") != 0 {
                error = Some(summary.word.clone());
            }
        } else if flag(container, "ready") && has(container, "state.running") {
            running = true;
            summary.ready += 1;
        }
    }
    if summary.word == "Completed" {
        match error {
            _ if running && row.condition("Ready") == "True" => {
                "Running".clone_into(&mut summary.word);
            }
            Some(error) => summary.word = error,
            None if running => "NotReady".clone_into(&mut summary.word),
            None => {}
        }
    }
}

/// Reason of a terminated container.
fn end(container: &Value) -> String {
    let reason = text(container, "state.terminated.reason");
    match int(container, "state.terminated.signal") {
        _ if !reason.is_empty() => reason.to_owned(),
        0 => format!("ExitCode:{}", int(container, "state.terminated.exitCode")),
        signal => format!("Signal:{signal}"),
    }
}

fn readiness_gates(row: Row<'_>) -> String {
    let gates = list(row.object, "spec.readinessGates");
    let met = gates
        .iter()
        .filter(|gate| row.condition(text(gate, "conditionType")) == "True");
    match gates.len() {
        0 => "<none>".to_owned(),
        total => format!("{}/{total}", met.count()),
    }
}
