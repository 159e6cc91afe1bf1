//! Two small releases with the structure of real ones.

use std::sync::Arc;

use plan::kubevirt::{Object, Strategy};
use serde_json::{Value, json};

pub(crate) const NAMESPACE: &str = "kubevirt";
pub(crate) const REGISTRY: &str = "registry.example/kubevirt";
pub(crate) const OLD: &str = "v1.1.0";
pub(crate) const NEW: &str = "v1.2.0";

/// A definition that only the old release has.
pub(crate) const OBSOLETE: &str = "oldthings.kubevirt.io";

/// A definition that only the new release has.
pub(crate) const ADDED: &str = "newthings.kubevirt.io";

pub(crate) fn definition(name: &str, kind: &str, has_status: bool) -> Value {
    let (plural, group) = name.split_once('.').unwrap();
    let mut version = json!({
        "name": "v1", "served": true, "storage": true,
        "schema": {"openAPIV3Schema": {"type": "object"}},
    });
    if has_status {
        version["subresources"] = json!({"status": {}});
    }
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": name},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind}, "versions": [version],
        },
    })
}

fn workload(kind: &str, name: &str, version: &str) -> Value {
    let mut spec = json!({
        "selector": {"matchLabels": {"kubevirt.io": name}},
        "template": {
            "metadata": {"labels": {"kubevirt.io": name}},
            "spec": {
                "serviceAccountName": "kubevirt-components",
                "containers": [{
                    "name": name, "image": format!("{REGISTRY}/{name}:{version}"),
                    "resources": {"requests": {"cpu": "10m", "memory": "250Mi"}},
                }],
            },
        },
    });
    if kind == "Deployment" {
        spec["replicas"] = json!(2);
    } else {
        spec["updateStrategy"] = json!({
            "type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1},
        });
    }
    json!({
        "apiVersion": "apps/v1", "kind": kind,
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"kubevirt.io": name}},
        "spec": spec,
    })
}

/// The objects of a release.
pub(crate) fn release(version: &str) -> Vec<Value> {
    let named = |api: &str, kind: &str, name: &str| {
        json!({
            "apiVersion": api, "kind": kind,
            "metadata": {"name": name, "namespace": NAMESPACE},
        })
    };
    let mut objects = vec![
        definition("virtualmachines.kubevirt.io", "VirtualMachine", true),
        definition(
            "virtualmachineinstances.kubevirt.io",
            "VirtualMachineInstance",
            true,
        ),
        definition(
            "virtualmachineclusterinstancetypes.instancetype.kubevirt.io",
            "VirtualMachineClusterInstancetype",
            false,
        ),
        named("v1", "ServiceAccount", "kubevirt-components"),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": "kubevirt-components"},
            "rules": [{"apiGroups": ["kubevirt.io"], "resources": ["*"], "verbs": ["*"]}],
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {"name": "kubevirt-components"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
                "name": "kubevirt-components"},
            "subjects": [{"kind": "ServiceAccount", "name": "kubevirt-components",
                "namespace": NAMESPACE}],
        }),
        json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": "virt-api", "namespace": NAMESPACE},
            "spec": {"type": "ClusterIP", "selector": {"kubevirt.io": "virt-api"},
                "ports": [{"port": 443, "targetPort": 8443, "protocol": "TCP"}]},
        }),
        named("v1", "Secret", "kubevirt-ca"),
        named("v1", "Secret", "kubevirt-virt-api-certs"),
        named("v1", "ConfigMap", "kubevirt-ca"),
        named("v1", "ConfigMap", "kubevirt-external-ca"),
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": "virt-api-validator"},
            "webhooks": [{
                "name": "virtualmachines.kubevirt.io", "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
                "clientConfig": {"service": {"name": "virt-api", "namespace": NAMESPACE}},
                "rules": [{"apiGroups": ["kubevirt.io"], "apiVersions": ["v1"],
                    "operations": ["CREATE"], "resources": ["virtualmachines"]}],
            }],
        }),
        json!({
            "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
            "metadata": {"name": "v1.subresources.kubevirt.io"},
            "spec": {"group": "subresources.kubevirt.io", "version": "v1",
                "groupPriorityMinimum": 1000, "versionPriority": 15,
                "service": {"name": "virt-api", "namespace": NAMESPACE}},
        }),
        workload("Deployment", "virt-api", version),
        workload("Deployment", "virt-controller", version),
        workload("Deployment", "virt-exportproxy", version),
        workload("DaemonSet", "virt-handler", version),
        json!({
            "apiVersion": "instancetype.kubevirt.io/v1",
            "kind": "VirtualMachineClusterInstancetype",
            "metadata": {"name": "u1.small"}, "spec": {"cpu": {"guest": 1}},
        }),
    ];
    if version == OLD {
        objects.push(definition(OBSOLETE, "OldThing", true));
        objects.push(named("v1", "ServiceAccount", "kubevirt-old"));
        // The new release adds the status subresource.
        objects.push(definition("things.kubevirt.io", "Thing", false));
    } else {
        objects.push(definition(ADDED, "NewThing", true));
        objects.push(definition("things.kubevirt.io", "Thing", true));
    }
    objects
}

pub(crate) fn strategy(version: &str, extra: &[Object]) -> Arc<Strategy> {
    let objects = release(version);
    let objects = objects.iter().map(|object| Object::new(object).unwrap());
    Arc::new(Strategy {
        objects: objects.chain(extra.iter().cloned()).collect(),
        ..Strategy::default()
    })
}
