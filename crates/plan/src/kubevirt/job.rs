//! The Job that has a release write its own strategy.
//!
//! The image of the release's own operator writes the strategy into a ConfigMap and ends. What can
//! come between (no such image, no node, a Job that fails, one that ends without a ConfigMap) is
//! told in the cluster's words and tried again, ten seconds later at first and then ever more
//! seldom.
//!
//! Which try it is stands in the Job's name, so that nothing is forgotten when the operator is
//! restarted, and no Job is made twice when an answer is lost.

use std::time::Duration;

use api::{
    Time,
    kubevirt::install::{
        MANAGED_BY, MANAGER, STRATEGY, STRATEGY_IDENTIFIER, STRATEGY_REGISTRY, STRATEGY_VERSION,
    },
};
use serde_json::{Value, json};

use super::{
    object::{Id, Live, Object, Unnamed},
    target::{Operator, Target},
};

mod state;

pub use state::{JobState, is_finished, job_state};

/// What the names of these Jobs begin with.
const NAME: &str = "virt-operator-install-strategy-";

/// The service account of these Jobs, unless the settings name another. It may do no more than the dump
/// does.
pub const STRATEGY_ACCOUNT: &str = "virt-operator-install-strategy";

/// How long a Job that has ended is left alone: its ConfigMap may be on its way.
const PATIENCE: Duration = Duration::from_secs(10);

/// The longest time between two tries.
const MOST: Duration = Duration::from_secs(300);

/// The Job of a target. `adjust` gets it before it is written: where it runs, and the patches of
/// `spec.customizeComponents`, are decided where they are for all objects.
///
/// # Errors
/// When `adjust` took its name away.
pub fn job(
    target: &Target,
    operator: &Operator,
    attempt: u32,
    adjust: impl FnOnce(&mut Value),
) -> Result<Object, Unnamed> {
    let variable = |name: &str, value: &str| json!({"name": name, "value": value});
    let mut environment = vec![
        variable("VIRT_OPERATOR_IMAGE", &target.image),
        variable("TARGET_INSTALL_NAMESPACE", &operator.namespace),
        variable("TARGET_IMAGE_PULL_POLICY", &target.pull_policy),
        variable("TARGET_DEPLOYMENT_CONFIG", &target.config),
    ];
    let passed = target.passthrough.iter();
    environment.extend(passed.map(|(name, value)| variable(name, value)));
    let account = Some(operator.service_account.as_str()).filter(|name| !name.is_empty());
    let mut job = json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name(&target.id, attempt),
            "namespace": operator.namespace,
            "labels": {"kubevirt.io": "", MANAGED_BY: MANAGER, STRATEGY: ""},
            "annotations": {
                STRATEGY_VERSION: target.version,
                STRATEGY_REGISTRY: target.registry,
                STRATEGY_IDENTIFIER: target.id,
            },
        },
        "spec": {"template": {
            "metadata": {"labels": {
                "kubevirt.io": "virt-operator-strategy-dumper",
                "np.kubevirt.io/allow-access-cluster-services": "true",
            }},
            "spec": {
                "serviceAccountName": account.unwrap_or(STRATEGY_ACCOUNT),
                "restartPolicy": "Never",
                "containers": [{
                    "name": "install-strategy-upload",
                    "image": target.image,
                    "imagePullPolicy": target.pull_policy,
                    "command": ["virt-operator", "--dump-install-strategy"],
                    "env": environment,
                    "securityContext": {
                        "allowPrivilegeEscalation": false,
                        "capabilities": {"drop": ["ALL"]},
                        "runAsNonRoot": true,
                        "seccompProfile": {"type": "RuntimeDefault"},
                    },
                }],
            },
        }},
    });
    if let Some(pod) = job
        .pointer_mut("/spec/template/spec")
        .and_then(Value::as_object_mut)
        && !target.pull_secrets.is_empty()
    {
        let secrets = target.pull_secrets.iter();
        let secrets: Vec<_> = secrets.map(|name| json!({"name": name})).collect();
        pod.insert("imagePullSecrets".to_owned(), secrets.into());
    }
    adjust(&mut job);
    Object::new(&job)
}

fn name(id: &str, attempt: u32) -> String {
    let id: String = id.chars().take(10).collect();
    format!("{NAME}{id}-{attempt}")
}

/// Which try a Job is.
fn attempt(job: &Live) -> u32 {
    let suffix = job.id.name.rsplit('-').next();
    suffix.and_then(|suffix| suffix.parse().ok()).unwrap_or(1)
}

/// What is to be done so that a strategy is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dumping {
    /// Make the Job with this number.
    pub make: Option<u32>,
    /// Delete these Jobs, with their uids: others have taken their place.
    pub delete: Vec<(Id, String)>,
    /// The Job that is waited for.
    pub job: Option<Id>,
    /// Its number; zero if there is none.
    pub number: u32,
    /// What is waited for, or why the last try failed.
    pub message: String,
    /// Whether it does not go on by itself, or did not.
    pub is_failing: bool,
    /// When to look again though nothing changed.
    pub requeue_at: Option<Time>,
}

/// What is to be done so that the strategy of a deployment ID is written, which is not there yet.
/// `jobs` may have others among them.
pub fn dumping<'a>(
    id: &str,
    jobs: impl IntoIterator<Item = &'a Live>,
    pods: &[super::observed::Pod],
    now: &Time,
) -> Dumping {
    let ours = jobs.into_iter().filter(|job| {
        job.id.is("batch", "Job")
            && job.annotations.get(STRATEGY_IDENTIFIER).map(String::as_str) == Some(id)
    });
    let mut ours: Vec<&Live> = ours.collect();
    ours.sort_by_key(|job| attempt(job));
    let Some(last) = ours.pop() else {
        return Dumping {
            make: Some(1),
            delete: Vec::new(),
            job: None,
            number: 0,
            message: "the release has not written its install strategy yet".to_owned(),
            is_failing: false,
            requeue_at: None,
        };
    };
    let older = ours.iter().filter(|job| !job.deleting);
    let mut delete: Vec<_> = older
        .map(|job| (job.id.clone(), job.uid.to_string()))
        .collect();
    let number = attempt(last);
    let (message, ended, is_failing) = match job_state(last, pods, now) {
        JobState::Running => ("it writes the install strategy".to_owned(), None, false),
        JobState::Stuck { message } => (message, None, true),
        JobState::Ending => ("it is being deleted".to_owned(), None, false),
        JobState::Succeeded { since } => (
            "it has ended, and there is no ConfigMap with the install strategy".to_owned(),
            Some(since),
            true,
        ),
        JobState::Failed { message, since } => (message, Some(since), true),
    };
    let again = ended.map(|ended| later(&ended, pause(number)));
    let due = again.as_ref().is_some_and(|again| now >= again);
    if due && !last.deleting {
        delete.push((last.id.clone(), last.uid.to_string()));
    }
    Dumping {
        make: due.then(|| number.saturating_add(1)),
        delete,
        job: Some(last.id.clone()),
        number,
        message,
        is_failing,
        requeue_at: again
            .or_else(|| state::overdue(last, pods))
            .filter(|again| again > now),
    }
}

/// How long to wait after a try that failed.
fn pause(attempt: u32) -> Duration {
    let doublings = attempt.saturating_sub(1).min(10);
    PATIENCE.saturating_mul(1 << doublings).min(MOST)
}

fn later(time: &Time, by: Duration) -> Time {
    Time(time.0.saturating_add(by).unwrap_or(time.0))
}

#[cfg(test)]
mod tests;
