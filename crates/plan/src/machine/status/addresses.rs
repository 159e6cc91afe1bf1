//! IP addresses of a guest, in the order in which users want them.
//!
//! The guest controls what it reports. So the work is near-linear in the report, and the numbers of
//! addresses in the status and in the cache are bounded.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use api::{
    NetworkConfiguration, NetworkConfigurationInterface,
    kubevirt::{InstanceStatus, ObservedInstance, ObservedInterface},
};

/// Number of addresses in a status.
pub(super) const MAX_ADDRESSES: usize = 64;
/// Number of interfaces of a guest that are cached.
const MAX_INTERFACES: usize = 256;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Addresses {
    /// At most [`MAX_ADDRESSES`].
    pub(super) shown: Vec<String>,
    pub(super) has_more: bool,
}

/// The addresses of a guest's interfaces: first those of `interfaces`, in that order, then the rest. The
/// primary address of an interface comes first. Duplicates and link-local addresses are left out.
pub(super) fn addresses(status: &InstanceStatus, interfaces: &[&str]) -> Addresses {
    let ranks: BTreeMap<&str, usize> = interfaces.iter().copied().zip(0..).collect();
    let mut ordered: Vec<&ObservedInterface> = status.interfaces.iter().collect();
    ordered.sort_by_key(|interface| {
        let rank = interface.name.as_deref().and_then(|name| ranks.get(name));
        rank.copied().unwrap_or(usize::MAX)
    });
    let all = ordered.into_iter().flat_map(of_interface);
    let mut shown: Vec<String> = distinct(all).take(MAX_ADDRESSES + 1).cloned().collect();
    let has_more = shown.len() > MAX_ADDRESSES;
    shown.truncate(MAX_ADDRESSES);
    Addresses { shown, has_more }
}

/// Adds the addresses in the Machine's ledger that the guest does not report: a guest without an agent
/// on a bridge reports none.
pub(super) fn with_ledger_addresses(
    mut addresses: Addresses,
    ledger: Option<&NetworkConfiguration>,
) -> Addresses {
    let status = ledger.and_then(|ledger| ledger.status.as_ref());
    let interfaces = status.and_then(|status| status.network_interfaces.as_deref());
    let of_interface = |interface: &NetworkConfigurationInterface| {
        let v4 = interface.ipv4_addresses.clone().unwrap_or_default();
        let v6 = interface.ipv6_addresses.clone().unwrap_or_default();
        v4.into_iter().chain(v6)
    };
    let recorded = interfaces.unwrap_or_default().iter().flat_map(of_interface);
    for address in recorded.take(MAX_ADDRESSES) {
        if !reaches_others(&address) || addresses.shown.contains(&address) {
            continue;
        }
        if addresses.shown.len() == MAX_ADDRESSES {
            addresses.has_more = true;
            break;
        }
        addresses.shown.push(address);
    }
    addresses
}

/// Drops addresses that no status shows: link-local addresses, duplicates, and all beyond
/// `MAX_ADDRESSES` + 1.
pub fn trim_addresses(instance: &mut ObservedInstance) {
    let interfaces = &mut instance.status.interfaces;
    for interface in interfaces.iter_mut() {
        let kept = distinct(of_interface(interface)).take(MAX_ADDRESSES + 1);
        let kept: Vec<String> = kept.cloned().collect();
        interface.ip_address = None;
        interface.ip_addresses = kept;
    }
    interfaces.retain(|interface| interface.name.is_some() || !interface.ip_addresses.is_empty());
    if interfaces.len() > MAX_INTERFACES {
        // Interfaces of the spec have a name: the guest cannot crowd them out.
        interfaces.sort_by_key(|interface| interface.name.is_none());
        interfaces.truncate(MAX_INTERFACES);
    }
}

fn of_interface(interface: &ObservedInterface) -> impl Iterator<Item = &String> {
    interface.ip_address.iter().chain(&interface.ip_addresses)
}

fn distinct<'a>(addresses: impl Iterator<Item = &'a String>) -> impl Iterator<Item = &'a String> {
    let mut known = BTreeSet::new();
    addresses.filter(move |address| reaches_others(address) && known.insert(address.as_str()))
}

fn reaches_others(address: &str) -> bool {
    match address.parse() {
        Ok(IpAddr::V4(address)) => !address.is_link_local() && !address.is_loopback(),
        Ok(IpAddr::V6(address)) => !address.is_unicast_link_local() && !address.is_loopback(),
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn addresses_come_in_the_order_of_the_machines_networks_and_without_link_local_ones() {
        let status = serde_json::from_value(json!({"interfaces": [
            {"ipAddress": "172.17.0.1", "ipAddresses": ["172.17.0.1"]},
            {"name": "storage", "ipAddress": "fe80::2", "ipAddresses": ["fe80::2", "10.1.0.2"]},
            {"name": "lan", "ipAddress": "10.0.0.2", "ipAddresses": ["fd00::2", "10.0.0.2"]},
            {"name": "lan", "ipAddresses": ["169.254.3.4", "10.0.0.2", "127.0.0.1", "", "x"]},
        ]}))
        .unwrap();
        let expected = ["10.0.0.2", "fd00::2", "10.1.0.2", "172.17.0.1"];
        assert_eq!(addresses(&status, &["lan", "storage"]).shown, expected);
        let mut instance = ObservedInstance {
            status,
            ..ObservedInstance::default()
        };
        trim_addresses(&mut instance);
        let trimmed = addresses(&instance.status, &["lan", "storage"]);
        assert_eq!(trimmed.shown, expected, "trimming changes nothing");
        assert!(!trimmed.has_more);
    }

    fn hostile(interfaces: usize, each: usize) -> ObservedInstance {
        let address = |at: usize| format!("10.{}.{}.{}", at >> 16, at >> 8 & 255, at & 255);
        let interfaces: Vec<_> = (0..interfaces)
            .map(|at| {
                let addresses: Vec<_> = (0..each).map(|nth| address(at * each + nth)).collect();
                json!({"interfaceName": format!("veth{at}"), "ipAddresses": addresses})
            })
            .collect();
        let status = serde_json::from_value(json!({ "interfaces": interfaces })).unwrap();
        ObservedInstance {
            status,
            ..ObservedInstance::default()
        }
    }

    #[rstest::rstest]
    #[case::one_interface(1, 60_000)]
    #[case::many_interfaces(60_000, 1)]
    #[case::both(245, 245)]
    fn a_guest_with_sixty_thousand_addresses_is_cut_to_those_that_are_shown(
        #[case] interfaces: usize,
        #[case] each: usize,
    ) {
        let mut instance = hostile(interfaces, each);
        let whole = addresses(&instance.status, &[]);
        assert_eq!(whole.shown.len(), MAX_ADDRESSES);
        assert!(whole.has_more);
        trim_addresses(&mut instance);
        assert_eq!(addresses(&instance.status, &[]), whole);
        assert!(serde_json::to_string(&instance).unwrap().len() < 512 * 1024);
    }
}
