//! Defaults of the groups apps, batch and autoscaling.

use serde_json::{Value, json};

use super::Fields;
use crate::value::{child, set_default};

/// Returns false for other components.
pub(super) fn set(component: &str, fields: &mut Fields) -> bool {
    match component {
        "io.k8s.api.apps.v1.DeploymentSpec" => deployment(fields),
        "io.k8s.api.apps.v1.ReplicaSetSpec" => set_default(fields, "replicas", 1),
        "io.k8s.api.apps.v1.DaemonSetSpec" => daemon_set(fields),
        "io.k8s.api.apps.v1.StatefulSetSpec" => stateful_set(fields),
        "io.k8s.api.batch.v1.Job" => job(fields),
        "io.k8s.api.batch.v1.CronJobSpec" => {
            set_default(fields, "concurrencyPolicy", "Allow");
            set_default(fields, "suspend", false);
            set_default(fields, "successfulJobsHistoryLimit", 3);
            set_default(fields, "failedJobsHistoryLimit", 1);
        }
        "io.k8s.api.batch.v1.PodFailurePolicyOnPodConditionsPattern" => {
            set_default(fields, "status", "True");
        }
        "io.k8s.api.autoscaling.v2.HorizontalPodAutoscalerSpec" => {
            set_default(fields, "minReplicas", 1);
            let cpu = json!([{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}]);
            set_default(fields, "metrics", cpu);
        }
        _ => return false,
    }
    true
}

fn deployment(spec: &mut Fields) {
    set_default(spec, "replicas", 1);
    if let Some(strategy) = child(spec, "strategy") {
        set_default(strategy, "type", "RollingUpdate");
        if strategy.get("type") == Some(&json!("RollingUpdate"))
            && let Some(rolling) = child(strategy, "rollingUpdate")
        {
            set_default(rolling, "maxUnavailable", "25%");
            set_default(rolling, "maxSurge", "25%");
        }
    }
    set_default(spec, "revisionHistoryLimit", 10);
    set_default(spec, "progressDeadlineSeconds", 600);
}

fn daemon_set(spec: &mut Fields) {
    if let Some(strategy) = child(spec, "updateStrategy") {
        set_default(strategy, "type", "RollingUpdate");
        if strategy.get("type") == Some(&json!("RollingUpdate"))
            && let Some(rolling) = child(strategy, "rollingUpdate")
        {
            set_default(rolling, "maxUnavailable", 1);
            set_default(rolling, "maxSurge", 0);
        }
    }
    set_default(spec, "revisionHistoryLimit", 10);
}

fn stateful_set(spec: &mut Fields) {
    set_default(spec, "podManagementPolicy", "OrderedReady");
    if let Some(strategy) = child(spec, "updateStrategy") {
        if !strategy.contains_key("type") {
            set_default(strategy, "type", "RollingUpdate");
            set_default(strategy, "rollingUpdate", json!({}));
        }
        if let Some(rolling) = strategy
            .get_mut("rollingUpdate")
            .and_then(Value::as_object_mut)
        {
            set_default(rolling, "partition", 0);
            set_default(rolling, "maxUnavailable", 1);
        }
    }
    if let Some(retention) = child(spec, "persistentVolumeClaimRetentionPolicy") {
        set_default(retention, "whenDeleted", "Retain");
        set_default(retention, "whenScaled", "Retain");
    }
    set_default(spec, "replicas", 1);
    set_default(spec, "revisionHistoryLimit", 10);
    let claims = spec
        .get_mut("volumeClaimTemplates")
        .and_then(Value::as_array_mut);
    for claim in claims
        .into_iter()
        .flatten()
        .filter_map(Value::as_object_mut)
    {
        set_default(claim, "apiVersion", "v1");
        set_default(claim, "kind", "PersistentVolumeClaim");
    }
}

fn job(fields: &mut Fields) {
    let Some(spec) = child(fields, "spec") else {
        return;
    };
    if !spec.contains_key("parallelism") {
        set_default(spec, "completions", 1);
    }
    set_default(spec, "parallelism", 1);
    let limit = if spec.contains_key("backoffLimitPerIndex") {
        i32::MAX
    } else {
        6
    };
    set_default(spec, "backoffLimit", limit);
    set_default(spec, "completionMode", "NonIndexed");
    set_default(spec, "suspend", false);
    let replacement = if spec.contains_key("podFailurePolicy") {
        "Failed"
    } else {
        "TerminatingOrFailed"
    };
    set_default(spec, "podReplacementPolicy", replacement);
    set_default(spec, "manualSelector", false);
    let labels = spec
        .get("template")
        .and_then(|template| template.get("metadata")?.get("labels"))
        .cloned();
    if let (Some(labels), Some(metadata)) = (labels, child(fields, "metadata")) {
        set_default(metadata, "labels", labels);
    }
}
