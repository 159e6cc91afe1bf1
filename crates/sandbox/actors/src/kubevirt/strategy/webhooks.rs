//! Admission webhooks and policies of a strategy.

use serde_json::{Value, json};

use super::release::Release;

const API_VERSION: &str = "admissionregistration.k8s.io/v1";
const API_SECRET: &str = "kubevirt-virt-api-certs";
const OPERATOR_SECRET: &str = "kubevirt-operator-certs";
const SECRET: &str = "certificates.kubevirt.io/secret";

/// Name, path, API group, versions, resource and operations.
type Hook = (
    &'static str,
    &'static str,
    &'static str,
    &'static [&'static str],
    &'static str,
    &'static [&'static str],
);

const CORE: &[&str] = &["v1alpha3", "v1"];
const WRITTEN: &[&str] = &["CREATE", "UPDATE"];

const OF_OPERATOR: &[Hook] = &[
    (
        "kubevirt-validator.kubevirt.io",
        "/kubevirt-validate-delete",
        "kubevirt.io",
        CORE,
        "kubevirts",
        &["DELETE"],
    ),
    (
        "kubevirt-update-validator.kubevirt.io",
        "/kubevirt-validate-update",
        "kubevirt.io",
        CORE,
        "kubevirts",
        &["UPDATE"],
    ),
    (
        "kubevirt-create-validator.kubevirt.io",
        "/kubevirt-validate-create",
        "kubevirt.io",
        CORE,
        "kubevirts",
        &["CREATE"],
    ),
];

const VALIDATING: &[Hook] = &[
    (
        "virtualmachineinstances-create-validator.kubevirt.io",
        "/virtualmachineinstances-validate-create",
        "kubevirt.io",
        CORE,
        "virtualmachineinstances",
        &["CREATE"],
    ),
    (
        "virtualmachine-validator.kubevirt.io",
        "/virtualmachines-validate",
        "kubevirt.io",
        CORE,
        "virtualmachines",
        WRITTEN,
    ),
    (
        "migration-create-validator.kubevirt.io",
        "/migration-validate-create",
        "kubevirt.io",
        CORE,
        "virtualmachineinstancemigrations",
        &["CREATE"],
    ),
    (
        "virtualmachinesnapshot-validator.snapshot.kubevirt.io",
        "/virtualmachinesnapshots-validate",
        "snapshot.kubevirt.io",
        &["v1beta1", "v1alpha1"],
        "virtualmachinesnapshots",
        WRITTEN,
    ),
    (
        "virtualmachineclusterinstancetype-validator.instancetype.kubevirt.io",
        "/virtualmachineclusterinstancetypes-validate",
        "instancetype.kubevirt.io",
        &["v1beta1"],
        "virtualmachineclusterinstancetypes",
        WRITTEN,
    ),
    (
        "virtualmachineclusterpreference-validator.instancetype.kubevirt.io",
        "/virtualmachineclusterpreferences-validate",
        "instancetype.kubevirt.io",
        &["v1beta1"],
        "virtualmachineclusterpreferences",
        WRITTEN,
    ),
];

const MUTATING: &[Hook] = &[
    (
        "virtualmachines-mutator.kubevirt.io",
        "/virtualmachines-mutate",
        "kubevirt.io",
        CORE,
        "virtualmachines",
        WRITTEN,
    ),
    (
        "virtualmachineinstances-mutator.kubevirt.io",
        "/virtualmachineinstances-mutate",
        "kubevirt.io",
        CORE,
        "virtualmachineinstances",
        &["CREATE"],
    ),
    (
        "migrations-mutator.kubevirt.io",
        "/migration-mutate-create",
        "kubevirt.io",
        CORE,
        "virtualmachineinstancemigrations",
        &["CREATE"],
    ),
];

const LAUNCHER_PODS: &[Hook] = &[(
    "virt-launcher-pod-mutator.kubevirt.io",
    "/virt-launcher-pod-mutate",
    "",
    &["v1"],
    "pods",
    &["CREATE"],
)];

