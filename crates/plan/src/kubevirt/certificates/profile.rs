//! What is in the certificate of each Secret.

use super::Usage;

/// The Secret of the CA that signs the certificates of the components, and the ConfigMap with its
/// bundle.
pub const CA: &str = "kubevirt-ca";

/// The Secrets of CAs, each with a ConfigMap of the same name for its bundle. But for the first,
/// virt-controller signs with them.
pub const AUTHORITIES: [&str; 3] = [CA, "kubevirt-export-ca", "kubevirt-backup-ca"];

/// What is in the certificate of a Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Its common name; that of a CA is followed by `@` and the second it was made in.
    pub common_name: String,
    /// Its DNS names.
    pub dns_names: Vec<String>,
    /// What it is for.
    pub usage: Usage,
    /// Whether the name of the Secret is not known, and this was guessed from it.
    pub guessed: bool,
}

/// Servers whose common name is that of their service: Secret and service.
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

/// Servers that are known by what they are rather than by where they are: Secret and service.
const NODES: [(&str, &str); 2] = [
    ("kubevirt-virt-handler-server-certs", "virt-handler"),
    (
        "kubevirt-synchronization-controller-server-certs",
        "virt-synchronization-controller",
    ),
];

/// Clients: Secret and the end of the common name.
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

/// The common names of the CAs.
const NAMES: [(&str, &str); 3] = [
    (CA, "kubevirt.io"),
    ("kubevirt-export-ca", "export.kubevirt.io"),
    ("kubevirt-backup-ca", "backup.kubevirt.io"),
];

impl Profile {
    /// The profile of a Secret in that namespace. The name of one that a later release brings tells
    /// enough: what ends in `-ca` is a CA, what has `client` in it a client, and everything else the
    /// server of the service it is named after.
    pub fn of(secret: &str, namespace: &str) -> Self {
        let find = |table: &[(&str, &'static str)]| {
            let found = table.iter().find(|(name, _)| *name == secret);
            found.map(|(_, value)| *value)
        };
        if let Some(name) = find(&NAMES) {
            return Self::new(Usage::Ca, name.to_owned(), Vec::new());
        }
        if let Some(service) = find(&SERVICES) {
            return Self::service(service, namespace);
        }
        if let Some(service) = find(&NODES) {
            let name = format!("kubevirt.io:system:node:{service}");
            return Self::new(Usage::Server, name, names(service, namespace));
        }
        if let Some(client) = find(&CLIENTS) {
            return Self::client(client);
        }
        Self {
            guessed: true,
            ..Self::guess(secret, namespace)
        }
    }

    fn guess(secret: &str, namespace: &str) -> Self {
        let stem = secret.strip_prefix("kubevirt-").unwrap_or(secret);
        if let Some(name) = stem.strip_suffix("-ca") {
            return Self::new(Usage::Ca, format!("{name}.kubevirt.io"), Vec::new());
        }
        let stem = stem.strip_suffix("-certs").unwrap_or(stem);
        if stem.split('-').any(|word| word == "client") {
            return Self::client(stem.strip_suffix("-client").unwrap_or(stem));
        }
        Self::service(stem.strip_suffix("-server").unwrap_or(stem), namespace)
    }

    fn service(service: &str, namespace: &str) -> Self {
        let name = format!("{service}.{namespace}.pod.cluster.local");
        Self::new(Usage::Server, name, names(service, namespace))
    }

    fn client(name: &str) -> Self {
        let name = format!("kubevirt.io:system:client:{name}");
        Self::new(Usage::Client, name, Vec::new())
    }

    fn new(usage: Usage, common_name: String, dns_names: Vec<String>) -> Self {
        Self {
            common_name,
            dns_names,
            usage,
            guessed: false,
        }
    }
}

/// The names that a service is called by.
fn names(service: &str, namespace: &str) -> Vec<String> {
    vec![
        service.to_owned(),
        format!("{service}.{namespace}"),
        format!("{service}.{namespace}.svc"),
        format!("{service}.{namespace}.svc.cluster.local"),
    ]
}
