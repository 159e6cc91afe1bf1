//! The addresses of a guest, as people want them: the one to connect to first.

use std::net::IpAddr;

use api::kubevirt::{InstanceStatus, ObservedInterface};

/// The addresses of a guest's interfaces: first those of `interfaces`, in that order, then the
/// rest; of an interface, its primary address first. No address is told twice, and none that is
/// only good on its own link.
pub(super) fn addresses(status: &InstanceStatus, interfaces: &[&str]) -> Vec<String> {
    let known = interfaces.iter().flat_map(|name| {
        let of_name = |interface: &&ObservedInterface| interface.name.as_deref() == Some(*name);
        status.interfaces.iter().filter(of_name)
    });
    let rest = status.interfaces.iter().filter(|interface| {
        let name = interface.name.as_deref();
        name.is_none_or(|name| !interfaces.contains(&name))
    });
    let mut found: Vec<String> = Vec::new();
    let all = known
        .chain(rest)
        .flat_map(|interface| interface.ip_address.iter().chain(&interface.ip_addresses));
    for address in all {
        if reaches_others(address) && !found.contains(address) {
            found.push(address.clone());
        }
    }
    found
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
