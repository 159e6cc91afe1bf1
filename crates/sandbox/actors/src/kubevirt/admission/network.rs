//! Validation of networks and interfaces.

use std::collections::BTreeSet;

use serde_json::Value;

use super::Cause;
use crate::object::{list, text, truth};

const MODELS: &[&str] = &[
    "e1000", "e1000e", "igb", "ne2k_pci", "pcnet", "rtl8139", "virtio",
];
const BINDINGS: &[&str] = &["bridge", "masquerade", "sriov", "passtBinding", "binding"];
const DISCONTINUED: &[(&str, &str)] = &[
    (
        "slirp",
        "Slirp interface support has been discontinued since v1.3",
    ),
    (
        "passt",
        "Passt network binding has been discontinued since v1.3",
    ),
    (
        "macvtap",
        "Macvtap network binding has been discontinued since v1.3",
    ),
];

pub(super) fn network_causes(field: &str, spec: &Value) -> Vec<Cause> {
    let networks = list(spec, "/networks");
    let interfaces = list(spec, "/domain/devices/interfaces");
    let mut causes = source_causes(field, networks);
    let path = |index: usize| format!("{field}.domain.devices.interfaces[{index}]");
    for (index, interface) in interfaces.iter().enumerate() {
        causes.extend(binding_causes(&path(index), interface, networks));
    }
    let mut names = BTreeSet::new();
    for (index, network) in networks.iter().enumerate() {
        let name = text(network, "/name");
        let field = format!("{field}.networks[{index}].name");
        if !names.insert(name) {
            let message = format!(
                "Network with name {name:?} already exists, every network must have a unique name"
            );
            causes.push(Cause::of("FieldValueDuplicate", field.clone(), message));
        }
        if !interfaces
            .iter()
            .any(|interface| text(interface, "/name") == name)
        {
            let message = format!("{field} '{name}' not found.");
            causes.push(Cause::required(field, message));
        }
    }
    let mut names = BTreeSet::new();
    for (index, interface) in interfaces.iter().enumerate() {
        let name = text(interface, "/name");
        let field = format!("{}.name", path(index));
        if !names.insert(name) {
            let message = "Only one interface can be connected to one specific network";
            causes.push(Cause::of("FieldValueDuplicate", field.clone(), message));
        }
        if !networks
            .iter()
            .any(|network| text(network, "/name") == name)
        {
            let message = format!("{field} '{name}' not found.");
            causes.push(Cause::invalid(field, message));
        }
        causes.extend(field_causes(&path(index), interface));
    }
    causes
}

fn source_causes(field: &str, networks: &[Value]) -> Vec<Cause> {
    let given =
        |network: &Value, kind: &str| network.get(kind).is_some_and(|source| !source.is_null());
    let of_pod = networks
        .iter()
        .filter(|network| given(network, "pod"))
        .count();
    let default = networks
        .iter()
        .filter(|network| truth(network, "/multus/default"))
        .count();
    let mut causes = Vec::new();
    if of_pod > 1 {
        let field = format!("{field}.interfaces");
        let message = format!("more than one interface is connected to a pod network in {field}");
        causes.push(Cause::of("FieldValueDuplicate", field, message));
    }
    if default > 1 {
        let message = "Multus CNI should only have one default network";
        causes.push(Cause::invalid(format!("{field}.networks"), message));
    }
    if of_pod > 0 && default > 0 {
        let message = "Pod network cannot be defined when Multus default network is defined";
        causes.push(Cause::invalid(format!("{field}.networks"), message));
    }
    for (index, network) in networks.iter().enumerate() {
        let field = format!("{field}.networks[{index}]");
        let kinds = ["pod", "multus", "resourceClaim"];
        match kinds.iter().filter(|kind| given(network, kind)).count() {
            0 => causes.push(Cause::required(field, "should have a network type")),
            1 => {}
            _ => causes.push(Cause::required(field, "should have only one network type")),
        }
    }
    let unnamed = networks.iter().position(|network| {
        given(network, "multus") && text(network, "/multus/networkName").is_empty()
    });
    if let Some(index) = unnamed {
        let message = "CNI delegating plugin must have a networkName";
        causes.push(Cause::required(
            format!("{field}.networks[{index}]"),
            message,
        ));
    }
    causes
}

fn binding_causes(path: &str, interface: &Value, networks: &[Value]) -> Vec<Cause> {
    let mut causes = Vec::new();
    let name = text(interface, "/name");
    for (binding, message) in DISCONTINUED {
        if interface.get(binding).is_some() {
            causes.push(Cause::of(
                "FieldValueNotSupported",
                format!("{path}.{binding}"),
                *message,
            ));
        }
    }
    let bindings = BINDINGS
        .iter()
        .filter(|binding| interface.get(**binding).is_some());
    if bindings.count() != 1 {
        let message = format!(
            "logical {name} interface must have exactly one binding method or binding plugin"
        );
        causes.push(Cause::invalid(path, message));
    }
    let of_pod = networks
        .iter()
        .any(|network| text(network, "/name") == name && network.get("pod").is_some());
    if interface.get("masquerade").is_some() && !of_pod {
        let message = "Masquerade interface only implemented with pod network";
        causes.push(Cause::invalid(format!("{path}.name"), message));
    }
    causes
}

fn field_causes(path: &str, interface: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let name = text(interface, "/name");
    let plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_');
    if name.is_empty() || !name.chars().all(plain) {
        let message = "Network interface name can only contain alphabetical characters, numbers, \
                       dashes (-) or underscores (_)";
        causes.push(Cause::invalid(format!("{path}.name"), message));
    }
    let model = text(interface, "/model");
    if !model.is_empty() && !MODELS.contains(&model) {
        let message = format!("interface {path}.name uses model {model} that is not supported.");
        causes.push(Cause::of(
            "FieldValueNotSupported",
            format!("{path}.model"),
            message,
        ));
    }
    let mac = text(interface, "/macAddress");
    if let Some(problem) = mac_problem(mac) {
        let message = format!("interface {path}.name has {problem} ({mac}).");
        causes.push(Cause::invalid(format!("{path}.macAddress"), message));
    }
    causes
}

fn mac_problem(mac: &str) -> Option<&'static str> {
    if mac.is_empty() {
        return None;
    }
    let separator = if mac.contains('-') { '-' } else { ':' };
    let parts: Vec<&str> = mac.split(separator).collect();
    let hexadecimal = parts
        .iter()
        .all(|part| part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_hexdigit()));
    match parts.len() {
        6 if hexadecimal => None,
        8 | 20 if hexadecimal => Some("too long MAC address"),
        _ => Some("malformed MAC address"),
    }
}
