//! Contents of the objects of a release: as little as each kind needs, and the defects of real strategies.

use serde_json::{Value, json};

use super::{
    names::{KINDS, Kind, Part, Release, names},
    rbac,
};

/// Annotation of the objects that belong to templates.
const TEMPLATES: &str = "template.kubevirt.io/virt-template-version";

pub(super) fn strategy(release: &Release<'_>) -> String {
    let mut documents: Vec<String> = Vec::new();
    for kind in &KINDS {
        for (namespace, name, part) in names(release, kind) {
            let object = object(release, kind, (namespace, &name), part);
            let document = serde_saphyr::to_string(&object).unwrap();
            if kind.name == "ConfigMap" {
                // Real strategies have each of these twice.
                documents.push(document.clone());
            }
            documents.push(document);
        }
    }
    documents.join("---\n")
}

pub(super) fn components(release: &Release<'_>) -> Vec<Value> {
    let mut objects = Vec::new();
    for kind in &KINDS {
        if ["Deployment", "DaemonSet"].contains(&kind.name) {
            for (namespace, name, part) in names(release, kind) {
                objects.push(object(release, kind, (namespace, &name), part));
            }
        }
    }
    for object in &mut objects {
        // Only the YAML has these fields.
        object.as_object_mut().unwrap().remove("status");
        remove_nulls(object);
    }
    objects
}

/// Removes fields that are null.
fn remove_nulls(value: &mut Value) {
    if let Value::Object(fields) = value {
        fields.retain(|_, field| !field.is_null());
        fields.values_mut().for_each(remove_nulls);
    }
}

fn object(
    release: &Release<'_>,
    kind: &Kind,
    (namespace, name): (&str, &str),
    part: Part,
) -> Value {
    let mut object = content(release, kind.name, name);
    object["apiVersion"] = kind.written.unwrap_or(kind.api_version).into();
    object["kind"] = kind.name.into();
    let labels = json!({ "kubevirt.io": label(name) });
    object["metadata"] = json!({ "name": name, "labels": labels, "creationTimestamp": null });
    if !namespace.is_empty() {
        object["metadata"]["namespace"] = namespace.into();
    }
    let is_of_templates = part == Part::Templates || name.contains(".template.");
    if is_of_templates && kind.name != "Secret" {
        object["metadata"]["annotations"] = json!({ TEMPLATES: "v0.2.2" });
    }
    object
}

/// Value of the label `kubevirt.io`, empty except for components.
fn label(name: &str) -> &str {
    if name.starts_with("virt-") { name } else { "" }
}

fn content(release: &Release<'_>, kind: &str, name: &str) -> Value {
    match kind {
        "ClusterRole" | "Role" => json!({ "rules": rbac::rules(release, kind, name) }),
        "ClusterRoleBinding" | "RoleBinding" => rbac::binding(kind, name),
        "CustomResourceDefinition" => definition(name),
        "Service" => json!({ "spec": {
            "ports": [{ "port": 443, "protocol": "TCP", "targetPort": 8443 }],
            "selector": { "kubevirt.io": name },
        } }),
        "Secret" => json!({ "type": "kubernetes.io/tls" }),
        "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration" => webhooks(name),
        "ValidatingAdmissionPolicyBinding" => json!({ "spec": {
            "policyName": name.replace("-binding", "-policy"), "validationActions": ["Deny"],
        } }),
        "ValidatingAdmissionPolicy" => json!({ "spec": {
            "failurePolicy": "Fail",
            "validations": [{ "expression": "object.metadata.name != \"\"" }],
        } }),
        "APIService" => {
            let (version, group) = name.split_once('.').unwrap();
            json!({ "spec": {
                "group": group, "version": version,
                "groupPriorityMinimum": 1000, "versionPriority": 15,
                "service": { "name": "virt-api", "namespace": "kubevirt" },
            }, "status": {} })
        }
        "Deployment" => deployment(release, name),
        "DaemonSet" => daemon_set(release, name),
        // Its schema requires nullable fields.
        "SecurityContextConstraints" => json!({
            "allowPrivilegedContainer": true,
            "priority": null,
            "readOnlyRootFilesystem": false,
            "users": [format!("system:serviceaccount:kubevirt:{name}")],
        }),
        "ServiceMonitor" => json!({ "spec": {
            "endpoints": [{ "port": "metrics", "scheme": "https" }],
            "selector": { "matchLabels": { "prometheus.kubevirt.io": "true" } },
        } }),
        "PrometheusRule" => json!({ "spec": { "groups": [{
            "name": "kubevirt.rules",
            "rules": [{ "alert": "VirtAPIDown", "expr": "absent(up)", "for": "10m" }],
        }] } }),
        "Route" => json!({ "spec": {
            "tls": { "termination": "reencrypt" }, "to": { "kind": "Service", "name": name },
        }, "status": { "ingress": null } }),
        "VirtualMachineClusterInstancetype" => json!({
            "spec": { "cpu": { "guest": 1 }, "memory": { "guest": "2Gi" } },
        }),
        "VirtualMachineClusterPreference" => json!({
            "spec": { "devices": { "preferredDiskBus": "virtio" } },
        }),
        _ => json!({}),
    }
}

