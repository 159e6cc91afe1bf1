//! The addresses of a guest, as people want them: the one to connect to first.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use api::kubevirt::{InstanceStatus, ObservedInterface};

/// The addresses of a guest's interfaces: first those of `interfaces`, in that order, then the
/// rest; of an interface, its primary address first. Each address comes once, and none that is
/// only good on its own link.
pub(super) fn addresses(status: &InstanceStatus, interfaces: &[&str]) -> Addresses {
    let ranks: BTreeMap<&str, usize> = interfaces.iter().copied().zip(0..).collect();
    let mut ordered: Vec<&ObservedInterface> = status.interfaces.iter().collect();
    ordered.sort_by_key(|interface| {
        let rank = interface.name.as_deref().and_then(|name| ranks.get(name));
        rank.copied().unwrap_or(usize::MAX)
    });
    let all = ordered.into_iter().flat_map(of_interface);
    let mut shown: Vec<String> = distinct(all).take(MOST_ADDRESSES + 1).cloned().collect();
    let has_more = shown.len() > MOST_ADDRESSES;
    shown.truncate(MOST_ADDRESSES);
    Addresses { shown, has_more }
}

/// Drops from an instance what no status would show of its addresses: link-local and repeated ones,
/// and all beyond one more than is shown.
pub fn trim_addresses(instance: &mut ObservedInstance) {
    let interfaces = &mut instance.status.interfaces;
    for interface in interfaces.iter_mut() {
        let kept = distinct(of_interface(interface)).take(MOST_ADDRESSES + 1);
        let kept: Vec<String> = kept.cloned().collect();
        interface.ip_address = None;
        interface.ip_addresses = kept;
    }
    interfaces.retain(|interface| interface.name.is_some() || !interface.ip_addresses.is_empty());
    if interfaces.len() > MOST_INTERFACES {
        // Those of the spec have a name, and are not crowded out by what the guest makes up.
        interfaces.sort_by_key(|interface| interface.name.is_none());
        interfaces.truncate(MOST_INTERFACES);
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
        assert_eq!(
            addresses(&status, &["lan", "storage"]),
            ["10.0.0.2", "fd00::2", "10.1.0.2", "172.17.0.1"]
        );
    }
}
