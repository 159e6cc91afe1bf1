//! Validation of workloads and PodDisruptionBudgets.

use serde_json::{Value, json};

use super::{
    check::{Check, number_or_percent},
    pod,
};
use crate::{
    selector,
    value::{at, flag, has, int, list, map, text},
};

pub(super) fn deployment(check: &mut Check, new: &Value, old: Option<&Value>) {
    check.not_negative(new, "spec.replicas");
    selector_rules(check, new, "deployment");
    template(check, new, "ReplicaSet", &[]);
    deployment_strategy(check, at(new, "spec.strategy"));
    check.not_negative(new, "spec.minReadySeconds");
    check.not_negative(new, "spec.revisionHistoryLimit");
    check.not_negative(new, "spec.progressDeadlineSeconds");
    let deadline = int(new, "spec.progressDeadlineSeconds");
    if has(new, "spec.progressDeadlineSeconds") && deadline <= int(new, "spec.minReadySeconds") {
        let why = "must be greater than minReadySeconds";
        check.invalid("spec.progressDeadlineSeconds", deadline, why);
    }
    check.immutable(new, old, "spec.selector");
}

pub(super) fn replica_set(check: &mut Check, new: &Value, old: Option<&Value>) {
    check.not_negative(new, "spec.replicas");
    check.not_negative(new, "spec.minReadySeconds");
    selector_rules(check, new, "deployment");
    template(check, new, "ReplicaSet", &[]);
    check.immutable(new, old, "spec.selector");
}

pub(super) fn daemon_set(check: &mut Check, new: &Value, old: Option<&Value>) {
    check.immutable(new, old, "spec.selector");
    check.label_selector("spec.selector", at(new, "spec.selector"));
    let is_empty = is_empty(at(new, "spec.selector"));
    let wanted = has(new, "spec.selector");
    if !wanted
        || !selector::selects(
            at(new, "spec.selector"),
            at(new, "spec.template.metadata.labels"),
        )
    {
        mismatch(check, new);
    }
    if wanted && is_empty {
        let why = "empty selector is invalid for daemonset";
        check.invalid("spec.selector", at(new, "spec.selector").clone(), why);
    }
    template_itself(check, new, "DaemonSet", &[]);
    check.not_negative(new, "spec.minReadySeconds");
    check.not_negative(new, "spec.revisionHistoryLimit");
    if text(new, "spec.updateStrategy.type") == "RollingUpdate" {
        let rolling = at(new, "spec.updateStrategy.rollingUpdate");
        let path = "spec.updateStrategy.rollingUpdate";
        for field in ["maxUnavailable", "maxSurge"] {
            check.int_or_percent(&format!("{path}.{field}"), at(rolling, field));
            check.at_most_all(&format!("{path}.{field}"), at(rolling, field));
        }
        let nonzero = |field: &str| number_or_percent(at(rolling, field)) != 0;
        match (nonzero("maxUnavailable"), nonzero("maxSurge")) {
            (true, true) => {
                let why = "may not be set when maxUnavailable is non-zero";
                check.invalid(
                    format!("{path}.maxSurge"),
                    at(rolling, "maxSurge").clone(),
                    why,
                );
            }
            (false, false) => {
                check.required_because(
                    format!("{path}.maxUnavailable"),
                    "cannot be 0 when maxSurge is 0",
                );
            }
            _ => {}
        }
    }
}

pub(super) fn stateful_set(check: &mut Check, new: &Value, old: Option<&Value>) {
    check.not_negative(new, "spec.replicas");
    check.not_negative(new, "spec.minReadySeconds");
    selector_rules(check, new, "statefulset");
    let claims = list(new, "spec.volumeClaimTemplates").iter();
    let claims: Vec<&str> = claims.map(|claim| text(claim, "metadata.name")).collect();
    template(check, new, "StatefulSet", &claims);
    for field in [
        "selector",
        "volumeClaimTemplates",
        "serviceName",
        "podManagementPolicy",
    ] {
        check.immutable(new, old, &format!("spec.{field}"));
    }
}

pub(super) fn job(check: &mut Check, new: &Value, old: Option<&Value>) {
    job_spec(check, "spec", at(new, "spec"));
    if old.is_none() && !has(new, "spec.selector") {
        check.required("spec.selector");
    }
    if old.is_none() && !flag(new, "spec.manualSelector") {
        let own =
            json!({"matchLabels": {"batch.kubernetes.io/controller-uid": at(new, "metadata.uid")}});
        if *at(new, "spec.selector") != own {
            let found = at(new, "spec.selector").clone();
            check.invalid("spec.selector", found, "`selector` not auto-generated");
        }
    }
    let labels = at(new, "spec.template.metadata.labels");
    if has(new, "spec.selector") && !selector::selects(at(new, "spec.selector"), labels) {
        mismatch(check, new);
    }
    for field in [
        "completions",
        "selector",
        "template",
        "completionMode",
        "backoffLimitPerIndex",
        "podFailurePolicy",
    ] {
        check.immutable(new, old, &format!("spec.{field}"));
    }
}

