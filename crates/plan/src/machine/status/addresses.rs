//! IP addresses and interfaces of a guest, in the order in which users want them.
//!
//! The guest controls what it reports. So the work is near-linear in the report, and the numbers of
//! addresses in the status and in the cache are bounded.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use api::{
    InterfaceStatus, NetworkConfiguration, NetworkConfigurationInterface,
    NetworkConfigurationStatus,
    kubevirt::{InstanceStatus, ObservedInstance, ObservedInterface},
};

/// Number of addresses in a status.
pub(super) const MAX_ADDRESSES: usize = 64;
/// Number of interfaces of a guest that are cached.
const MAX_INTERFACES: usize = 256;
/// Bytes of a text that a guest or KubeVirt reports of an interface, a volume or the operating system.
const MAX_TEXT: usize = 128;

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Addresses {
    /// At most [`MAX_ADDRESSES`].
    pub(super) shown: Vec<String>,
    pub(super) has_more: bool,
    /// Those of `shown` on interfaces of the spec.
    pub(super) public: Vec<String>,
    /// Those of `shown` on interfaces that only the guest knows.
    pub(super) private: Vec<String>,
    /// Interfaces of the spec, and others that have one of `shown`.
    pub(super) interfaces: Vec<InterfaceStatus>,
}

impl Addresses {
    fn add(&mut self, interface: &ObservedInterface, address: &str) {
        let list = match interface.name {
            Some(_) => &mut self.public,
            None => &mut self.private,
        };
        list.push(address.to_owned());
        self.shown.push(address.to_owned());
    }

    /// Adds an address of the ledger.
    fn add_recorded(&mut self, interface: &NetworkConfigurationInterface, address: &str) {
        self.shown.push(address.to_owned());
        self.public.push(address.to_owned());
        let is_same = |found: &&mut InterfaceStatus| {
            let macs = found
                .mac_address
                .as_deref()
                .zip(interface.mac_address.as_deref());
            macs.is_some_and(|(found, recorded)| found.eq_ignore_ascii_case(recorded))
        };
        let Some(found) = self.interfaces.iter_mut().find(is_same) else {
            return;
        };
        let all = found.ip_addresses.get_or_insert_default();
        all.push(address.to_owned());
        found.ipv6_addresses = unless_empty(ipv6(all));
    }

    /// Those of `shown` that are IPv6 addresses.
    pub(super) fn ipv6(&self) -> Vec<String> {
        ipv6(&self.shown)
    }
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
    let mut found = Addresses::default();
    let mut known = BTreeSet::new();
    for interface in ordered {
        let first = found.shown.len();
        for address in of_interface(interface) {
            if !reaches_others(address) || !known.insert(address.as_str()) {
                continue;
            }
            if found.shown.len() == MAX_ADDRESSES {
                found.has_more = true;
                break;
            }
            found.add(interface, address);
        }
        let own = found.shown.get(first..).unwrap_or_default();
        if interface.name.is_some() || !own.is_empty() {
            let described = described(interface, own);
            found.interfaces.push(described);
        }
    }
    found
}

/// Adds the addresses in the Machine's ledger that the guest does not report: a guest without an agent
/// on a bridge reports none. An interface of the ledger is one of the spec, with the same MAC address.
pub(super) fn with_ledger_addresses(
    mut addresses: Addresses,
    ledger: Option<&NetworkConfiguration>,
) -> Addresses {
    let status = ledger.and_then(|ledger| ledger.status.as_ref());
    let interfaces = status.and_then(|status| status.network_interfaces.as_deref());
    let recorded = interfaces.unwrap_or_default().iter().flat_map(|interface| {
        let v4 = interface.ipv4_addresses.iter().flatten();
        let v6 = interface.ipv6_addresses.iter().flatten();
        v4.chain(v6).map(move |address| (interface, address))
    });
    for (interface, address) in recorded.take(MAX_ADDRESSES) {
        if !reaches_others(address) || addresses.shown.contains(address) {
            continue;
        }
        if addresses.shown.len() == MAX_ADDRESSES {
            addresses.has_more = true;
            break;
        }
        addresses.add_recorded(interface, address);
    }
    addresses
}

/// An interface with the addresses that the status shows.
fn described(interface: &ObservedInterface, addresses: &[String]) -> InterfaceStatus {
    let mac_address = interface.mac.as_deref();
    let mac_address = mac_address.filter(|mac| !mac.is_empty() && *mac != "00:00:00:00:00:00");
    InterfaceStatus {
        name: interface.name.clone(),
        mac_address: mac_address.map(str::to_owned),
        ip_addresses: unless_empty(addresses.to_vec()),
        ipv6_addresses: unless_empty(ipv6(addresses)),
        state: interface.link_state.clone(),
        type_: interface.info_source.clone(),
    }
}

