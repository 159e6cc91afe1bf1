//! Cloud-init network data for addresses of the spec.
//!
//! It names every interface by its MAC address. Interfaces without addresses use DHCP, because cloud-init
//! configures no others once there is network data.

use std::{
    fmt::Write as _,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use api::{CloudInitType, Network};

use super::Findings;
use crate::machine::{CloudInit, NetworkData, ResolvedInterface};

/// Linux gives no interface a longer name.
const MAX_NAME: usize = 15;

/// Whether a Machine gives addresses.
pub(in crate::machine::resolve) fn are_given(networks: Option<&[Network]>) -> bool {
    let mut networks = networks.unwrap_or_default().iter();
    networks.any(|network| !addresses(network).is_empty())
}

fn addresses(network: &Network) -> &[String] {
    network.addresses.as_deref().unwrap_or_default()
}

/// An address with the length of its prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Subnet {
    address: IpAddr,
    prefix: u8,
}

impl Subnet {
    fn parse(text: &str) -> Option<Self> {
        let (address, prefix) = text.split_once('/')?;
        let address: IpAddr = address.parse().ok()?;
        let prefix: u8 = prefix.parse().ok()?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let is_unicast =
            !address.is_multicast() && !address.is_unspecified() && !address.is_loopback();
        (is_unicast && (1..=most).contains(&prefix)).then_some(Self { address, prefix })
    }

    fn contains(self, other: IpAddr) -> bool {
        match (self.address, other) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                let host = 32 - u32::from(self.prefix);
                let network = |it: Ipv4Addr| u64::from(it.to_bits()) >> host;
                network(own) == network(other)
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                let host = 128 - u32::from(self.prefix);
                let network = |it: Ipv6Addr| it.to_bits().checked_shr(host).unwrap_or_default();
                network(own) == network(other)
            }
            _ => false,
        }
    }
}

/// Checks the addresses of a Machine.
pub(super) fn check(networks: &[Network], findings: &mut Findings) {
    let mut all = Vec::new();
    for (index, network) in networks.iter().enumerate() {
        let path = format!("spec.networks[{index}]");
        let subnets = check_addresses(&path, network, &mut all, findings);
        let is_empty = addresses(network).is_empty();
        if let Some(gateway) = &network.gateway {
            let path = format!("{path}.gateway");
            match gateway.parse::<IpAddr>() {
                _ if is_empty => {
                    findings.invalid(path, "needs addresses: give them, or leave it out");
                }
                Err(_) => findings.invalid(path, "must be an IP address, such as 192.0.2.1"),
                Ok(gateway) if !subnets.iter().any(|subnet| subnet.contains(gateway)) => {
                    findings.invalid(path, "is in none of the subnets of addresses");
                }
                Ok(_) => {}
            }
        }
        let servers = network.nameservers.iter().flatten().enumerate();
        for (server, text) in servers {
            let path = format!("{path}.nameservers[{server}]");
            if is_empty {
                findings.invalid(path, "needs addresses: give them, or leave it out");
            } else if text.parse::<IpAddr>().is_err() {
                findings.invalid(path, "must be an IP address, such as 192.0.2.53");
            }
        }
    }
}

fn check_addresses(
    path: &str,
    network: &Network,
    all: &mut Vec<IpAddr>,
    findings: &mut Findings,
) -> Vec<Subnet> {
    let given = addresses(network);
    if given.is_empty() {
        return Vec::new();
    }
    if network.pod == Some(true) {
        findings.invalid(
            format!("{path}.addresses"),
            "the pod network gives the machine its address: leave addresses out",
        );
    }
    if network.name.len() > MAX_NAME {
        findings.invalid(
            format!("{path}.name"),
            format!("must have at most {MAX_NAME} characters beside addresses, because the guest names its interface so"),
        );
    }
    let mut subnets = Vec::new();
    for (index, text) in given.iter().enumerate() {
        let path = format!("{path}.addresses[{index}]");
        match Subnet::parse(text) {
            None => findings.invalid(
                path,
                "must be a unicast address with the length of its prefix, such as 192.0.2.10/24",
            ),
            Some(subnet) if all.contains(&subnet.address) => {
                findings.invalid(path, "is given twice: leave one out");
            }
            Some(subnet) => {
                all.push(subnet.address);
                subnets.push(subnet);
            }
        }
    }
    subnets
}