fn job_spec(check: &mut Check, path: &str, spec: &Value) {
    for field in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
    ] {
        check.not_negative_at(format!("{path}.{field}"), at(spec, field));
    }
    if text(spec, "completionMode") == "Indexed" && !has(spec, "completions") {
        let why = "when completion mode is Indexed";
        check.required_because(format!("{path}.completions"), why);
    }
    pod::template(
        check,
        &format!("{path}.template"),
        at(spec, "template"),
        &[],
    );
    let policy = text(spec, "template.spec.restartPolicy");
    let place = format!("{path}.template.spec.restartPolicy");
    match policy {
        "" | "Always" => {
            check.required_because(place, "valid values: \"OnFailure\", \"Never\"");
        }
        "OnFailure" | "Never" => {}
        other => check.unsupported(place, other, &["Never", "OnFailure"]),
    }
}

pub(super) fn cron_job(check: &mut Check, new: &Value) {
    if text(new, "spec.schedule").is_empty() {
        check.required("spec.schedule");
    }
    check.not_negative(new, "spec.startingDeadlineSeconds");
    check.not_negative(new, "spec.successfulJobsHistoryLimit");
    check.not_negative(new, "spec.failedJobsHistoryLimit");
    let policy = text(new, "spec.concurrencyPolicy");
    check.one_of(
        "spec.concurrencyPolicy",
        policy,
        &["Allow", "Forbid", "Replace"],
    );
    // Job names append eleven characters.
    if text(new, "metadata.name").len() > 52 {
        let name = text(new, "metadata.name");
        check.invalid("metadata.name", name, "must be no more than 52 characters");
    }
    job_spec(
        check,
        "spec.jobTemplate.spec",
        at(new, "spec.jobTemplate.spec"),
    );
}

pub(super) fn disruption_budget(check: &mut Check, new: &Value) {
    if has(new, "spec.minAvailable") && has(new, "spec.maxUnavailable") {
        // kube-apiserver prints the internal form of the spec, in field order.
        let shown = format!(
            r#"{{"MinAvailable":{},"Selector":{},"MaxUnavailable":{},"UnhealthyPodEvictionPolicy":{}}}"#,
            at(new, "spec.minAvailable"),
            at(new, "spec.selector"),
            at(new, "spec.maxUnavailable"),
            at(new, "spec.unhealthyPodEvictionPolicy"),
        );
        check.invalid_shown(
            "spec",
            shown,
            "minAvailable and maxUnavailable cannot be both set",
        );
    }
    for field in ["minAvailable", "maxUnavailable"] {
        let path = format!("spec.{field}");
        check.int_or_percent(&path, at(new, &path));
        check.at_most_all(&path, at(new, &path));
    }
    check.label_selector("spec.selector", at(new, "spec.selector"));
}

fn deployment_strategy(check: &mut Check, strategy: &Value) {
    let path = "spec.strategy";
    match text(strategy, "type") {
        "Recreate" if has(strategy, "rollingUpdate") => check.forbidden(
            format!("{path}.rollingUpdate"),
            "may not be specified when strategy `type` is 'Recreate'",
        ),
        "Recreate" => {}
        "RollingUpdate" => {
            let rolling = at(strategy, "rollingUpdate");
            let path = format!("{path}.rollingUpdate");
            check.int_or_percent(
                &format!("{path}.maxUnavailable"),
                at(rolling, "maxUnavailable"),
            );
            check.int_or_percent(&format!("{path}.maxSurge"), at(rolling, "maxSurge"));
            let zero = |field: &str| number_or_percent(at(rolling, field)) == 0;
            if zero("maxUnavailable") && zero("maxSurge") {
                let value = at(rolling, "maxUnavailable").clone();
                check.invalid(
                    format!("{path}.maxUnavailable"),
                    value,
                    "may not be 0 when `maxSurge` is 0",
                );
            }
            check.at_most_all(
                &format!("{path}.maxUnavailable"),
                at(rolling, "maxUnavailable"),
            );
        }
        _ => check.unsupported(path, strategy.clone(), &["Recreate", "RollingUpdate"]),
    }
}

fn is_empty(selector: &Value) -> bool {
    map(selector, "matchLabels").is_empty() && list(selector, "matchExpressions").is_empty()
}

fn selector_rules(check: &mut Check, new: &Value, kind: &str) {
    let selector = at(new, "spec.selector");
    if selector.is_null() {
        check.required("spec.selector");
        return;
    }
    check.label_selector("spec.selector", selector);
    if is_empty(selector) {
        let why = format!("empty selector is invalid for {kind}");
        check.invalid("spec.selector", selector.clone(), why);
    }
}

fn template(check: &mut Check, new: &Value, kind: &str, claims: &[&str]) {
    let selector = at(new, "spec.selector");
    // A missing selector selects nothing, an empty one everything.
    let selects = match selector {
        Value::Null => false,
        selector => selector::selects(selector, at(new, "spec.template.metadata.labels")),
    };
    if !selects {
        mismatch(check, new);
    }
    template_itself(check, new, kind, claims);
}

fn template_itself(check: &mut Check, new: &Value, kind: &str, claims: &[&str]) {
    pod::template(check, "spec.template", at(new, "spec.template"), claims);
    let policy = text(new, "spec.template.spec.restartPolicy");
    if policy != "Always" {
        check.unsupported("spec.template.spec.restartPolicy", policy, &["Always"]);
    }
    if has(new, "spec.template.spec.activeDeadlineSeconds") {
        let why = format!("activeDeadlineSeconds in {kind} is not Supported");
        check.forbidden("spec.template.spec.activeDeadlineSeconds", why);
    }
}

fn mismatch(check: &mut Check, new: &Value) {
    let labels = at(new, "spec.template.metadata.labels").clone();
    let why = "`selector` does not match template `labels`";
    check.invalid("spec.template.metadata.labels", labels, why);
}
