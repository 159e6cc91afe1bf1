//! Documents of a strategy: CustomResourceDefinitions, Services and objects without content.

use serde_json::{Value, json};

use super::release::Release;
use crate::kubevirt::crds;

const SECRETS: [&str; 14] = [
    "kubevirt-virt-api-certs",
    "kubevirt-controller-certs",
    "kubevirt-exportproxy-certs",
    "kubevirt-virt-handler-server-certs",
    "kubevirt-virt-handler-migration-client-certs",
    "kubevirt-virt-handler-vsock-client-certs",
    "kubevirt-virt-handler-monitoring-client-certs",
    "kubevirt-virt-handler-certs",
    "kubevirt-synchronization-controller-certs",
    "kubevirt-synchronization-controller-server-certs",
    "kubevirt-operator-certs",
    "kubevirt-ca",
    "kubevirt-export-ca",
    "kubevirt-backup-ca",
];

const BUNDLES: [&str; 4] = [
    "kubevirt-ca",
    "kubevirt-export-ca",
    "kubevirt-backup-ca",
    "kubevirt-external-ca",
];

pub(super) fn objects(release: &Release<'_>) -> Vec<Value> {
    let mut objects = crds();
    for definition in &mut objects {
        definition["metadata"]["labels"] = json!({"kubevirt.io": ""});
    }
    objects.push(if release.has_plugins() {
        definition(
            "plugin.kubevirt.io",
            "v1alpha1",
            "Plugin",
            "plugins",
            "Cluster",
        )
    } else {
        definition(
            "kubevirt.io",
            "v1",
            "VirtualMachineInstancePreset",
            "virtualmachineinstancepresets",
            "Namespaced",
        )
    });
    objects.extend(services(release));
    objects.extend(SECRETS.iter().map(|name| {
        json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name, "namespace": release.namespace, "labels": {}},
            "type": "kubernetes.io/tls",
        })
    }));
    objects.extend(monitoring(release));
    objects
}

/// Last documents of a real strategy.
pub(super) fn closing(release: &Release<'_>) -> Vec<Value> {
    let mut objects = vec![
        json!({
            "apiVersion": "security.openshift.io/v1",
            "kind": "SecurityContextConstraints",
            "metadata": {"name": "kubevirt-handler", "labels": {"kubevirt.io": ""}},
            "allowPrivilegedContainer": true,
            "users": [format!("system:serviceaccount:{}:kubevirt-handler", release.namespace)],
        }),
        json!({
            "apiVersion": "instancetype.kubevirt.io/v1beta1",
            "kind": "VirtualMachineClusterInstancetype",
            "metadata": {"name": "u1.small", "labels": {"instancetype.kubevirt.io/size": "small"}},
            "spec": {"cpu": {"guest": 1}, "memory": {"guest": "2Gi"}},
        }),
        json!({
            "apiVersion": "instancetype.kubevirt.io/v1beta1",
            "kind": "VirtualMachineClusterPreference",
            "metadata": {
                "name": "linux",
                // Three hyphens at the start of a line within a text do not end a document.
                "annotations": {"openshift.io/display-name": "Linux\n---\nof any kind"},
                "labels": {"instancetype.kubevirt.io/os-type": "linux"},
            },
            "spec": {"devices": {"preferredDiskBus": "virtio", "preferredInterfaceModel": "virtio"}},
        }),
    ];
    // Real strategies have each of these twice.
    for name in BUNDLES.iter().chain(&BUNDLES) {
        objects.push(json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": release.namespace, "labels": {}},
        }));
    }
    objects.push(json!({
        "apiVersion": "route.openshift.io/v1",
        "kind": "Route",
        "metadata": {"name": "virt-exportproxy", "namespace": release.namespace, "labels": {"kubevirt.io": "virt-exportproxy"}},
        "spec": {
            "tls": {"insecureEdgeTerminationPolicy": "Redirect", "termination": "reencrypt"},
            "to": {"kind": "Service", "name": "virt-exportproxy"},
        },
    }));
    objects
}

