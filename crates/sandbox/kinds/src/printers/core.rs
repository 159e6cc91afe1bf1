//! Printers of the core group and of Events.

use serde_json::{Value, json};

use super::{AGE, CREATED, Column, NAME, Row, first_three, none_if_empty, pod};
use crate::{
    Kind, convert_event, selector,
    value::{at, has, int, list, map, text},
};

const EVENT: &[Column] = &[
    Column::text("Last Seen", "The time since it was last seen"),
    Column::text("Type", "Normal or Warning"),
    Column::text("Reason", "Why, in one word"),
    Column::text("Object", "What it is about"),
    Column::text("Subobject", "What part of the object it is about").wide(),
    Column::text("Source", "Who reports it").wide(),
    Column::text("Message", "What happened"),
    Column::text("First Seen", "The time since it was first seen").wide(),
    Column::text("Count", "How many times it was seen").wide(),
    NAME.wide(),
];

pub(super) fn columns(kind: &Kind) -> Option<&'static [Column]> {
    Some(match (kind.group, kind.kind) {
        ("", "Pod") => pod::COLUMNS,
        ("" | "events.k8s.io", "Event") => EVENT,
        ("", "Namespace") => {
            const { &[NAME, Column::text("Status", "Active or Terminating"), AGE] }
        }
        ("", "ConfigMap") => {
            const { &[NAME, Column::text("Data", "How many entries it has"), AGE] }
        }
        ("", "Secret") => {
            const {
                &[
                    NAME,
                    Column::text("Type", "What it is for"),
                    Column::text("Data", "How many entries it has"),
                    AGE,
                ]
            }
        }
        ("", "ServiceAccount") => const { &[NAME, AGE] },
        ("", "LimitRange") => const { &[NAME, CREATED] },
        ("", "ResourceQuota") => {
            const {
                &[
                    NAME,
                    Column::text("Request", "Requests used and allowed"),
                    Column::text("Limit", "Limits used and allowed"),
                    AGE,
                ]
            }
        }
        ("", "Endpoints") => {
            const { &[NAME, Column::text("Endpoints", "Addresses and ports"), AGE] }
        }
        ("", "PodTemplate") => {
            const {
                &[
                    NAME,
                    Column::text("Containers", "The names of the containers"),
                    Column::text("Images", "The images of the containers"),
                    Column::text("Pod Labels", "The labels of the pods"),
                ]
            }
        }
        ("", "Service") => {
            const {
                &[
                    NAME,
                    Column::text("Type", "How it is reached"),
                    Column::text("Cluster-IP", "Its address in the cluster"),
                    Column::text("External-IP", "Its address outside of the cluster"),
                    Column::text("Port(s)", "Its ports"),
                    AGE,
                    Column::text("Selector", "The labels that select the pods").wide(),
                ]
            }
        }
        ("", "Node") => {
            const {
                &[
                    NAME,
                    Column::text("Status", "Whether it is ready"),
                    Column::text("Roles", "What it is for"),
                    AGE,
                    Column::text("Version", "The kubelet's version"),
                    Column::text("Internal-IP", "Its address in the cluster").wide(),
                    Column::text("External-IP", "Its address outside of the cluster").wide(),
                    Column::text("OS-Image", "Its operating system").wide(),
                    Column::text("Kernel-Version", "Its kernel").wide(),
                    Column::text("Container-Runtime", "What runs its containers").wide(),
                ]
            }
        }
        _ => return None,
    })
}

pub(super) fn cells(kind: &Kind, row: Row<'_>) -> Option<Vec<Value>> {
    Some(match (kind.group, kind.kind) {
        ("", "Pod") => pod::cells(row),
        ("", "Event") => event(row),
        ("events.k8s.io", "Event") => {
            let object = convert_event(row.object, "");
            event(Row {
                object: &object,
                now: row.now,
            })
        }
        ("", "Namespace") => vec![row.name(), row.text("status.phase").into(), row.age()],
        ("", "ConfigMap") => {
            let entries = map(row.object, "data").len() + map(row.object, "binaryData").len();
            vec![row.name(), entries.into(), row.age()]
        }
        ("", "Secret") => vec![
            row.name(),
            row.text("type").into(),
            row.count("data"),
            row.age(),
        ],
        ("", "ServiceAccount") => vec![row.name(), row.age()],
        ("", "LimitRange") => vec![row.name(), row.created()],
        ("", "ResourceQuota") => quota(row),
        ("", "Endpoints") => vec![row.name(), endpoints(row).into(), row.age()],
        ("", "PodTemplate") => {
            let [names, images] = row.containers("template.spec.containers");
            let labels = selector::labels_text(at(row.object, "template.metadata.labels"));
            vec![row.name(), names, images, none_if_empty(labels)]
        }
        ("", "Service") => service(row),
        ("", "Node") => node(row),
        _ => return None,
    })
}

fn event(row: Row<'_>) -> Vec<Value> {
    let first = match row.time("firstTimestamp") {
        Some(_) => row.since("firstTimestamp"),
        None => row.since("eventTime"),
    };
    let (last, count) = if has(row.object, "series") {
        (
            row.since("series.lastObservedTime"),
            int(row.object, "series.count"),
        )
    } else {
        let last = match row.time("lastTimestamp") {
            Some(_) => row.since("lastTimestamp"),
            None => first.clone(),
        };
        (last, int(row.object, "count").max(1))
    };
    let kind = row.text("involvedObject.kind").to_lowercase();
    let target = match row.text("involvedObject.name") {
        "" => kind,
        name => format!("{kind}/{name}"),
    };
    let either = |first: &str, second: &str| match row.text(first) {
        "" => row.text(second).to_owned(),
        text => text.to_owned(),
    };
    let component = either("source.component", "reportingComponent");
    let source = match either("source.host", "reportingInstance").as_str() {
        "" => component,
        instance => format!("{component}, {instance}"),
    };
    vec![
        last.into(),
        row.text("type").into(),
        row.text("reason").into(),
        target.into(),
        row.text("involvedObject.fieldPath").into(),
        source.into(),
        row.text("message").trim().into(),
        first.into(),
        count.into(),
        row.name(),
    ]
}

