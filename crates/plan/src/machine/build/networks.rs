//! NetworkAttachmentDefinitions of NetworkConfigurations and of VLANs.

use std::collections::BTreeMap;

use api::{
    NetworkConfiguration, NetworkConfigurationSpec, ObjectMeta, OwnerReference, labels,
    multus::{BridgeConfig, NetworkAttachmentDefinition, NetworkAttachmentDefinitionSpec, NoIpam},
};

use super::owner;
use crate::{
    machine::{Attachment, RemoteCluster, ResolvedInterface, ResolvedMachine},
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

/// The same definition in another cluster than that of the NetworkConfiguration, without an owner there.
pub(crate) fn remote_definition(
    network: &NetworkConfiguration,
    cluster: &RemoteCluster,
) -> Option<NetworkAttachmentDefinition> {
    let mut definition = attachment_definition(network)?;
    definition.metadata.owner_references = None;
    let labels = definition.metadata.labels.get_or_insert_default();
    labels.extend(cluster_labels(cluster));
    Some(definition)
}

fn cluster_labels(cluster: &RemoteCluster) -> impl Iterator<Item = (String, String)> {
    let managed_from = cluster.managed_from.as_deref();
    let labels = [
        Some((labels::WORKLOAD_CLUSTER, &*cluster.name)),
        managed_from.map(|uid| (labels::MANAGED_FROM, uid)),
    ];
    let labels = labels.map(|it| it.map(|(label, value)| (label.to_owned(), value.to_owned())));
    labels.into_iter().flatten()
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
    let cluster = machine.identity.cluster.as_ref();
    let owner_uid = namespace.uid.clone().filter(|_| cluster.is_none());
    definition.metadata = ObjectMeta {
        name: Some(naming::vlan(id)),
        namespace: machine.identity.namespace.clone(),
        labels: Some(
            [
                (labels::MANAGED_BY.to_owned(), labels::MANAGER.to_owned()),
                (labels::VLAN_ID.to_owned(), id.to_string()),
            ]
            .into_iter()
            .chain(cluster.into_iter().flat_map(cluster_labels))
            .collect(),
        ),
        owner_references: owner_uid.map(|uid| {
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
