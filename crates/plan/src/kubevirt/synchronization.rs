//! Addresses of virt-synchronization-controller: those of its leader's pod.

use serde_json::Value;

use super::{
    object::Id,
    observed::{Observed, Pod},
};

const NAME: &str = "virt-synchronization-controller";

const PORT: u16 = 9185;

/// Annotation of Multus with the networks of a pod.
const NETWORKS: &str = "k8s.v1.cni.cncf.io/network-status";

/// The addresses; None without any.
pub(super) fn addresses(observed: &Observed<'_>) -> Option<Vec<String>> {
    let namespace = &observed.operator.namespace;
    observed
        .objects
        .get(&Id::new("apps", "Deployment", namespace, NAME))?;
    let lease = Id::new("coordination.k8s.io", "Lease", namespace, NAME);
    let lease = observed.objects.get(&lease)?.value();
    let holder = lease
        .pointer("/spec/holderIdentity")
        .and_then(Value::as_str)?;
    let pod = observed.pods.iter().find(|pod| pod.name == holder)?;
    if pod.deleting {
        return None;
    }
    let port = match &observed.kubevirt.spec.synchronization_port {
        Some(Value::String(text)) if !text.is_empty() => text.parse().ok()?,
        Some(Value::Number(number)) => u16::try_from(number.as_u64()?).ok()?,
        _ => PORT,
    };
    let of_network = of_migration_network(pod);
    let of_pod = || pod.addresses.clone();
    let hosts = of_network.unwrap_or_else(of_pod);
    let addresses = hosts.iter().map(|host| {
        if host.contains(':') {
            format!("[{host}]:{port}")
        } else {
            format!("{host}:{port}")
        }
    });
    let addresses: Vec<String> = addresses.collect();
    (!addresses.is_empty()).then_some(addresses)
}

/// The pod's addresses in the network for migrations, if it has one.
fn of_migration_network(pod: &Pod) -> Option<Vec<String>> {
    let networks: Value = serde_json::from_str(pod.annotations.get(NETWORKS)?).ok()?;
    let mut networks = networks.as_array()?.iter();
    let network = networks.find(|network| network["interface"] == "migration0")?;
    let addresses = network["ips"].as_array()?.iter();
    let addresses: Vec<String> = addresses
        .filter_map(|address| Some(address.as_str()?.to_owned()))
        .collect();
    (!addresses.is_empty()).then_some(addresses)
}