fn definition(name: &str) -> Value {
    let (plural, group) = name.split_once('.').unwrap();
    let singular = plural.strip_suffix('s').unwrap();
    let scope = if plural.contains("cluster") {
        "Cluster"
    } else {
        "Namespaced"
    };
    let schema = json!({ "openAPIV3Schema": {
        "type": "object", "x-kubernetes-preserve-unknown-fields": true,
    } });
    json!({
        "spec": {
            "group": group,
            "names": { "kind": singular, "plural": plural, "singular": singular },
            "scope": scope,
            "versions": [{
                "name": "v1", "served": true, "storage": true, "schema": schema,
                "subresources": { "status": {} },
            }],
        },
        "status": {
            "acceptedNames": { "kind": "", "plural": "" },
            "conditions": null, "storedVersions": null,
        },
    })
}

fn webhooks(name: &str) -> Value {
    let service = match name {
        "virt-operator-validator" => "kubevirt-operator-webhook",
        _ if name.starts_with("virt-template-") => "virt-template-webhook-service",
        _ => "virt-api",
    };
    let webhooks = ["first", "second"].map(|hook| {
        let service = json!({
            "name": service, "namespace": "kubevirt", "path": format!("/{hook}"),
        });
        json!({
            "name": format!("{hook}.{name}.kubevirt.io"),
            "admissionReviewVersions": ["v1"],
            "clientConfig": { "service": service },
            "failurePolicy": "Fail",
            "sideEffects": "None",
            "rules": [{
                "apiGroups": ["kubevirt.io"], "apiVersions": ["v1"],
                "operations": ["CREATE"], "resources": ["virtualmachines"],
            }],
        })
    });
    json!({ "webhooks": webhooks })
}

fn deployment(release: &Release<'_>, name: &str) -> Value {
    let container = match name {
        "virt-template-apiserver" => "apiserver",
        "virt-template-controller" => "manager",
        name => name,
    };
    // In real strategies, these components have one port twice.
    let ports = match name {
        "virt-api" | "virt-exportproxy" => json!([
            { "name": name, "containerPort": 8443, "protocol": "TCP" },
            { "name": "metrics", "containerPort": 8443, "protocol": "TCP" },
        ]),
        _ => json!([{ "name": "metrics", "containerPort": 8443, "protocol": "TCP" }]),
    };
    json!({
        "spec": {
            "replicas": if name.starts_with("virt-template-") { 1 } else { 2 },
            "selector": { "matchLabels": { "kubevirt.io": name } },
            "strategy": {},
            "template": pod(release, name, container, &ports),
        },
        "status": {},
    })
}

fn daemon_set(release: &Release<'_>, name: &str) -> Value {
    let mut pod = pod(release, name, name, &json!([]));
    pod["spec"]["containers"][0]["securityContext"] = json!({ "privileged": true });
    let launcher = image(release, "virt-launcher");
    pod["spec"]["initContainers"] = json!([{ "name": "virt-launcher", "image": launcher }]);
    json!({
        "spec": {
            "selector": { "matchLabels": { "kubevirt.io": name } },
            "template": pod,
            "updateStrategy": { "type": "RollingUpdate" },
        },
        "status": {
            "currentNumberScheduled": 0, "desiredNumberScheduled": 0, "numberReady": 0,
        },
    })
}

fn pod(release: &Release<'_>, name: &str, container: &str, ports: &Value) -> Value {
    json!({
        "metadata": { "name": name, "labels": { "kubevirt.io": name }, "creationTimestamp": null },
        "spec": {
            "containers": [{
                "name": container,
                "image": image(release, name),
                "command": [name],
                "args": ["--port", "8443"],
                "ports": ports,
                "resources": { "requests": { "cpu": "10m", "memory": "250Mi" } },
            }],
            "serviceAccountName": "kubevirt-controller",
        },
    })
}

fn image(release: &Release<'_>, name: &str) -> String {
    format!("quay.io/kubevirt/{name}:{}", release.version)
}