fn quota(row: Row<'_>) -> Vec<Value> {
    let used = map(row.object, "status.used");
    let amounts = |limits: bool| {
        let hard = map(row.object, "status.hard").iter();
        let parts: Vec<String> = hard
            .filter(|(name, _)| name.starts_with("limits.") == limits)
            .map(|(name, hard)| {
                let used = used.get(name).and_then(Value::as_str).unwrap_or("0");
                format!("{name}: {used}/{}", hard.as_str().unwrap_or_default())
            })
            .collect();
        Value::from(parts.join(", "))
    };
    vec![row.name(), amounts(false), amounts(true), row.age()]
}

fn endpoints(row: Row<'_>) -> String {
    let mut all = Vec::new();
    for subset in list(row.object, "subsets") {
        let addresses = || {
            list(subset, "addresses")
                .iter()
                .map(|address| text(address, "ip"))
        };
        let ports = list(subset, "ports");
        if ports.is_empty() {
            all.extend(addresses().map(str::to_owned));
        }
        for port in ports {
            all.extend(addresses().map(|ip| host_port(ip, int(port, "port"))));
        }
    }
    match list(row.object, "subsets") {
        [] => "<none>".to_owned(),
        _ => first_three(&all, ""),
    }
}

fn host_port(ip: &str, port: i64) -> String {
    if ip.contains(':') {
        format!("[{ip}]:{port}")
    } else {
        format!("{ip}:{port}")
    }
}

fn service(row: Row<'_>) -> Vec<Value> {
    let external: Vec<&str> = list(row.object, "spec.externalIPs")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let outside = match row.text("spec.type") {
        "ExternalName" => row.text("spec.externalName").to_owned(),
        "LoadBalancer" => {
            let mut addresses = balancer(row);
            addresses.extend(external.iter().map(|&ip| ip.to_owned()));
            match addresses.as_slice() {
                [] => "<pending>".to_owned(),
                _ => addresses.join(","),
            }
        }
        "ClusterIP" | "NodePort" if external.is_empty() => "<none>".to_owned(),
        "ClusterIP" | "NodePort" => external.join(","),
        _ => "<unknown>".to_owned(),
    };
    let ports: Vec<String> = list(row.object, "spec.ports")
        .iter()
        .map(|port| match int(port, "nodePort") {
            0 => format!("{}/{}", int(port, "port"), text(port, "protocol")),
            node => format!("{}:{node}/{}", int(port, "port"), text(port, "protocol")),
        })
        .collect();
    let inside = list(row.object, "spec.clusterIPs").first().cloned();
    vec![
        row.name(),
        row.text("spec.type").into(),
        inside.unwrap_or_else(|| "<none>".into()),
        outside.into(),
        none_if_empty(ports.join(",")),
        row.age(),
        none_if_empty(selector::labels_text(at(row.object, "spec.selector"))),
    ]
}

pub(super) fn balancer(row: Row<'_>) -> Vec<String> {
    let ingress = list(row.object, "status.loadBalancer.ingress").iter();
    let mut addresses: Vec<String> = ingress
        .map(|ingress| match text(ingress, "ip") {
            "" => text(ingress, "hostname").to_owned(),
            ip => ip.to_owned(),
        })
        .filter(|address| !address.is_empty())
        .collect();
    addresses.sort();
    addresses.dedup();
    addresses
}

fn node(row: Row<'_>) -> Vec<Value> {
    let mut status = match row.condition("Ready") {
        "" => "Unknown".to_owned(),
        "True" => "Ready".to_owned(),
        _ => "NotReady".to_owned(),
    };
    if row.truth("spec.unschedulable") == json!(true) {
        status.push_str(",SchedulingDisabled");
    }
    let mut roles: Vec<&str> = map(row.object, "metadata.labels")
        .iter()
        .filter_map(
            |(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
                Some(role) => Some(role),
                None if key == "kubernetes.io/role" => value.as_str(),
                None => None,
            },
        )
        .filter(|role| !role.is_empty())
        .collect();
    roles.sort_unstable();
    roles.dedup();
    let address = |type_: &str| {
        let addresses = list(row.object, "status.addresses").iter();
        let mut of_type = addresses.filter(|address| text(address, "type") == type_);
        of_type
            .next()
            .map_or("<none>", |address| text(address, "address"))
    };
    let info = |field: &str| row.or(&format!("status.nodeInfo.{field}"), "<unknown>");
    let kernel = match (
        info("kernelVersion").as_str(),
        row.text("status.nodeInfo.architecture"),
    ) {
        (kernel, "") => kernel.unwrap_or_default().to_owned(),
        (kernel, architecture) => format!("{} ({architecture})", kernel.unwrap_or_default()),
    };
    vec![
        row.name(),
        status.into(),
        none_if_empty(roles.join(",")),
        row.age(),
        row.text("status.nodeInfo.kubeletVersion").into(),
        address("InternalIP").into(),
        address("ExternalIP").into(),
        info("osImage"),
        kernel.into(),
        info("containerRuntimeVersion"),
    ]
}
