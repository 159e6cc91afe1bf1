//! Network interfaces.

mod namespace;
pub(super) mod spec_address;
mod static_address;

pub(in crate::machine) use namespace::generated_mac;
pub use namespace::vlan_of;
pub(super) use static_address::network_data;

use std::collections::BTreeMap;

use api::{MachineNetwork, Network, NetworkConfiguration, NetworkModel};

use super::{Findings, first_duplicate};
use crate::{
    machine::{
        Attachment, ErrorType, Identity, Known, Lookup, ResolvedInterface, ResolvedNamespace,
        SpecError, Surroundings,
    },
    naming,
};

pub(super) fn resolve(
    networks: Option<&[Network]>,
    network: Option<&MachineNetwork>,
    machine: &Identity,
    surroundings: &Surroundings,
    findings: &mut Findings,
) -> (Vec<ResolvedInterface>, Option<ResolvedNamespace>) {
    let networks = networks.unwrap_or_default();
    if let Some(name) = network.and_then(network_namespace) {
        if !networks.is_empty() {
            findings.invalid(
                "spec.network.networkNamespaceName",
                "networks and network.networkNamespaceName say the same thing: give one or the other",
            );
        }
        let (interface, namespace) = namespace::resolve(name, machine, surroundings, findings);
        return (interface.into_iter().collect(), Some(namespace));
    }
    let interfaces = by_name(networks, machine, &surroundings.networks, findings);
    (interfaces, None)
}

/// The NetworkNamespace that a Machine names.
pub fn network_namespace(network: &MachineNetwork) -> Option<&str> {
    let MachineNetwork {
        network_namespace_name,
        // For other providers.
        vpc: _,
        subnet: _,
        assign_public_ip: _,
        public_ip: _,
        private_ip: _,
        interfaces: _,
    } = network;
    let name = network_namespace_name.as_deref();
    name.filter(|name| !name.is_empty())
}

fn by_name(
    networks: &[Network],
    machine: &Identity,
    known: &Known<NetworkConfiguration>,
    findings: &mut Findings,
) -> Vec<ResolvedInterface> {
    if networks.is_empty() {
        return vec![ResolvedInterface {
            name: naming::POD_INTERFACE.to_owned(),
            attachment: Attachment::PodNetwork,
            model: NetworkModel::Virtio,
            mac_address: None,
            boot_order: None,
        }];
    }
    if let Some((index, name)) =
        first_duplicate(networks.iter().map(|network| network.name.as_str()))
    {
        findings.invalid(
            format!("spec.networks[{index}].name"),
            format!("{name:?} is a duplicate: give each network a unique name"),
        );
    }
    check_mac_addresses(networks, findings);
    check_names(networks, findings);
    spec_address::check(networks, findings);
    // Cloud-init recognizes interfaces by their addresses.
    let are_named = spec_address::are_given(Some(networks));
    let uid = machine.uid.as_deref().filter(|_| are_named);
    networks
        .iter()
        .enumerate()
        .map(|(index, network)| {
            check_exists(index, network, known, findings);
            ResolvedInterface {
                name: network.name.clone(),
                attachment: match &network.network_name {
                    Some(name) => Attachment::Network(name.clone()),
                    None => Attachment::PodNetwork,
                },
                model: network.model.unwrap_or(NetworkModel::Virtio),
                mac_address: network
                    .mac_address
                    .clone()
                    .or_else(|| Some(namespace::generated_mac_of(uid?, &network.name))),
                boot_order: None,
            }
        })
        .collect()
}

fn check_names(networks: &[Network], findings: &mut Findings) {
    for (index, network) in networks.iter().enumerate() {
        let name = network.name.as_bytes();
        let inner = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        let outer = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
        let fine = outer(name.first()) && outer(name.last()) && name.iter().all(inner);
        if !fine || name.len() > 63 {
            findings.invalid(
                format!("spec.networks[{index}].name"),
                "must have letters, digits, '-' and '_' only, at most 63",
            );
        }
        let is_pod = network.pod == Some(true);
        if is_pod == network.network_name.is_some() {
            findings.invalid(
                format!("spec.networks[{index}].networkName"),
                "give either networkName, or pod: true for the pod network",
            );
        }
        let mut earlier = networks.iter().take(index);
        if is_pod && earlier.any(|it| it.pod == Some(true)) {
            findings.invalid(
                format!("spec.networks[{index}].pod"),
                "is the second interface on the pod network, of which a machine has one: remove it",
            );
        }
        let name = network.network_name.as_deref();
        if name.is_some_and(|name| !naming::is_dns_name(name)) {
            findings.invalid(
                format!("spec.networks[{index}].networkName"),
                "must be a DNS name, as the names of NetworkConfigurations are",
            );
        }
    }
}

fn check_exists(
    index: usize,
    network: &Network,
    known: &Known<NetworkConfiguration>,
    findings: &mut Findings,
) {
    let path = format!("spec.networks[{index}].networkName");
    let Some(name) = &network.network_name else {
        return;
    };
    match known.get(name) {
        Lookup::Found(_) => {}
        Lookup::Missing => {
            let message = format!(
                "no NetworkConfiguration is named {name:?} in this namespace: create it, or name another"
            );
            let error = SpecError::new(ErrorType::NetworkConfigurationNotFound, path, message);
            findings.error(error.in_reference());
        }
        Lookup::Unknown => findings.note(
            path,
            format!("NetworkConfiguration {name:?} is not checked"),
        ),
    }
}

fn check_mac_addresses(networks: &[Network], findings: &mut Findings) {
    let mut users = BTreeMap::new();
    for (index, network) in networks.iter().enumerate() {
        let Some(mac) = &network.mac_address else {
            continue;
        };
        let path = format!("spec.networks[{index}].macAddress");
        if !is_unicast_mac(mac) {
            findings.invalid(
                path,
                format!("{mac:?} is not a unicast MAC address: give one such as 52:54:00:12:34:56"),
            );
        } else if let Some(other) = users.insert(mac.to_ascii_lowercase(), &network.name) {
            findings.invalid(
                path,
                format!("{mac:?} is also that of {other:?}: give each its own, or leave it out"),
            );
        }
    }
}

fn is_unicast_mac(mac: &str) -> bool {
    let mut octets = mac.split(':').map(|octet| {
        let hex = octet.len() == 2 && octet.bytes().all(|b| b.is_ascii_hexdigit());
        hex.then(|| u8::from_str_radix(octet, 16).ok()).flatten()
    });
    matches!(octets.next(), Some(Some(first)) if first & 1 == 0)
        && octets.by_ref().take(5).flatten().count() == 5
        && octets.next().is_none()
}
