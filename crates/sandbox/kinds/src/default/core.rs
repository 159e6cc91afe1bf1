//! Defaults of the core group.

use serde_json::{Value, json};

use super::Fields;
use crate::value::{child, set_default, set_number};

/// Returns false for other components.
pub(super) fn set(component: &str, fields: &mut Fields) -> bool {
    let Some(name) = component.strip_prefix("io.k8s.api.core.v1.") else {
        return false;
    };
    match name {
        "Pod" => pod(fields),
        "PodSpec" => pod_spec(fields),
        "PodStatus" => pod_status(fields),
        "Container" | "EphemeralContainer" => container(fields),
        "Volume" => volume(fields),
        "Probe" => {
            set_number(fields, "timeoutSeconds", 1);
            set_number(fields, "periodSeconds", 10);
            set_number(fields, "successThreshold", 1);
            set_number(fields, "failureThreshold", 3);
        }
        "HTTPGetAction" => {
            set_default(fields, "path", "/");
            set_default(fields, "scheme", "HTTP");
        }
        "SecretVolumeSource"
        | "ConfigMapVolumeSource"
        | "DownwardAPIVolumeSource"
        | "ProjectedVolumeSource" => set_default(fields, "defaultMode", 0o644),
        "ServiceAccountTokenProjection" => set_default(fields, "expirationSeconds", 3600),
        "HostPathVolumeSource" => set_default(fields, "type", ""),
        "ObjectFieldSelector" => set_default(fields, "apiVersion", "v1"),
        "Secret" => set_default(fields, "type", "Opaque"),
        "Service" => service(fields),
        "PersistentVolume" => {
            if let Some(status) = child(fields, "status") {
                set_default(status, "phase", "Pending");
            }
            if let Some(spec) = child(fields, "spec") {
                set_default(spec, "persistentVolumeReclaimPolicy", "Retain");
                set_default(spec, "volumeMode", "Filesystem");
            }
        }
        "PersistentVolumeClaim" => {
            if let Some(status) = child(fields, "status") {
                set_default(status, "phase", "Pending");
            }
        }
        "PersistentVolumeClaimSpec" => set_default(fields, "volumeMode", "Filesystem"),
        "EndpointPort" => set_default(fields, "protocol", "TCP"),
        "Namespace" => namespace(fields),
        "NamespaceStatus" => set_default(fields, "phase", "Active"),
        "NodeStatus" => {
            if let (None, Some(capacity)) = (fields.get("allocatable"), fields.get("capacity")) {
                let capacity = capacity.clone();
                fields.insert("allocatable".to_owned(), capacity);
            }
        }
        // The deprecated and the current field must agree.
        "NodeSpec" => {
            if let Some(first) = fields.get("podCIDR").cloned() {
                set_default(fields, "podCIDRs", json!([first]));
            }
        }
        "LimitRangeItem" => limit_range_item(fields),
        "ReplicationController" => replication_controller(fields),
        _ => return false,
    }
    true
}

fn pod(fields: &mut Fields) {
    let Some(spec) = child(fields, "spec") else {
        return;
    };
    set_default(spec, "enableServiceLinks", true);
    let grace = spec
        .get("terminationGracePeriodSeconds")
        .and_then(Value::as_i64);
    if grace.is_some_and(|grace| grace < 0) {
        spec.insert("terminationGracePeriodSeconds".to_owned(), 1.into());
    }
    let on_host = spec.get("hostNetwork") == Some(&Value::Bool(true));
    for name in ["containers", "initContainers"] {
        for container in spec
            .get_mut(name)
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
        {
            if let Some(container) = container.as_object_mut() {
                requests_from_limits(container);
                if on_host {
                    host_ports(container);
                }
            }
        }
    }
}

/// Requests default to limits.
fn requests_from_limits(container: &mut Fields) {
    let Some(resources) = container
        .get_mut("resources")
        .and_then(Value::as_object_mut)
    else {
        return;
    };
    let limits = resources.get("limits").and_then(Value::as_object).cloned();
    for (name, amount) in limits.unwrap_or_default() {
        if let Some(requests) = child(resources, "requests") {
            set_default(requests, &name, amount);
        }
    }
}

fn host_ports(container: &mut Fields) {
    for port in container
        .get_mut("ports")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        if let Some(port) = port.as_object_mut() {
            let inner = port
                .get("containerPort")
                .and_then(Value::as_i64)
                .unwrap_or_default();
            set_number(port, "hostPort", inner);
        }
    }
}

fn pod_spec(spec: &mut Fields) {
    if let Some(account) = spec.get("serviceAccount").cloned() {
        set_default(spec, "serviceAccountName", account);
    }
    if let Some(account) = spec.get("serviceAccountName").cloned() {
        spec.insert("serviceAccount".to_owned(), account);
    }
    set_default(spec, "dnsPolicy", "ClusterFirst");
    set_default(spec, "restartPolicy", "Always");
    set_default(spec, "securityContext", json!({}));
    set_default(spec, "terminationGracePeriodSeconds", 30);
    set_default(spec, "schedulerName", "default-scheduler");
}

