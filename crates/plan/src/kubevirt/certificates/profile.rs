//! Profiles of certificates by Secret.

use crate::certificates::{Profile, Usage};

/// Secret of the CA that signs the components' certificates, and ConfigMap with its bundle.
pub const CA: &str = "kubevirt-ca";

/// Secrets of CAs; the ConfigMaps with their bundles have the same names. virt-controller signs with
/// all but the first.
pub const AUTHORITIES: [&str; 3] = [CA, "kubevirt-export-ca", "kubevirt-backup-ca"];

/// Servers with a common name after their Service: Secret and Service.
const SERVICES: [(&str, &str); 7] = [
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

/// Servers with a common name after their role: Secret and Service.
const NODES: [(&str, &str); 2] = [
    ("kubevirt-virt-handler-server-certs", "virt-handler"),
    (
        "kubevirt-synchronization-controller-server-certs",
        "virt-synchronization-controller",
    ),
];

/// Clients: Secret and suffix of the common name.
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

/// Common names of CAs.
const NAMES: [(&str, &str); 3] = [
    (CA, "kubevirt.io"),
    ("kubevirt-export-ca", "export.kubevirt.io"),
    ("kubevirt-backup-ca", "backup.kubevirt.io"),
];

/// The profile of the certificate of a Secret. For an unknown Secret of a later release it follows from
/// the name: with the suffix `-ca` a CA, with the part `client` a client, otherwise the server of the
/// Service of that name.
pub fn profile(secret: &str, namespace: &str) -> Profile {
    known(secret, namespace).unwrap_or_else(|| guess(secret, namespace))
}

/// Warning about a Secret with an unknown name.
pub fn note(secret: &str, namespace: &str) -> Option<String> {
    if known(secret, namespace).is_some() {
        return None;
    }
    let Profile { common_name, .. } = guess(secret, namespace);
    Some(format!(
        "Secret {secret} is unknown: its certificate is issued for {common_name}"
    ))
}

fn known(secret: &str, namespace: &str) -> Option<Profile> {
    let find = |table: &[(&str, &'static str)]| {
        let found = table.iter().find(|(name, _)| *name == secret);
        found.map(|(_, value)| *value)
    };
    if let Some(name) = find(&NAMES) {
        return Some(authority(name.to_owned()));
    }
    if let Some(name) = find(&SERVICES) {
        return Some(service(name, namespace));
    }
    if let Some(service) = find(&NODES) {
        return Some(Profile {
            common_name: format!("kubevirt.io:system:node:{service}"),
            dns_names: names(service, namespace),
            usage: Usage::Server,
        });
    }
    find(&CLIENTS).map(client)
}

fn guess(secret: &str, namespace: &str) -> Profile {
    let stem = secret.strip_prefix("kubevirt-").unwrap_or(secret);
    if let Some(name) = stem.strip_suffix("-ca") {
        return authority(format!("{name}.kubevirt.io"));
    }
    let stem = stem.strip_suffix("-certs").unwrap_or(stem);
    if stem.split('-').any(|word| word == "client") {
        return client(stem.strip_suffix("-client").unwrap_or(stem));
    }
    service(stem.strip_suffix("-server").unwrap_or(stem), namespace)
}

fn authority(common_name: String) -> Profile {
    Profile {
        common_name,
        dns_names: Vec::new(),
        usage: Usage::Ca,
    }
}

fn service(service: &str, namespace: &str) -> Profile {
    Profile {
        common_name: format!("{service}.{namespace}.pod.cluster.local"),
        dns_names: names(service, namespace),
        usage: Usage::Server,
    }
}

fn client(name: &str) -> Profile {
    Profile {
        common_name: format!("kubevirt.io:system:client:{name}"),
        dns_names: Vec::new(),
        usage: Usage::Client,
    }
}

/// DNS names of a Service.
fn names(service: &str, namespace: &str) -> Vec<String> {
    vec![
        service.to_owned(),
        format!("{service}.{namespace}"),
        format!("{service}.{namespace}.svc"),
        format!("{service}.{namespace}.svc.cluster.local"),
    ]
}
