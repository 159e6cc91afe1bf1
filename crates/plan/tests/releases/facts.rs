//! Certificates and feature gates of releases.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// Secrets of certificate authorities, and the group in their common name.
const AUTHORITIES: [(&str, &str); 3] = [
    ("kubevirt-ca", "kubevirt.io"),
    ("kubevirt-export-ca", "export.kubevirt.io"),
    ("kubevirt-backup-ca", "backup.kubevirt.io"),
];

/// Secrets of servers that are named after their Service.
const SERVERS: [(&str, &str); 7] = [
    ("kubevirt-operator-certs", "kubevirt-operator-webhook"),
    ("kubevirt-virt-api-certs", "virt-api"),
    ("kubevirt-controller-certs", "virt-controller"),
    ("kubevirt-exportproxy-certs", "virt-exportproxy"),
    (
        "kubevirt-virt-template-api-certs",
        "virt-template-api-service",
    ),
    (
        "kubevirt-virt-template-webhook-certs",
        "virt-template-webhook-service",
    ),
    (
        "kubevirt-virt-template-controller-metrics-certs",
        "virt-template-controller-manager-metrics-service",
    ),
];

/// Secrets of servers on nodes.
const NODES: [(&str, &str); 2] = [
    ("kubevirt-virt-handler-server-certs", "virt-handler"),
    (
        "kubevirt-synchronization-controller-server-certs",
        "virt-synchronization-controller",
    ),
];

const CLIENTS: [(&str, &str); 5] = [
    ("kubevirt-virt-handler-certs", "virt-handler"),
    ("kubevirt-virt-handler-migration-client-certs", "migration"),
    ("kubevirt-virt-handler-vsock-client-certs", "vsock"),
    (
        "kubevirt-virt-handler-monitoring-client-certs",
        "monitoring",
    ),
    (
        "kubevirt-synchronization-controller-certs",
        "virt-synchronization-controller",
    ),
];

pub(super) fn certificates() -> Vec<Value> {
    let secret = |name: &str, usage: &str, common_name: String, dns_names: Vec<String>| json!({ "secret": name, "type": usage, "CN": common_name, "dnsNames": dns_names });
    let dns_names = |service: &str| {
        ["", ".NS", ".NS.svc", ".NS.svc.cluster.local"]
            .map(|domain| format!("{service}{domain}"))
            .to_vec()
    };
    let mut secrets = Vec::new();
    for (name, group) in AUTHORITIES {
        secrets.push(secret(name, "CA", format!("{group}@1"), Vec::new()));
    }
    for (name, service) in SERVERS {
        let common_name = format!("{service}.NS.pod.cluster.local");
        secrets.push(secret(name, "server", common_name, dns_names(service)));
    }
    for (name, service) in NODES {
        let common_name = format!("kubevirt.io:system:node:{service}");
        secrets.push(secret(name, "server", common_name, dns_names(service)));
    }
    for (name, client) in CLIENTS {
        let common_name = format!("kubevirt.io:system:client:{client}");
        secrets.push(secret(name, "client", common_name, Vec::new()));
    }
    secrets
}

const RELEASES: [&str; 5] = ["v1.5.3", "v1.6.6", "v1.7.4", "v1.8.4", "v1.9.0"];

/// Gates with their state in each release: at least one for every way in which a state changes.
const GATES: [(&str, [&str; 5]); 10] = [
    ("AlignCPUs", ["Alpha"; 5]),
    ("CPUNodeDiscovery", ["GA"; 5]),
    ("ClusterProfiler", ["Alpha", "GA", "GA", "GA", "GA"]),
    ("CrossArchitectureVirtualization", ["", "", "", "", "Alpha"]),
    (
        "DeclarativeHotplugVolumes",
        ["", "Alpha", "Alpha", "Alpha", "Beta"],
    ),
    (
        "DisableMDEVConfiguration",
        ["Alpha", "Alpha", "Alpha", "Deprecated", "Deprecated"],
    ),
    ("DockerSELinuxMCSWorkaround", ["Deprecated"; 5]),
    ("ExpandDisks", ["Alpha", "Alpha", "Alpha", "Alpha", "GA"]),
    (
        "ExperimentalVirtiofsSupport",
        [
            "Deprecated",
            "Deprecated",
            "Deprecated",
            "Discontinued",
            "Discontinued",
        ],
    ),
    ("ExternalNetResourceInjection", ["", "", "", "Beta", "Beta"]),
];

pub(super) fn gates() -> BTreeMap<String, BTreeMap<String, String>> {
    let states = |states: [&str; 5]| {
        let states = RELEASES.into_iter().zip(states);
        let states = states.filter(|(_, state)| !state.is_empty());
        let states = states.map(|(release, state)| (release.to_owned(), state.to_owned()));
        states.collect()
    };
    let gates = GATES.into_iter();
    gates
        .map(|(gate, of)| (gate.to_owned(), states(of)))
        .collect()
}