fn pod_status(status: &mut Fields) {
    let first = status
        .get("podIPs")
        .and_then(|ips| ips.get(0)?.get("ip"))
        .cloned();
    match (status.get("podIP").cloned(), first) {
        (Some(ip), first) if first.as_ref() != Some(&ip) => {
            status.insert("podIPs".to_owned(), json!([{"ip": ip}]));
        }
        (None, Some(first)) => {
            status.insert("podIP".to_owned(), first);
        }
        _ => {}
    }
}

fn container(container: &mut Fields) {
    let policy = pull_policy(container.get("image"));
    set_default(container, "imagePullPolicy", policy);
    set_default(container, "terminationMessagePath", "/dev/termination-log");
    set_default(container, "terminationMessagePolicy", "File");
}

fn pull_policy(image: Option<&Value>) -> &'static str {
    let image = image.and_then(Value::as_str).unwrap_or_default();
    if is_latest(image) {
        "Always"
    } else {
        "IfNotPresent"
    }
}

/// Whether the image has no digest and no tag but `latest`.
fn is_latest(image: &str) -> bool {
    if image.contains('@') {
        return false;
    }
    let last = image.rsplit('/').next().unwrap_or_default();
    match last.split_once(':') {
        Some((_, tag)) => tag == "latest",
        None => !image.is_empty(),
    }
}

fn volume(volume: &mut Fields) {
    if volume.keys().all(|field| field == "name") {
        volume.insert("emptyDir".to_owned(), json!({}));
    }
    if let Some(image) = volume.get_mut("image").and_then(Value::as_object_mut) {
        let policy = pull_policy(image.get("reference"));
        set_default(image, "pullPolicy", policy);
    }
}

fn service(fields: &mut Fields) {
    let Some(spec) = child(fields, "spec") else {
        return;
    };
    set_default(spec, "sessionAffinity", "None");
    match spec.get("sessionAffinity").and_then(Value::as_str) {
        Some("None") => {
            spec.remove("sessionAffinityConfig");
        }
        Some("ClientIP") => {
            let timeout = spec
                .get("sessionAffinityConfig")
                .and_then(|config| config.get("clientIP")?.get("timeoutSeconds"));
            if timeout.is_none() {
                let config = json!({"clientIP": {"timeoutSeconds": 10800}});
                spec.insert("sessionAffinityConfig".to_owned(), config);
            }
        }
        _ => {}
    }
    set_default(spec, "type", "ClusterIP");
    for port in spec
        .get_mut("ports")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        if let Some(port) = port.as_object_mut() {
            let number = port.get("port").cloned().unwrap_or_default();
            set_default(port, "protocol", "TCP");
            if port
                .get("targetPort")
                .is_none_or(|target| *target == 0 || *target == "")
            {
                port.insert("targetPort".to_owned(), number);
            }
        }
    }
    let kind = spec
        .get("type")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    let has_addresses = spec
        .get("externalIPs")
        .and_then(Value::as_array)
        .is_some_and(|ips| !ips.is_empty());
    let reachable = matches!(kind.as_str(), "NodePort" | "LoadBalancer")
        || (kind == "ClusterIP" && has_addresses);
    if reachable {
        set_default(spec, "externalTrafficPolicy", "Cluster");
    }
    if matches!(kind.as_str(), "NodePort" | "LoadBalancer" | "ClusterIP") {
        set_default(spec, "internalTrafficPolicy", "Cluster");
    }
    if kind == "LoadBalancer" {
        set_default(spec, "allocateLoadBalancerNodePorts", true);
        let ingress = fields.get_mut("status").and_then(|status| {
            status
                .get_mut("loadBalancer")?
                .get_mut("ingress")?
                .as_array_mut()
        });
        for ingress in ingress
            .into_iter()
            .flatten()
            .filter_map(Value::as_object_mut)
        {
            if ingress.contains_key("ip") {
                set_default(ingress, "ipMode", "VIP");
            }
        }
    }
}

fn namespace(fields: &mut Fields) {
    let Some(metadata) = child(fields, "metadata") else {
        return;
    };
    let name = metadata
        .get("name")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    if !name.is_empty()
        && let Some(labels) = child(metadata, "labels")
    {
        labels.insert("kubernetes.io/metadata.name".to_owned(), name.into());
    }
}

fn limit_range_item(item: &mut Fields) {
    if item.get("type") != Some(&json!("Container")) {
        return;
    }
    for (from, to) in [
        ("max", "default"),
        ("default", "defaultRequest"),
        ("min", "defaultRequest"),
    ] {
        for (name, amount) in item
            .get(from)
            .and_then(Value::as_object)
            .cloned()
            .unwrap_or_default()
        {
            if let Some(target) = child(item, to) {
                set_default(target, &name, amount);
            }
        }
    }
}

fn replication_controller(fields: &mut Fields) {
    let labels = fields
        .get("spec")
        .and_then(|spec| spec.get("template")?.get("metadata")?.get("labels"))
        .cloned();
    if let Some(labels) = labels {
        if let Some(spec) = child(fields, "spec") {
            set_default(spec, "selector", labels.clone());
        }
        if let Some(metadata) = child(fields, "metadata") {
            set_default(metadata, "labels", labels);
        }
    }
}