fn ipv6(addresses: &[String]) -> Vec<String> {
    let is_ipv6 = |address: &&String| matches!(address.parse(), Ok(IpAddr::V6(_)));
    addresses.iter().filter(is_ipv6).cloned().collect()
}

pub(super) fn unless_empty<T>(list: Vec<T>) -> Option<Vec<T>> {
    (!list.is_empty()).then_some(list)
}

/// Drops what no status shows: link-local addresses, duplicates, all beyond `MAX_ADDRESSES` + 1, and the
/// end of long texts.
pub fn trim_addresses(instance: &mut ObservedInstance) {
    if let Some(os) = &mut instance.status.guest_os_info {
        [&mut os.name, &mut os.version, &mut os.pretty_name]
            .into_iter()
            .for_each(shorten);
    }
    for volume in &mut instance.status.volume_status {
        shorten(&mut volume.target);
    }
    let interfaces = &mut instance.status.interfaces;
    for interface in interfaces.iter_mut() {
        let kept = distinct(of_interface(interface)).take(MAX_ADDRESSES + 1);
        let kept: Vec<String> = kept.cloned().collect();
        interface.ip_address = None;
        interface.ip_addresses = kept;
        [
            &mut interface.mac,
            &mut interface.info_source,
            &mut interface.link_state,
        ]
        .into_iter()
        .flatten()
        .for_each(shorten);
    }
    interfaces.retain(|interface| interface.name.is_some() || !interface.ip_addresses.is_empty());
    if interfaces.len() > MAX_INTERFACES {
        // Interfaces of the spec have a name: the guest cannot crowd them out.
        interfaces.sort_by_key(|interface| interface.name.is_none());
        interfaces.truncate(MAX_INTERFACES);
    }
}

/// Drops most of the status of an address ledger: texts, addresses beyond those that a Machine's status may
/// show, and the end of long texts. The schema bounds the numbers of interfaces and addresses in the spec,
/// but not their texts.
pub fn trim_ledger(ledger: &mut NetworkConfiguration) {
    let listed = ledger.spec.network_interfaces.iter_mut().flatten();
    listed.for_each(shorten_interface);
    if ledger.is_network() {
        return;
    }
    let Some(status) = ledger.status.take() else {
        return;
    };
    let mut conditions = status.conditions.unwrap_or_default();
    conditions.retain(|condition| condition.type_ == "Ready");
    conditions.truncate(1);
    for condition in &mut conditions {
        shorten(&mut condition.reason);
        shorten(&mut condition.message);
    }
    let mut interfaces = status.network_interfaces.unwrap_or_default();
    interfaces.truncate(MAX_INTERFACES);
    let mut left = [MAX_ADDRESSES; 2];
    for interface in &mut interfaces {
        let [addresses, servers] = &mut left;
        keep_first(&mut interface.ipv4_addresses, addresses);
        keep_first(&mut interface.ipv6_addresses, addresses);
        keep_first(&mut interface.dns, servers);
        shorten_interface(interface);
    }
    interfaces.shrink_to_fit();
    ledger.status = Some(NetworkConfigurationStatus {
        conditions: (!conditions.is_empty()).then_some(conditions),
        network_interfaces: (!interfaces.is_empty()).then_some(interfaces),
        ..NetworkConfigurationStatus::default()
    });
}

/// Keeps as many items as are left, and counts them.
fn keep_first(list: &mut Option<Vec<String>>, left: &mut usize) {
    if let Some(list) = list {
        list.truncate(*left);
        list.shrink_to_fit();
        *left -= list.len();
    }
}

fn shorten_interface(interface: &mut NetworkConfigurationInterface) {
    let NetworkConfigurationInterface {
        name,
        mac_address,
        ipv4_addresses,
        ipv4_subnet,
        ipv4_gateway,
        ipv6_addresses,
        ipv6_subnet,
        ipv6_gateway,
        dns,
        vlan,
        dhcp_reserved: _,
        ip_allocated: _,
        allocation_method: _,
        allocation_expiry,
    } = interface;
    let texts = [
        name,
        mac_address,
        ipv4_subnet,
        ipv4_gateway,
        ipv6_subnet,
        ipv6_gateway,
        vlan,
        allocation_expiry,
    ];
    texts.into_iter().flatten().for_each(shorten);
    let lists = [ipv4_addresses, ipv6_addresses, dns];
    lists.into_iter().flatten().flatten().for_each(shorten);
}

