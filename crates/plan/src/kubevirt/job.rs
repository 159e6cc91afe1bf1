//! Job that writes the install strategy of a release.
//!
//! The Job runs the release's own virt-operator image, which writes the strategy into a ConfigMap and
//! exits. Failures (no such image, no node, a failed Job, a Job that ends without a ConfigMap) are
//! reported as the cluster reports them and retried with backoff, from ten seconds to five minutes.
//!
//! The attempt is part of the Job's name, so the backoff survives a restart of the operator, and a lost
//! answer does not lead to a second Job.

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

/// Prefix of the names of these Jobs.
const NAME: &str = "virt-operator-install-strategy-";

/// Default service account of these Jobs, with the permissions that writing the strategy needs.
pub const STRATEGY_ACCOUNT: &str = "virt-operator-install-strategy";

/// Delay before the second attempt. The ConfigMap may arrive after the Job has ended.
const INITIAL_BACKOFF: Duration = Duration::from_secs(10);

const MAX_BACKOFF: Duration = Duration::from_secs(300);

/// The Job of a target. `adjust` changes it before it is written: placement and customizations are
/// those of all objects.
///
/// # Errors
/// When `adjust` removes its name.
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

fn attempt(job: &Live) -> u32 {
    let suffix = job.id.name.rsplit('-').next();
    suffix.and_then(|suffix| suffix.parse().ok()).unwrap_or(1)
}

/// Next writes until the install strategy exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StrategyJobPlan {
    /// Attempt whose Job is to be created.
    pub create: Option<u32>,
    /// Jobs that newer ones replace, with their UIDs.
    pub delete: Vec<(Id, String)>,
    /// The current Job and its attempt.
    pub job: Option<(Id, u32)>,
    /// What the current Job does, or why it fails.
    pub message: String,
    /// Whether the Job has failed or is stuck.
    pub is_failing: bool,
    /// When to plan again though nothing has changed.
    pub requeue_at: Option<Time>,
}

/// Plans the Job that writes the install strategy of a deployment ID. `jobs` may include others.
pub fn plan_strategy_job<'a>(
    id: &str,
    jobs: impl IntoIterator<Item = &'a Live>,
    pods: &[super::observed::Pod],
    now: &Time,
) -> StrategyJobPlan {
    let own = jobs.into_iter().filter(|job| {
        job.id.is("batch", "Job")
            && job.annotations.get(STRATEGY_IDENTIFIER).map(String::as_str) == Some(id)
    });
    let mut own: Vec<&Live> = own.collect();
    own.sort_by_key(|job| attempt(job));
    let Some(last) = own.pop() else {
        return StrategyJobPlan {
            create: Some(1),
            delete: Vec::new(),
            job: None,
            message: "the release has not written its install strategy yet".to_owned(),
            is_failing: false,
            requeue_at: None,
        };
    };
    let older = own.iter().filter(|job| !job.deleting);
    let mut delete: Vec<_> = older
        .map(|job| (job.id.clone(), job.uid.to_string()))
        .collect();
    let attempt = attempt(last);
    let (message, ended, is_failing) = match job_state(last, pods, now) {
        JobState::Running => ("it writes the install strategy".to_owned(), None, false),
        JobState::Stuck { message } => (message, None, true),
        JobState::Deleting => ("it is being deleted".to_owned(), None, false),
        JobState::Succeeded { since } => (
            "it has ended, and there is no ConfigMap with the install strategy".to_owned(),
            Some(since),
            true,
        ),
        JobState::Failed { message, since } => (message, Some(since), true),
    };
    let retry_at = ended.map(|ended| later(&ended, backoff(attempt)));
    let due = retry_at.as_ref().is_some_and(|retry_at| now >= retry_at);
    if due && !last.deleting {
        delete.push((last.id.clone(), last.uid.to_string()));
    }
    StrategyJobPlan {
        create: due.then(|| attempt.saturating_add(1)),
        delete,
        job: Some((last.id.clone(), attempt)),
        message,
        is_failing,
        requeue_at: retry_at
            .or_else(|| state::overdue(last, pods))
            .filter(|at| at > now),
    }
}

fn backoff(attempt: u32) -> Duration {
    let doublings = attempt.saturating_sub(1).min(10);
    INITIAL_BACKOFF
        .saturating_mul(1 << doublings)
        .min(MAX_BACKOFF)
}

fn later(time: &Time, by: Duration) -> Time {
    Time(time.0.saturating_add(by).unwrap_or(time.0))
}

#[cfg(test)]
mod tests;
