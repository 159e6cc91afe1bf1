//! Cloud-init network data for an address that the Machine's ledger records.
//!
//! A guest with a static address is on a bridge without DHCP: it learns its address from cloud-init, so it
//! starts once the address is allocated. What the ledger says comes from another program: only addresses
//! are copied.

use std::{
    fmt::Write as _,
    net::{IpAddr, Ipv4Addr},
};

use api::{AllocationMethod, NetworkConfigurationInterface};

use super::{Findings, namespace};
use crate::machine::{Lookup, NetworkData, ResolvedInterface, ResolvedNamespace, Surroundings};

/// Network data of a Machine that gives none; none unless its addresses are static.
pub(in crate::machine::resolve) fn network_data(
    namespace: &ResolvedNamespace,
    interfaces: &[ResolvedInterface],
    surroundings: &Surroundings,
    findings: &mut Findings,
) -> Option<NetworkData> {
    let kept = &surroundings.kept_interface;
    let recorded = interfaces.first().zip(kept.recorded.as_ref());
    if let Some(data) = recorded.and_then(|(interface, recorded)| data(interface, recorded)) {
        return Some(NetworkData::Recorded(data));
    }
    let found = surroundings.network_namespaces.get(&namespace.name);
    let is_static = matches!(found, Lookup::Found(found) if namespace::is_static(found));
    (is_static && !kept.lacks_network_data).then(|| {
        findings.note(
            "spec.cloudInit",
            "the network data will have the address that NetworkConfiguration status records",
        );
        NetworkData::Awaited
    })
}

/// Network configuration, version 1, of an interface with a static address.
fn data(interface: &ResolvedInterface, recorded: &NetworkConfigurationInterface) -> Option<String> {
    let mac_address = interface.mac_address.as_deref()?;
    let of_interface = recorded.mac_address.as_deref()?;
    let is_static = recorded.allocation_method == Some(AllocationMethod::Static);
    if !is_static || !of_interface.eq_ignore_ascii_case(mac_address) {
        return None;
    }
    let address: Ipv4Addr = recorded.ipv4_addresses.as_ref()?.first()?.parse().ok()?;
    let (_, prefix) = recorded.ipv4_subnet.as_deref()?.split_once('/')?;
    let netmask = netmask(prefix.parse().ok()?)?;
    let mut data = format!(
        "version: 1\nconfig:\n  - type: physical\n    name: {:?}\n    mac_address: {:?}\n    subnets:\n      - type: static\n        address: {address}\n        netmask: {netmask}\n",
        interface.name,
        mac_address.to_ascii_lowercase(),
    );
    let gateway = recorded.ipv4_gateway.as_deref();
    if let Some(gateway) = gateway.and_then(|it| it.parse::<Ipv4Addr>().ok()) {
        let _ = writeln!(data, "        gateway: {gateway}");
    }
    let servers = recorded.dns.iter().flatten();
    let mut servers = servers
        .filter_map(|it| it.parse::<IpAddr>().ok())
        .peekable();
    if servers.peek().is_some() {
        data.push_str("        dns_nameservers:\n");
    }
    for server in servers {
        let _ = writeln!(data, "          - {server}");
    }
    Some(data)
}

fn netmask(prefix: u32) -> Option<Ipv4Addr> {
    let host = 32_u32.checked_sub(prefix)?;
    Some(Ipv4Addr::from(
        u32::MAX.checked_shl(host).unwrap_or_default(),
    ))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;
    use crate::machine::{Attachment, Known};

    fn interface() -> ResolvedInterface {
        ResolvedInterface {
            name: "vlan100".to_owned(),
            attachment: Attachment::Vlan(100),
            model: api::NetworkModel::Virtio,
            mac_address: Some("02:AA:00:00:00:01".to_owned()),
            boot_order: None,
        }
    }

    fn recorded(changes: &Value) -> NetworkConfigurationInterface {
        let mut object = json!({
            "name": "vlan100", "macAddress": "02:aa:00:00:00:01", "allocationMethod": "static",
            "ipv4Addresses": ["198.51.100.100"], "ipv4Subnet": "198.51.100.0/24",
            "ipv4Gateway": "198.51.100.1", "dns": ["198.51.100.2", "2001:db8::2"],
        });
        for (field, value) in changes.as_object().unwrap() {
            object[field] = value.clone();
        }
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn a_recorded_address_becomes_network_data() {
        let found = data(&interface(), &recorded(&json!({}))).unwrap();
        let expected = r#"version: 1
config:
  - type: physical
    name: "vlan100"
    mac_address: "02:aa:00:00:00:01"
    subnets:
      - type: static
        address: 198.51.100.100
        netmask: 255.255.255.0
        gateway: 198.51.100.1
        dns_nameservers:
          - 198.51.100.2
          - 2001:db8::2
"#;
        assert_eq!(found, expected);
    }

    #[rstest]
    #[case::leased(json!({"allocationMethod": "dhcp"}))]
    #[case::of_another_interface(json!({"macAddress": "02:aa:00:00:00:02"}))]
    #[case::not_allocated(json!({"ipv4Addresses": []}))]
    #[case::not_an_address(json!({"ipv4Addresses": ["198.51.100.100\nruncmd: x"]}))]
    #[case::no_prefix(json!({"ipv4Subnet": "198.51.100.0"}))]
    #[case::not_a_prefix(json!({"ipv4Subnet": "198.51.100.0/33"}))]
    fn what_is_not_a_static_address_does_not(#[case] changes: Value) {
        assert_eq!(data(&interface(), &recorded(&changes)), None);
    }

    #[rstest]
    #[case::of_a_new_guest("static", false, true)]
    #[case::of_a_guest_without_network_data("static", true, false)]
    #[case::leased("dhcp", false, false)]
    fn an_address_that_is_not_allocated_is_awaited(
        #[case] method: &str,
        #[case] lacks_network_data: bool,
        #[case] is_awaited: bool,
    ) {
        let found = serde_json::from_value(json!({
            "apiVersion": "", "kind": "", "metadata": {"name": "net"},
            "spec": {"ipAllocation": {"type": method}},
        }));
        let mut surroundings = Surroundings {
            network_namespaces: Known::all([("net".to_owned(), Arc::new(found.unwrap()))]),
            ..Surroundings::default()
        };
        surroundings.kept_interface.lacks_network_data = lacks_network_data;
        let namespace = ResolvedNamespace {
            name: "net".to_owned(),
            uid: None,
            provider: None,
            pending: None,
        };
        let found = network_data(
            &namespace,
            &[interface()],
            &surroundings,
            &mut Findings::default(),
        );
        assert!(found == is_awaited.then_some(NetworkData::Awaited));
    }

    #[test]
    fn what_is_not_an_address_is_left_out() {
        let changes = json!({"ipv4Gateway": "none", "dns": ["x: y"], "ipv4Subnet": "0.0.0.0/0"});
        let found = data(&interface(), &recorded(&changes)).unwrap();
        assert!(found.ends_with("        netmask: 0.0.0.0\n"), "{found}");
    }
}