fn shorten(text: &mut String) {
    let mut ends = (0..=MAX_TEXT.min(text.len())).rev();
    let end = ends.find(|end| text.is_char_boundary(*end));
    text.truncate(end.unwrap_or_default());
    text.shrink_to_fit();
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

    #[test]
    fn addresses_are_public_on_interfaces_of_the_spec_and_private_on_those_of_the_guest() {
        let status = serde_json::from_value(json!({"interfaces": [
            {"mac": "02:00:00:00:00:09", "ipAddresses": ["10.244.0.1", "10.0.0.2"],
             "infoSource": "guest-agent"},
            {"name": "lan", "mac": "02:00:00:00:00:01", "ipAddress": "10.0.0.2",
             "ipAddresses": ["10.0.0.2", "fd00::2"], "linkState": "up",
             "infoSource": "domain, guest-agent"},
            {"name": "empty", "mac": "00:00:00:00:00:00", "infoSource": "domain"},
            {"mac": "02:00:00:00:00:0a", "ipAddresses": ["fe80::1"]},
        ]}))
        .unwrap();
        let found = addresses(&status, &["lan", "empty"]);
        assert_eq!(found.public, ["10.0.0.2", "fd00::2"]);
        assert_eq!(found.private, ["10.244.0.1"]);
        assert_eq!(found.ipv6(), ["fd00::2"]);
        assert_eq!(
            serde_json::to_value(&found.interfaces).unwrap(),
            json!([
                {"name": "lan", "macAddress": "02:00:00:00:00:01", "state": "up",
                 "ipAddresses": ["10.0.0.2", "fd00::2"], "ipv6Addresses": ["fd00::2"],
                 "type": "domain, guest-agent"},
                {"name": "empty", "type": "domain"},
                {"macAddress": "02:00:00:00:00:09", "ipAddresses": ["10.244.0.1"],
                 "type": "guest-agent"},
            ])
        );
    }

    #[test]
    fn addresses_of_the_ledger_are_public_and_appear_once() {
        let status = serde_json::from_value(json!({"interfaces": [
            {"name": "lan", "mac": "02:00:00:00:00:0a", "ipAddresses": ["10.0.0.2"]},
        ]}))
        .unwrap();
        let ledger: NetworkConfiguration = serde_json::from_value(json!({
            "apiVersion": "vitistack.io/v1alpha1", "kind": "NetworkConfiguration",
            "metadata": {"name": "web"}, "spec": {},
            "status": {"networkInterfaces": [
                {"name": "lan", "macAddress": "02:00:00:00:00:0A",
                 "ipv4Addresses": ["10.0.0.2", "10.0.0.3", "169.254.0.1"],
                 "ipv6Addresses": ["fd00::3", "no address"]},
                {"name": "other", "macAddress": "02:00:00:00:00:0b", "ipv4Addresses": ["10.0.0.4"]},
            ]},
        }))
        .unwrap();
        let found = with_ledger_addresses(addresses(&status, &["lan"]), Some(&ledger));
        let expected = ["10.0.0.2", "10.0.0.3", "fd00::3", "10.0.0.4"];
        assert_eq!(found.shown, expected);
        assert_eq!(found.public, expected);
        assert_eq!(
            serde_json::to_value(&found.interfaces).unwrap(),
            json!([{"name": "lan", "macAddress": "02:00:00:00:00:0a",
                "ipAddresses": ["10.0.0.2", "10.0.0.3", "fd00::3"], "ipv6Addresses": ["fd00::3"]}])
        );
        let crowded = Addresses {
            shown: vec!["10.1.1.1".to_owned(); MAX_ADDRESSES],
            ..Addresses::default()
        };
        let crowded = with_ledger_addresses(crowded, Some(&ledger));
        assert!(crowded.has_more && crowded.shown.len() == MAX_ADDRESSES);
        let without = with_ledger_addresses(addresses(&status, &["lan"]), None);
        assert_eq!(without, addresses(&status, &["lan"]));
    }

    #[test]
    fn long_texts_of_a_guest_are_cut() {
        let long = "ü".repeat(10_000);
        let status = serde_json::from_value(json!({
            "guestOSInfo": {"prettyName": long, "name": long, "version": long},
            "volumeStatus": [{"name": "root", "target": long}],
            "interfaces": [{"name": "lan", "mac": long, "infoSource": long, "linkState": long}],
        }))
        .unwrap();
        let mut instance = ObservedInstance {
            status,
            ..ObservedInstance::default()
        };
        trim_addresses(&mut instance);
        assert!(serde_json::to_string(&instance).unwrap().len() < 2048);
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