fn definition(group: &str, version: &str, kind: &str, plural: &str, scope: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}"), "labels": {"kubevirt.io": ""}},
        "spec": {
            "group": group,
            "names": {
                "kind": kind,
                "listKind": format!("{kind}List"),
                "plural": plural,
                "singular": kind.to_lowercase(),
            },
            "scope": scope,
            "versions": [{
                "name": version,
                "served": true,
                "storage": true,
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "x-kubernetes-preserve-unknown-fields": true,
                }},
            }],
        },
    })
}

fn services(release: &Release<'_>) -> Vec<Value> {
    let port = |name: Option<&str>, target: Value| {
        let mut port = json!({"port": 443, "protocol": "TCP", "targetPort": target});
        if let Some(name) = name {
            port["name"] = name.into();
        }
        json!([port])
    };
    let service = |name: &str, label: &str, spec: Value| {
        json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": name, "namespace": release.namespace, "labels": {"kubevirt.io": label}},
            "spec": spec,
        })
    };
    let mut metrics = service(
        "kubevirt-prometheus-metrics",
        "",
        json!({
            "type": "ClusterIP",
            "clusterIP": "None",
            "ports": port(Some("metrics"), "metrics".into()),
            "selector": {"prometheus.kubevirt.io": "true"},
        }),
    );
    metrics["metadata"]["labels"]["prometheus.kubevirt.io"] = "true".into();
    let mut services = vec![metrics];
    for (name, component, name_of_port, target) in [
        ("virt-api", "virt-api", None, json!(8443)),
        (
            "kubevirt-operator-webhook",
            "virt-operator",
            Some("webhooks"),
            json!("webhooks"),
        ),
        ("virt-exportproxy", "virt-exportproxy", None, json!(8443)),
    ] {
        services.push(service(
            name,
            component,
            json!({
                "type": "ClusterIP",
                "ports": port(name_of_port, target),
                "selector": {"kubevirt.io": component},
            }),
        ));
    }
    if release.has_plugins() {
        services.push(service(
            "kubevirt-plugins",
            "virt-controller",
            json!({
                "type": "ClusterIP",
                "ports": port(Some("plugins"), 8443.into()),
                "selector": {"kubevirt.io": "virt-controller"},
            }),
        ));
    }
    services
}

/// Prometheus objects, if the configuration names a monitoring namespace.
fn monitoring(release: &Release<'_>) -> Vec<Value> {
    let Some(namespace) = release
        .property("MonitorNamespace")
        .filter(|namespace| !namespace.is_empty())
    else {
        return Vec::new();
    };
    let monitors = match release.property("ServiceMonitorNamespace") {
        None | Some("") => namespace,
        Some(given) => given,
    };
    let labels = json!({"k8s-app": "kubevirt", "prometheus.kubevirt.io": "true"});
    vec![
        json!({
            // Without a version, as in real strategies.
            "apiVersion": "monitoring.coreos.com",
            "kind": "ServiceMonitor",
            "metadata": {"name": "prometheus-kubevirt-rules", "namespace": monitors, "labels": labels},
            "spec": {
                "endpoints": [{"port": "metrics", "scheme": "https", "tlsConfig": {"insecureSkipVerify": true}}],
                "namespaceSelector": {"matchNames": [release.namespace]},
                "selector": {"matchLabels": {"prometheus.kubevirt.io": "true"}},
            },
        }),
        json!({
            "apiVersion": "monitoring.coreos.com/v1",
            "kind": "PrometheusRule",
            "metadata": {"name": "prometheus-kubevirt-rules", "namespace": release.namespace, "labels": labels},
            "spec": {"groups": [{"name": "kubevirt.rules", "rules": [{
                "alert": "VirtAPIDown",
                "expr": "cluster:kubevirt_virt_api_up:sum == 0",
                "for": "10m",
            }]}]},
        }),
    ]
}