pub(super) fn objects(release: &Release<'_>) -> Vec<Value> {
    let service = |kind, name, secret, service, hooks| {
        configuration(release, kind, name, secret, service, hooks)
    };
    let validating = "ValidatingWebhookConfiguration";
    let mutating = "MutatingWebhookConfiguration";
    let mut launcher = service(
        mutating,
        "virt-launcher-pod-mutator",
        API_SECRET,
        "virt-api",
        LAUNCHER_PODS,
    );
    launcher["webhooks"][0]["objectSelector"] =
        json!({"matchLabels": {"kubevirt.io": "virt-launcher"}});
    let mut objects = vec![
        service(
            validating,
            "virt-operator-validator",
            OPERATOR_SECRET,
            "kubevirt-operator-webhook",
            OF_OPERATOR,
        ),
        service(
            validating,
            "virt-api-validator",
            API_SECRET,
            "virt-api",
            VALIDATING,
        ),
        service(
            mutating,
            "virt-api-mutator",
            API_SECRET,
            "virt-api",
            MUTATING,
        ),
        launcher,
    ];
    objects.extend(policies(release));
    objects.extend(["v1", "v1alpha3"].map(|version| api_service(release, version)));
    objects
}

fn configuration(
    release: &Release<'_>,
    kind: &str,
    name: &str,
    secret: &str,
    service: &str,
    hooks: &[Hook],
) -> Value {
    let webhooks: Vec<Value> = hooks
        .iter()
        .map(|(name, path, group, versions, resource, operations)| {
            json!({
                "name": name,
                "admissionReviewVersions": ["v1"],
                "clientConfig": {"service": {
                    "name": service,
                    "namespace": release.namespace,
                    "path": path,
                }},
                "failurePolicy": "Fail",
                "rules": [{
                    "apiGroups": [group],
                    "apiVersions": versions,
                    "operations": operations,
                    "resources": [resource],
                }],
                "sideEffects": "None",
                "timeoutSeconds": 10,
            })
        })
        .collect();
    json!({
        "apiVersion": API_VERSION,
        "kind": kind,
        "metadata": {
            "name": name,
            "labels": {"kubevirt.io": name},
            "annotations": {SECRET: secret},
        },
        "webhooks": webhooks,
    })
}

/// Admission policy for virt-handler's changes of nodes. The `apiVersion` is wrong, as in real
/// strategies.
fn policies(release: &Release<'_>) -> [Value; 2] {
    let account = format!(
        "system:serviceaccount:{}:kubevirt-handler",
        release.namespace
    );
    let nodes = |operation: &str| {
        json!({"resourceRules": [{
            "apiGroups": [""],
            "apiVersions": ["*"],
            "operations": [operation],
            "resources": ["nodes"],
        }]})
    };
    [
        json!({
            "apiVersion": "v1",
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {
                "name": "kubevirt-node-restriction-binding",
                "labels": {"kubevirt.io": "kubevirt-node-restriction"},
            },
            "spec": {
                "matchResources": nodes("*"),
                "policyName": "kubevirt-node-restriction-policy",
                "validationActions": ["Deny"],
            },
        }),
        json!({
            "apiVersion": "v1",
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": "kubevirt-node-restriction-policy"},
            "spec": {
                "failurePolicy": "Fail",
                "matchConditions": [{
                    "name": "virt-handler-user-only",
                    "expression": format!("request.userInfo.username == {account:?}"),
                }],
                "matchConstraints": nodes("UPDATE"),
                "validations": [{
                    "expression": "object.spec.?podCIDR == oldObject.spec.?podCIDR",
                    "message": "virt-handler cannot change the addresses of a node",
                }],
            },
        }),
    ]
}

fn api_service(release: &Release<'_>, version: &str) -> Value {
    json!({
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {
            "name": format!("{version}.subresources.kubevirt.io"),
            "labels": {"kubevirt.io": "virt-api-aggregator"},
            "annotations": {SECRET: API_SECRET},
        },
        "spec": {
            "group": "subresources.kubevirt.io",
            "groupPriorityMinimum": 1000,
            "service": {"name": "virt-api", "namespace": release.namespace},
            "version": version,
            "versionPriority": 15,
        },
    })
}
