//! Networks.

use super::*;

#[test]
fn none_is_the_pod_network() {
    let interfaces = resolved(json!({})).interfaces;
    assert_eq!(interfaces.len(), 1);
    assert_eq!(interfaces[0].attachment, Attachment::PodNetwork);
    assert_eq!(interfaces, resolved(json!({"networks": []})).interfaces);
}

#[test]
fn each_is_a_network_configuration_of_the_namespace() {
    let machine = resolved(json!({"networks": [
        {"name": "eth0", "networkName": "prod-network", "macAddress": "52:54:00:12:34:56"},
        {"name": "eth1", "networkName": "prod-network", "model": "e1000"},
    ]}));
    let prod = Attachment::Network("prod-network".to_owned());
    assert!(
        machine
            .interfaces
            .iter()
            .all(|interface| interface.attachment == prod)
    );
    assert_eq!(machine.interfaces[0].model, NetworkModel::Virtio);
    assert_eq!(
        machine.interfaces[0].mac_address.as_deref(),
        Some("52:54:00:12:34:56")
    );
    assert_eq!(machine.interfaces[1].model, NetworkModel::E1000);
}

#[test]
fn missing_is_not_found() {
    let spec = json!({"networks": [{"name": "eth0", "networkName": "lost"}]});
    let path = "spec.networks[0].networkName".to_owned();
    assert_eq!(error(spec), (ErrorType::NetworkConfigurationNotFound, path));
}

#[rstest]
#[case("52:54:00:12:34")]
#[case("52:54:00:12:34:56:78")]
#[case("52-54-00-12-34-56")]
#[case("53:54:00:12:34:56")]
#[case("zz:54:00:12:34:56")]
#[case("+2:54:00:12:34:56")]
#[case("")]
fn a_mac_address_that_no_card_has_is_an_error(#[case] mac: &str) {
    let spec =
        json!({"networks": [{"name": "a", "networkName": "prod-network", "macAddress": mac}]});
    assert_eq!(
        error(spec),
        (
            ErrorType::InvalidSpec,
            "spec.networks[0].macAddress".to_owned()
        )
    );
}

#[test]
fn a_mac_address_is_used_once_however_it_is_written() {
    let spec = json!({"networks": [
        {"name": "a", "networkName": "prod-network", "macAddress": "52:54:00:12:34:aB"},
        {"name": "b", "networkName": "prod-network", "macAddress": "52:54:00:12:34:Ab"}]});
    assert_eq!(
        error(spec),
        (
            ErrorType::InvalidSpec,
            "spec.networks[1].macAddress".to_owned()
        )
    );
}

#[rstest]
#[case(json!({"name": "eth 0", "networkName": "prod-network"}), "spec.networks[0].name")]
#[case(json!({"name": "_eth0", "networkName": "prod-network"}), "spec.networks[0].name")]
fn names_that_no_interface_can_have_are_errors(#[case] network: Value, #[case] path: &str) {
    assert_eq!(
        error(json!({"networks": [network]})),
        (ErrorType::InvalidSpec, path.to_owned())
    );
}

#[test]
fn names_are_used_once() {
    let spec = json!({"networks": [
        {"name": "a", "networkName": "prod-network"}, {"name": "a", "networkName": "prod-network"}]});
    assert_eq!(
        error(spec),
        (ErrorType::InvalidSpec, "spec.networks[1].name".to_owned())
    );
}

#[test]
fn the_pod_network_is_beside_others() {
    let machine = resolved(json!({"networks": [
        {"name": "internal", "pod": true}, {"name": "lan", "networkName": "prod-network"},
    ]}));
    let attachments: Vec<_> = machine.interfaces.iter().map(|it| &it.attachment).collect();
    let prod = Attachment::Network("prod-network".to_owned());
    assert_eq!(attachments, [&Attachment::PodNetwork, &prod]);
    assert_eq!(machine.interfaces[0].mac_address, None);
    assert_eq!(machine.cloud_init, None);
}