/// Adds network data with the addresses to cloud-init data.
pub(in crate::machine::resolve) fn add_network_data(
    networks: &[Network],
    interfaces: &[ResolvedInterface],
    cloud_init: &mut CloudInit,
    findings: &mut Findings,
) {
    if cloud_init.network_data.is_some() {
        return findings.invalid(
            "spec.networks",
            "addresses and the network data of cloudInit say the same thing: give one or the other",
        );
    }
    if cloud_init.type_ == CloudInitType::ConfigDrive {
        return findings.invalid(
            "spec.cloudInit.type",
            "addresses in spec.networks need noCloud: leave it out, or give networkData instead of them",
        );
    }
    cloud_init.network_data = Some(if let Some(data) = data(networks, interfaces) {
        NetworkData::Generated(data)
    } else {
        findings.note(
            "spec.networks",
            "the network data has MAC addresses that are generated in the cluster, and is left out here",
        );
        NetworkData::Unread
    });
}

/// Network configuration, version 1; none if a MAC address is not known.
fn data(networks: &[Network], interfaces: &[ResolvedInterface]) -> Option<String> {
    let mut data = "version: 1\nconfig:\n".to_owned();
    for (network, interface) in networks.iter().zip(interfaces) {
        let mac_address = interface.mac_address.as_deref()?.to_ascii_lowercase();
        // Writing to a String does not fail.
        let _ = write!(
            data,
            "  - type: physical\n    name: {:?}\n    mac_address: {mac_address:?}\n    subnets:\n",
            interface.name,
        );
        let subnets: Vec<Subnet> = addresses(network)
            .iter()
            .filter_map(|it| Subnet::parse(it))
            .collect();
        if subnets.is_empty() {
            data.push_str("      - type: dhcp\n");
        }
        let gateway = network
            .gateway
            .as_deref()
            .and_then(|it| it.parse::<IpAddr>().ok());
        for (index, subnet) in subnets.iter().enumerate() {
            let Subnet { address, prefix } = subnet;
            let type_ = if address.is_ipv4() {
                "static"
            } else {
                "static6"
            };
            let _ = writeln!(
                data,
                "      - type: {type_}\n        address: {address}/{prefix}"
            );
            let first = |gateway: &IpAddr| {
                subnets.iter().position(|it| it.contains(*gateway)) == Some(index)
            };
            if let Some(gateway) = gateway.filter(first) {
                let _ = writeln!(data, "        gateway: {gateway}");
            }
            let servers = network.nameservers.iter().flatten();
            let servers: Vec<IpAddr> = servers.filter_map(|it| it.parse().ok()).collect();
            if index == 0 && !servers.is_empty() {
                data.push_str("        dns_nameservers:\n");
                for server in servers {
                    let _ = writeln!(data, "          - {server}");
                }
            }
        }
    }
    Some(data)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("192.0.2.10/24", "192.0.2.1", true)]
    #[case("192.0.2.10/24", "192.0.3.1", false)]
    #[case("192.0.2.10/32", "192.0.2.10", true)]
    #[case("192.0.2.10/1", "10.0.0.1", false)]
    #[case("2001:db8::10/64", "2001:db8::1", true)]
    #[case("2001:db8::10/64", "2001:db8:1::1", false)]
    #[case("2001:db8::10/128", "2001:db8::10", true)]
    #[case("192.0.2.10/24", "2001:db8::1", false)]
    fn a_gateway_is_in_a_subnet(#[case] subnet: &str, #[case] gateway: &str, #[case] is_in: bool) {
        let subnet = Subnet::parse(subnet).unwrap();
        assert_eq!(subnet.contains(gateway.parse().unwrap()), is_in);
    }

    #[rstest]
    #[case("192.0.2.10")]
    #[case("192.0.2.10/33")]
    #[case("192.0.2.10/0")]
    #[case("192.0.2.10/-1")]
    #[case("224.0.0.1/24")]
    #[case("127.0.0.1/8")]
    #[case("0.0.0.0/8")]
    #[case("2001:db8::10/129")]
    #[case("ff02::1/64")]
    #[case("example.com/24")]
    #[case("")]
    fn other_texts_are_no_addresses(#[case] text: &str) {
        assert_eq!(Subnet::parse(text), None);
    }
}
