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
