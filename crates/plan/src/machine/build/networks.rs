use std::collections::BTreeMap;

use api::{
    NetworkConfiguration, NetworkConfigurationSpec, ObjectMeta, labels,
    multus::{
        CniConfig, CniIpam, CniPlugin, NetworkAttachmentDefinition, NetworkAttachmentDefinitionSpec,
    },
};

use super::owner;

const CNI_VERSION: &str = "0.3.1";

/// The one NetworkAttachmentDefinition that all Machines of a NetworkConfiguration share; it
/// belongs to the NetworkConfiguration. None when that has neither a bridge nor a VLAN.
pub fn attachment_definition(
    network: &NetworkConfiguration,
) -> Option<NetworkAttachmentDefinition> {
    let NetworkConfigurationSpec {
        vlan,
        bridge,
        mtu,
        description: _,
    } = &network.spec;
    let name = network.metadata.name.clone().unwrap_or_default();
    let plugin = match (bridge, vlan) {
        (Some(bridge), &vlan) => CniPlugin::Bridge {
            bridge: bridge.clone(),
            vlan,
        },
        (None, &Some(vlan_id)) => CniPlugin::Vlan { vlan_id },
        (None, None) => return None,
    };
    let config = CniConfig {
        cni_version: CNI_VERSION.to_owned(),
        name: name.clone(),
        plugin,
        mtu: *mtu,
        ipam: CniIpam {},
    };
    let config = serde_json::to_string(&config).ok()?;
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
