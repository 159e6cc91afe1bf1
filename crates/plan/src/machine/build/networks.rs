//! NetworkAttachmentDefinitions of NetworkConfigurations and of VLANs.

use std::collections::BTreeMap;

use api::{
    NetworkConfiguration, NetworkConfigurationSpec, ObjectMeta, OwnerReference, labels,
    multus::{BridgeConfig, NetworkAttachmentDefinition, NetworkAttachmentDefinitionSpec, NoIpam},
};

use super::owner;
use crate::{
    machine::{Attachment, ResolvedInterface, ResolvedMachine},
    naming,
};

const CNI_VERSION: &str = "0.3.1";

/// The NetworkAttachmentDefinition that all Machines of a NetworkConfiguration share; none without a
/// bridge.
pub fn attachment_definition(
    network: &NetworkConfiguration,
) -> Option<NetworkAttachmentDefinition> {
    let NetworkConfigurationSpec {
        vlan,
        bridge,
        mtu,
        description: _,
        // Addresses are allocated and recorded by other operators.
        name: _,
        provider: _,
        network_namespace_name: _,
        network_interfaces: _,
        cluster_identifier: _,
        datacenter_identifier: _,
        supervisor_identifier: _,
    } = &network.spec;
    let name = network.metadata.name.clone().unwrap_or_default();
    let config = BridgeConfig {
        cni_version: CNI_VERSION.to_owned(),
        name: name.clone(),
        type_: "bridge".to_owned(),
        bridge: bridge.clone()?,
        vlan: *vlan,
        // Without this, several versions of the plugin leave a tagged port in the default VLAN too.
        preserve_default_vlan: vlan.map(|_| false),
        mtu: *mtu,
        ipam: NoIpam {},
    };
    let config = serde_json::json!(config).to_string();
    let mut definition =
        NetworkAttachmentDefinition::new("", NetworkAttachmentDefinitionSpec { config });
    definition.metadata = ObjectMeta {
        name: Some(name.clone()),
        namespace: network.metadata.namespace.clone(),
        labels: Some(BTreeMap::from([
            (labels::MANAGED_BY.to_owned(), labels::MANAGER.to_owned()),
            (labels::NETWORK_CONFIGURATION.to_owned(), name.clone()),
        ])),
        owner_references: network
            .metadata
            .uid
            .clone()
            .map(|uid| vec![owner("NetworkConfiguration", name, uid)]),
        ..ObjectMeta::default()
    };
    Some(definition)
}

/// The NetworkAttachmentDefinition of a VLAN, which all Machines of a namespace share. The garbage
/// collector deletes it with the NetworkNamespace.
pub fn vlan_definition(
    machine: &ResolvedMachine,
    interface: &ResolvedInterface,
) -> Option<NetworkAttachmentDefinition> {
    let Attachment::Vlan(id) = interface.attachment else {
        return None;
    };
    let namespace = machine.network_namespace.as_ref();
    let namespace = namespace.filter(|namespace| namespace.pending.is_none())?;
    let tag = (id > 0).then_some(i32::from(id));
    let config = BridgeConfig {
        cni_version: CNI_VERSION.to_owned(),
        name: naming::vlan(id),
        type_: "bridge".to_owned(),
        bridge: naming::VLAN_BRIDGE.to_owned(),
        vlan: tag,
        preserve_default_vlan: tag.map(|_| false),
        mtu: None,
        ipam: NoIpam {},
    };
    let config = serde_json::json!(config).to_string();
    let mut definition =
        NetworkAttachmentDefinition::new("", NetworkAttachmentDefinitionSpec { config });
    definition.metadata = ObjectMeta {
        name: Some(naming::vlan(id)),
        namespace: machine.identity.namespace.clone(),
        labels: Some(BTreeMap::from([
            (labels::MANAGED_BY.to_owned(), labels::MANAGER.to_owned()),
            (labels::VLAN_ID.to_owned(), id.to_string()),
        ])),
        owner_references: namespace.uid.clone().map(|uid| {
            vec![OwnerReference {
                // Several NetworkNamespaces may have the same VLAN, and none needs to wait for it.
                controller: None,
                block_owner_deletion: None,
                ..owner("NetworkNamespace", namespace.name.clone(), uid)
            }]
        }),
        ..ObjectMeta::default()
    };
    Some(definition)
}