#[rstest]
#[case(json!([{"name": "a"}]), "spec.networks[0].networkName")]
#[case(json!([{"name": "a", "pod": false}]), "spec.networks[0].networkName")]
#[case(json!([{"name": "a", "pod": true, "networkName": "prod-network"}]), "spec.networks[0].networkName")]
#[case(json!([{"name": "a", "pod": true}, {"name": "b", "pod": true}]), "spec.networks[1].pod")]
#[case(json!([{"name": "a", "pod": true, "addresses": ["192.0.2.1/24"]}]), "spec.networks[0].addresses")]
fn a_network_is_either_of_the_pod_or_named(#[case] networks: Value, #[case] path: &str) {
    assert_eq!(error(json!({"networks": networks})).1, path);
}

fn addressed(more: Value) -> Value {
    let mut lan = json!({
        "name": "lan", "networkName": "prod-network", "macAddress": "52:54:00:12:34:56",
        "addresses": ["192.0.2.10/24"],
    });
    lan.as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    lan
}

#[rstest]
#[case(json!({"addresses": ["192.0.2.10"]}), "spec.networks[0].addresses[0]")]
#[case(json!({"addresses": ["192.0.2.10/24", "192.0.2.10/25"]}), "spec.networks[0].addresses[1]")]
#[case(json!({"gateway": "198.51.100.1"}), "spec.networks[0].gateway")]
#[case(json!({"gateway": "router"}), "spec.networks[0].gateway")]
#[case(json!({"addresses": [], "gateway": "192.0.2.1"}), "spec.networks[0].gateway")]
#[case(json!({"nameservers": ["dns"]}), "spec.networks[0].nameservers[0]")]
#[case(json!({"addresses": [], "nameservers": ["192.0.2.53"]}), "spec.networks[0].nameservers[0]")]
#[case(json!({"name": "a-name-beyond-fifteen"}), "spec.networks[0].name")]
fn addresses_that_cannot_work_are_errors(#[case] more: Value, #[case] path: &str) {
    assert_eq!(error(json!({"networks": [addressed(more)]})).1, path);
}

#[rstest]
#[case(json!({"networkData": "version: 2"}), "spec.networks")]
#[case(json!({"type": "configDrive"}), "spec.cloudInit.type")]
fn addresses_exclude_other_network_data(#[case] cloud_init: Value, #[case] path: &str) {
    let spec = json!({"networks": [addressed(json!({}))], "cloudInit": cloud_init});
    assert_eq!(error(spec).1, path);
}

#[test]
fn addresses_become_network_data_of_all_interfaces() {
    let mut machine = machine(json!({"networks": [
        {"name": "internal", "pod": true},
        addressed(json!({
            "addresses": ["192.0.2.10/24", "2001:db8::a/64"], "gateway": "192.0.2.1",
            "nameservers": ["192.0.2.53", "2001:db8::53"],
        })),
    ]}));
    let offline = resolve(&machine, &cluster()).unwrap();
    assert_eq!(
        offline.notes[0].path, "spec.networks",
        "the MAC address is not known"
    );
    machine.metadata.uid = Some("m1".to_owned());
    let resolved = resolve(&machine, &cluster()).unwrap().machine;
    let generated = resolved.interfaces[0].mac_address.clone().unwrap();
    assert!(generated.starts_with("02:"), "{generated}");
    let secret = crate::machine::build(&resolved).cloud_init.unwrap();
    let data = String::from_utf8(secret.data["networkdata"].0.clone()).unwrap();
    let expected = format!(
        r#"version: 1
config:
  - type: physical
    name: "internal"
    mac_address: "{generated}"
    subnets:
      - type: dhcp
  - type: physical
    name: "lan"
    mac_address: "52:54:00:12:34:56"
    subnets:
      - type: static
        address: 192.0.2.10/24
        gateway: 192.0.2.1
        dns_nameservers:
          - 192.0.2.53
          - 2001:db8::53
      - type: static6
        address: 2001:db8::a/64
"#
    );
    assert_eq!(data, expected);
    assert_eq!(secret.data["userdata"].0, b"#cloud-config\n");
}
