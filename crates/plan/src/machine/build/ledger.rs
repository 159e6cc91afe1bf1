//! Address ledger: the NetworkConfiguration in which a Machine's interfaces and addresses are recorded.
//!
//! The operator writes names and MAC addresses. Status, finalizers and conditions belong to the operators
//! that allocate addresses.

use std::collections::BTreeMap;

use api::{NetworkConfiguration, NetworkConfigurationInterface, NetworkConfigurationSpec, labels};

use super::metadata;
use crate::{
    machine::{Identity, ResolvedMachine},
    naming,
};

/// The ledger of a Machine whose network is that of a NetworkNamespace; none until that is known.
pub(super) fn ledger(machine: &ResolvedMachine) -> Option<NetworkConfiguration> {
    let namespace = machine.network_namespace.as_ref()?;
    if machine.interfaces.is_empty() {
        return None;
    }
    let name = &machine.identity.name;
    let interfaces = machine
        .interfaces
        .iter()
        .map(|interface| NetworkConfigurationInterface {
            name: Some(interface.name.clone()),
            mac_address: interface.mac_address.clone(),
            ..NetworkConfigurationInterface::default()
        });
    let mut ledger = NetworkConfiguration::new(
        name,
        NetworkConfigurationSpec {
            name: Some(naming::ledger_short_name(name)),
            network_namespace_name: Some(namespace.name.clone()),
            provider: namespace.provider.clone(),
            network_interfaces: Some(interfaces.collect()),
            ..NetworkConfigurationSpec::default()
        },
    );
    // It is beside the Machine, wherever the virtual machine is.
    let identity = Identity {
        cluster: None,
        ..machine.identity.clone()
    };
    ledger.metadata = metadata(&identity, name.clone());
    let labels = ledger.metadata.labels.get_or_insert_default();
    labels.insert(labels::SOURCE_MACHINE.to_owned(), name.clone());
    let uid = machine.identity.uid.clone();
    ledger.metadata.annotations =
        uid.map(|uid| BTreeMap::from([(labels::MACHINE_UID.to_owned(), uid)]));
    Some(ledger)
}
