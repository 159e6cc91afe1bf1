//! Printers of workloads and PodDisruptionBudgets.

use serde_json::{Value, json};

use super::{AGE, CONTAINERS, Column, IMAGES, NAME, Row, SELECTOR, duration, none_if_empty};
use crate::{
    Kind, selector,
    value::{at, flag, has, int, list, text},
};

const DESIRED: Column = Column::number("Desired", "How many pods there should be");
const CURRENT: Column = Column::number("Current", "How many pods there are");
const READY: Column = Column::number("Ready", "How many pods are ready");

const JOB: &[Column] = &[
    NAME,
    Column::text("Status", "Whether it is done"),
    Column::text("Completions", "How many pods have succeeded"),
    Column::text("Duration", "How long it took"),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

const CRON_JOB: &[Column] = &[
    NAME,
    Column::text("Schedule", "When it runs"),
    Column::text("Timezone", "Where that is"),
    Column::truth("Suspend", "Whether it rests"),
    Column::number("Active", "How many jobs are running"),
    Column::text("Last Schedule", "The time since it last ran"),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

const DAEMON_SET: &[Column] = &[
    NAME,
    DESIRED,
    CURRENT,
    READY,
    Column::number("Up-to-date", "How many pods are of the newest template"),
    Column::number("Available", "How many pods have been ready for long enough"),
    Column::text("Node Selector", "The labels of the nodes"),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

const DEPLOYMENT: &[Column] = &[
    NAME,
    Column::text("Ready", "How many pods are ready"),
    Column::text("Up-to-date", "How many pods are of the newest template"),
    Column::text("Available", "How many pods have been ready for long enough"),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

const AUTOSCALER: &[Column] = &[
    NAME,
    Column::text("Reference", "What it scales"),
    Column::text("Targets", "What it measures"),
    Column::text("MinPods", "How many pods there are at least"),
    Column::text("MaxPods", "How many pods there are at most"),
    Column::text("Replicas", "How many pods there are"),
    AGE,
];

pub(super) fn columns(kind: &Kind) -> Option<&'static [Column]> {
    Some(match (kind.group, kind.kind) {
        ("apps", "Deployment") => DEPLOYMENT,
        ("apps", "ReplicaSet") | ("", "ReplicationController") => {
            const {
                &[
                    NAME, DESIRED, CURRENT, READY, AGE, CONTAINERS, IMAGES, SELECTOR,
                ]
            }
        }
        ("apps", "StatefulSet") => {
            const {
                &[
                    NAME,
                    Column::text("Ready", "How many pods are ready"),
                    AGE,
                    CONTAINERS,
                    IMAGES,
                ]
            }
        }
        ("apps", "DaemonSet") => DAEMON_SET,
        ("apps", "ControllerRevision") => {
            const {
                &[
                    NAME,
                    Column::text("Controller", "Whose revision it is"),
                    Column::text("Revision", "Its number"),
                    AGE,
                ]
            }
        }
        ("batch", "Job") => JOB,
        ("batch", "CronJob") => CRON_JOB,
        ("policy", "PodDisruptionBudget") => {
            const {
                &[
                    NAME,
                    Column::text("Min Available", "How many pods must stay"),
                    Column::text("Max Unavailable", "How many pods may be away"),
                    Column::number("Allowed Disruptions", "How many pods may go now"),
                    AGE,
                ]
            }
        }
        ("autoscaling", "HorizontalPodAutoscaler") => AUTOSCALER,
        _ => return None,
    })
}

pub(super) fn cells(kind: &Kind, row: Row<'_>) -> Option<Vec<Value>> {
    let of = |ready: &str, desired: &str| -> Value {
        format!("{}/{}", int(row.object, ready), int(row.object, desired)).into()
    };
    let mut cells = match (kind.group, kind.kind) {
        ("apps", "Deployment") => vec![
            row.name(),
            of("status.readyReplicas", "spec.replicas"),
            row.number("status.updatedReplicas"),
            row.number("status.availableReplicas"),
            row.age(),
        ],
        ("apps", "ReplicaSet") | ("", "ReplicationController") => vec![
            row.name(),
            row.number("spec.replicas"),
            row.number("status.replicas"),
            row.number("status.readyReplicas"),
            row.age(),
        ],
        ("apps", "StatefulSet") => {
            vec![
                row.name(),
                of("status.readyReplicas", "spec.replicas"),
                row.age(),
            ]
        }
        ("apps", "DaemonSet") => vec![
            row.name(),
            row.number("status.desiredNumberScheduled"),
            row.number("status.currentNumberScheduled"),
            row.number("status.numberReady"),
            row.number("status.updatedNumberScheduled"),
            row.number("status.numberAvailable"),
            none_if_empty(selector::labels_text(at(
                row.object,
                "spec.template.spec.nodeSelector",
            ))),
            row.age(),
        ],
        ("batch", "Job") => job(row),
        ("batch", "CronJob") => cron_job(row),
        ("apps", "ControllerRevision") => return Some(revision(row)),
        ("policy", "PodDisruptionBudget") => {
            return Some(vec![
                row.name(),
                row.or("spec.minAvailable", "N/A"),
                row.or("spec.maxUnavailable", "N/A"),
                row.number("status.disruptionsAllowed"),
                row.age(),
            ]);
        }
        ("autoscaling", "HorizontalPodAutoscaler") => return Some(autoscaler(row)),
        _ => return None,
    };
    let template = match kind.kind {
        "CronJob" => "spec.jobTemplate.spec.template.spec.containers",
        _ => "spec.template.spec.containers",
    };
    cells.extend(row.containers(template));
    match kind.kind {
        "StatefulSet" => {}
        "CronJob" => cells.push(row.selector("spec.jobTemplate.spec.selector")),
        "ReplicationController" => {
            cells.push(none_if_empty(selector::labels_text(at(
                row.object,
                "spec.selector",
            ))));
        }
        "Deployment" => cells.push(selector::text(at(row.object, "spec.selector")).into()),
        _ => cells.push(row.selector("spec.selector")),
    }
    Some(cells)
}

fn job(row: Row<'_>) -> Vec<Value> {
    let succeeded = int(row.object, "status.succeeded");
    let completions = match at(row.object, "spec.completions").as_i64() {
        Some(wanted) => format!("{succeeded}/{wanted}"),
        None => match int(row.object, "spec.parallelism") {
            parallelism @ 2.. => format!("{succeeded}/1 of {parallelism}"),
            _ => format!("{succeeded}/1"),
        },
    };
    let took = match (
        row.time("status.startTime"),
        row.time("status.completionTime"),
    ) {
        (None, _) => String::new(),
        (Some(_), None) => row.since("status.startTime"),
        (Some(start), Some(end)) => duration(end.as_second() - start.as_second()),
    };
    let is = |condition: &str| row.condition(condition) == "True";
    let status = if is("Complete") {
        "Complete"
    } else if is("Failed") {
        "Failed"
    } else if row.is_deleted() {
        "Terminating"
    } else {
        let words = ["Suspended", "FailureTarget", "SuccessCriteriaMet"];
        words.into_iter().find(|word| is(word)).unwrap_or("Running")
    };
    vec![
        row.name(),
        status.into(),
        completions.into(),
        took.into(),
        row.age(),
    ]
}

fn cron_job(row: Row<'_>) -> Vec<Value> {
    let last = if has(row.object, "status.lastScheduleTime") {
        row.since("status.lastScheduleTime")
    } else {
        "<none>".to_owned()
    };
    let suspend = match at(row.object, "spec.suspend").as_bool() {
        Some(true) => "True",
        Some(false) => "False",
        None => "<unset>",
    };
    vec![
        row.name(),
        row.text("spec.schedule").into(),
        row.or("spec.timeZone", "<none>"),
        suspend.into(),
        row.count("status.active"),
        last.into(),
        row.age(),
    ]
}

fn revision(row: Row<'_>) -> Vec<Value> {
    let owners = list(row.object, "metadata.ownerReferences").iter();
    let mut controller = owners
        .filter(|owner| flag(owner, "controller"))
        .map(|owner| {
            let group = text(owner, "apiVersion")
                .split_once('/')
                .map_or("", |(group, _)| group);
            let kind = text(owner, "kind").to_lowercase();
            match group {
                "" => format!("{kind}/{}", text(owner, "name")),
                group => format!("{kind}.{group}/{}", text(owner, "name")),
            }
        });
    let controller = controller
        .next_back()
        .unwrap_or_else(|| "<none>".to_owned());
    vec![
        row.name(),
        controller.into(),
        row.number("revision"),
        row.age(),
    ]
}

fn autoscaler(row: Row<'_>) -> Vec<Value> {
    let reference = format!(
        "{}/{}",
        row.text("spec.scaleTargetRef.kind"),
        row.text("spec.scaleTargetRef.name")
    );
    let metrics = list(row.object, "spec.metrics").iter();
    let targets: Vec<String> = metrics
        .map(|metric| {
            let name = text(metric, "resource.name");
            match at(metric, "resource.target.averageUtilization").as_i64() {
                Some(percent) => format!("{name}: <unknown>/{percent}%"),
                None => "<unknown type>".to_owned(),
            }
        })
        .collect();
    vec![
        row.name(),
        reference.into(),
        none_if_empty(targets.join(", ")),
        row.or("spec.minReplicas", "<unset>"),
        row.number("spec.maxReplicas"),
        json!(int(row.object, "status.currentReplicas")),
        row.age(),
    ]
}
