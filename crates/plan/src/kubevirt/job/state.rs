//! State of a Job, described as its controller, the scheduler and the kubelet report it.

use std::time::Duration;

use api::Time;
use serde::Deserialize;

use super::{
    super::observed::{Pod, PodPhase},
    Live, later,
};

/// How long a Job may be without a pod before it counts as stuck.
const POD_CREATION_TIMEOUT: Duration = Duration::from_secs(30);

/// Waiting reasons of every starting pod.
const STARTING: [&str; 2] = ["ContainerCreating", "PodInitializing"];

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobState {
    /// It runs, or is about to.
    Running,
    Succeeded {
        since: Time,
    },
    /// It has failed finally.
    Failed {
        message: String,
        since: Time,
    },
    /// It makes no progress: its image cannot be pulled, its pod is unschedulable, a pod failed and is
    /// retried.
    Stuck {
        message: String,
    },
    Deleting,
}

#[derive(Deserialize)]
struct Job {
    metadata: Metadata,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    creation_timestamp: Option<Time>,
}

#[derive(Default, Deserialize)]
struct Spec {
    #[serde(default)]
    suspend: Option<bool>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    completion_time: Option<Time>,
    #[serde(default)]
    conditions: Option<Vec<Condition>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Condition {
    #[serde(rename = "type", default)]
    type_: String,
    #[serde(default)]
    status: String,
    #[serde(default)]
    reason: Option<String>,
    #[serde(default)]
    message: Option<String>,
    last_transition_time: Option<Time>,
}

impl Job {
    fn of(job: &Live) -> Option<Self> {
        decode::from_str(job.text()).ok()
    }

    fn condition(&self, type_: &str) -> Option<&Condition> {
        let mut conditions = self.status.conditions.iter().flatten();
        conditions.find(|condition| condition.type_ == type_ && condition.status == "True")
    }
}

/// Whether a Job has succeeded or failed.
pub fn is_finished(job: &Live) -> bool {
    Job::of(job).is_some_and(|job| {
        job.status.completion_time.is_some()
            || job.condition("Complete").is_some()
            || job.condition("Failed").is_some()
    })
}

/// The state of a Job. `pods` may include pods of others.
pub fn job_state(live: &Live, pods: &[Pod], now: &Time) -> JobState {
    if live.deleting {
        return JobState::Deleting;
    }
    let Some(job) = Job::of(live) else {
        return JobState::Running;
    };
    let own: Vec<&Pod> = own(live, pods).collect();
    if let Some(failed) = job.condition("Failed") {
        let mut message = join_reason(failed.reason.as_deref(), failed.message.as_deref());
        if let Some(problem) = own.iter().find_map(|pod| describe_problem(pod)) {
            message = format!("{message}: {problem}");
        }
        return JobState::Failed {
            message,
            since: failed
                .last_transition_time
                .clone()
                .unwrap_or_else(|| now.clone()),
        };
    }
    let complete = job.condition("Complete");
    let since = job.status.completion_time.clone();
    let since =
        since.or_else(|| complete.and_then(|complete| complete.last_transition_time.clone()));
    if since.is_some() || complete.is_some() {
        return JobState::Succeeded {
            since: since.unwrap_or_else(|| now.clone()),
        };
    }
    if job.spec.suspend == Some(true) {
        return JobState::Stuck {
            message: "it is suspended: set its spec.suspend to false".to_owned(),
        };
    }
    // The pod of the current retry says more than those that failed.
    let present = own.iter().filter(|pod| pod.phase != PodPhase::Failed);
    let failed = own.iter().filter(|pod| pod.phase == PodPhase::Failed);
    if let Some(message) = present.chain(failed).find_map(|pod| describe_problem(pod)) {
        return JobState::Stuck { message };
    }
    if own.is_empty() && overdue(live, pods).is_some_and(|overdue| *now >= overdue) {
        return JobState::Stuck {
            message: format!(
                "it has no pod: `kubectl describe job -n {} {}` shows why; a quota or the namespace's \
                 pod security may forbid it",
                live.id.namespace, live.id.name
            ),
        };
    }
    JobState::Running
}

/// When a Job without a pod counts as stuck.
pub(super) fn overdue(live: &Live, pods: &[Pod]) -> Option<Time> {
    if own(live, pods).next().is_some() {
        return None;
    }
    let created = Job::of(live)?.metadata.creation_timestamp?;
    Some(later(&created, POD_CREATION_TIMEOUT))
}

fn own<'a>(job: &Live, pods: &'a [Pod]) -> impl Iterator<Item = &'a Pod> {
    pods.iter().filter(move |pod| {
        let owner = pod.owner.as_ref();
        owner.is_some_and(|(kind, name)| kind == "Job" && **name == *job.id.name)
    })
}

fn describe_problem(pod: &Pod) -> Option<String> {
    let known = pod.problem.as_ref();
    let known = known.filter(|problem| !STARTING.contains(&problem.reason.as_str()));
    match known {
        Some(problem) => {
            let message = join_reason(Some(&problem.reason), Some(&problem.message));
            Some(match &problem.container {
                Some(container) => format!("pod {}, container {container}: {message}", pod.name),
                None => format!("pod {}: {message}", pod.name),
            })
        }
        None if pod.phase == PodPhase::Failed => {
            Some(format!("pod {} failed: see its `kubectl logs`", pod.name))
        }
        None => None,
    }
}

fn join_reason(reason: Option<&str>, message: Option<&str>) -> String {
    let given = |text: Option<&str>| text.filter(|text| !text.is_empty()).map(str::to_owned);
    match (given(reason), given(message)) {
        (Some(reason), Some(message)) => format!("{reason}: {message}"),
        (Some(text), None) | (None, Some(text)) => text,
        (None, None) => "it failed".to_owned(),
    }
}
