//! Quotas.

use super::*;

fn quota(hard: Value, used: Value, more: Value) -> ReviewContext {
    let mut spec = json!({"hard": hard});
    spec.as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    let quota = json!({
        "metadata": {"name": "budget"}, "spec": spec, "status": {"hard": hard, "used": used},
    });
    ReviewContext {
        quotas: vec![object(quota)],
        ..cluster()
    }
}

fn left(resource: &str, left: &str, needs: &str) -> String {
    // The size of a listed disk cannot be reduced.
    let remedy = if resource.ends_with("requests.storage") {
        "make room in it, or have it raised"
    } else {
        "ask for less, or have the quota raised"
    };
    format!(
        "spec: ResourceQuota \"budget\" has {left} of {resource} left, and this needs {needs}: {remedy}"
    )
}

#[test]
fn a_new_machine_needs_its_disks_its_memory_and_one_of_each() {
    let resources = [
        ("count/persistentvolumeclaims", "0", "2"),
        ("count/pods", "0", "1"),
        ("count/virtualmachineinstances.kubevirt.io", "0", "1"),
        ("count/virtualmachines.kubevirt.io", "0", "1"),
        (
            "fixed.storageclass.storage.k8s.io/persistentvolumeclaims",
            "0",
            "1",
        ),
        (
            "fixed.storageclass.storage.k8s.io/requests.storage",
            "1Gi",
            "5Gi",
        ),
        ("limits.memory", "1Gi", "2Gi"),
        ("memory", "1Gi", "2Gi"),
        ("persistentvolumeclaims", "1", "2"),
        ("pods", "0", "1"),
        ("requests.memory", "1Gi", "2Gi"),
        ("requests.storage", "20Gi", "25Gi"),
        (
            "standard.storageclass.storage.k8s.io/requests.storage",
            "10Gi",
            "20Gi",
        ),
    ];
    let hard: serde_json::Map<String, Value> = resources
        .iter()
        .map(|(name, hard, _)| ((*name).to_owned(), (*hard).into()))
        .collect();
    let context = quota(hard.into(), json!({}), json!({}));
    let spec = json!({"disks": [{"name": "data", "size": "5Gi", "storageClass": "fixed"}]});
    let warnings = resources.map(|(name, has, needs)| left(name, has, needs));
    let warnings: Vec<&str> = warnings.iter().map(String::as_str).collect();
    warns(&create(spec, &context), &warnings);
}

#[test]
fn what_is_used_is_not_left() {
    let hard = json!({"requests.storage": "100Gi"});
    silent(&create(
        json!({}),
        &quota(hard.clone(), json!({"requests.storage": "80Gi"}), json!({})),
    ));
    let context = quota(hard.clone(), json!({"requests.storage": "90Gi"}), json!({}));
    warns(
        &create(json!({}), &context),
        &[&left("requests.storage", "10Gi", "20Gi")],
    );
    let context = quota(hard, json!({"requests.storage": "120Gi"}), json!({}));
    warns(
        &create(json!({}), &context),
        &[&left("requests.storage", "0", "20Gi")],
    );
}

#[test]
fn what_is_missing_elsewhere_hides_no_quota() {
    let hard = json!({"requests.storage": "10Gi", "requests.memory": "1Gi"});
    let mut context = quota(hard, json!({}), json!({}));
    let mut spec = json!({"cloudInit": {"secretRef": {"name": "lost"}}});
    let warnings = create(spec.clone(), &context).warnings;
    assert_eq!(warnings.len(), 3, "{warnings:?}");
    assert!(warnings.contains(&left("requests.storage", "10Gi", "20Gi")));
    assert!(warnings.contains(&left("requests.memory", "1Gi", "2Gi")));

    context.claims = vec![object(json!({
        "metadata": {"name": "web-root"},
        "spec": {"storageClassName": "standard", "resources": {"requests": {"storage": "5Gi"}}},
    }))];
    let old = spec.clone();
    spec["disks"] = json!([{"name": "root", "size": "20Gi"}]);
    spec["machineClass"] = "gold".into();
    let verdict = update(old, spec, &context);
    let fields: Vec<_> = verdict.errors.iter().map(|error| &*error.field).collect();
    assert_eq!(fields, ["spec.disks[0].size"], "{verdict:?}");
}

#[test]
fn an_update_needs_only_the_difference() {
    let hard = json!({"requests.storage": "100Gi", "requests.memory": "4Gi"});
    let used = json!({"requests.storage": "95Gi", "requests.memory": "3Gi"});
    let mut context = quota(hard, used, json!({}));
    context.claims = vec![object(json!({
        "metadata": {"name": "web-root"},
        "spec": {"storageClassName": "standard", "resources": {"requests": {"storage": "20Gi"}}},
    }))];
    let grown = |size: &str| json!({"disks": [{"name": "root", "size": size}]});
    silent(&update(json!({}), grown("25Gi"), &context));
    warns(
        &update(json!({}), grown("30Gi"), &context),
        &[&left("requests.storage", "5Gi", "10Gi")],
    );
    let message = "spec.disks[0].size: ResourceQuota \"budget\" has 100Gi of requests.storage in total, and the disks would need 2000Gi: ask for less, or have the quota raised first";
    refuses(
        &update(json!({}), grown("2000Gi"), &context),
        &[("spec.disks[0].size", message)],
    );
    silent(&update(json!({}), json!({"memory": "3Gi"}), &context));
    warns(
        &update(json!({}), json!({"memory": "4Gi"}), &context),
        &[&left("requests.memory", "1Gi", "2Gi")],
    );
}

#[test]
fn a_machine_that_does_not_run_needs_no_memory() {
    let context = quota(
        json!({"requests.memory": "0", "pods": "0"}),
        json!({}),
        json!({}),
    );
    let stopped = json!({"powerState": "Stopped"});
    silent(&create(stopped.clone(), &context));
    let started = update(stopped, json!({}), &context);
    assert_eq!(started.warnings.len(), 2, "{started:?}");
}

#[test]
fn a_quota_of_some_pods_only_may_not_be_meant() {
    let hard = json!({"pods": "0"});
    silent(&create(
        json!({}),
        &quota(hard.clone(), json!({}), json!({"scopes": ["BestEffort"]})),
    ));
    let selector = json!({"scopeSelector": {"matchExpressions": []}});
    silent(&create(json!({}), &quota(hard, json!({}), selector)));
}
