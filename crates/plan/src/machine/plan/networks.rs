//! Networks of a Machine: checks that the attachment definitions exist. The network planner creates those of
//! NetworkConfigurations; those of VLANs are created and repaired here. One that someone else created is used
//! as it is.

use api::{ObjectMeta, labels, multus::NetworkAttachmentDefinition};

use super::{
    ownership::{controller, is_terminating, name, uid},
    tampering::repaired,
};
use crate::{
    Event,
    machine::{
        Action, Attachment, ErrorType, Kind, Lookup, Object, Observed, Obstacle, Part,
        ResolvedMachine, Step, build::remote_definition, cluster,
    },
    managed,
    network::same_json,
};

/// Creates the missing attachment definitions of VLANs, and repairs the operator's. In another cluster than
/// that of the NetworkConfigurations also theirs.
pub(super) fn definitions(
    observed: &Observed<'_>,
    machine: &ResolvedMachine,
    desired: Vec<NetworkAttachmentDefinition>,
) -> Vec<Step> {
    if !observed.installed.multus {
        return Vec::new();
    }
    let desired = desired.into_iter().chain(of_networks(observed, machine));
    let steps = desired.filter_map(|definition| {
        let mut found = observed.attachments.iter();
        match found.find(|found| found.metadata.name == definition.metadata.name) {
            None => Some(create(definition)),
            Some(found) => repair(found, definition),
        }
    });
    steps.collect()
}

/// Definitions of the Machine's NetworkConfigurations in another cluster.
fn of_networks(
    observed: &Observed<'_>,
    machine: &ResolvedMachine,
) -> Vec<NetworkAttachmentDefinition> {
    let Some(cluster) = &observed.surroundings.cluster else {
        return Vec::new();
    };
    let mut definitions: Vec<NetworkAttachmentDefinition> = Vec::new();
    for interface in &machine.interfaces {
        let Attachment::Network(network) = &interface.attachment else {
            continue;
        };
        let Lookup::Found(found) = observed.surroundings.networks.get(network) else {
            continue;
        };
        let is_new = !definitions
            .iter()
            .any(|it| it.metadata.name.as_ref() == Some(network));
        let is_terminating = is_terminating(&found.metadata);
        if is_new && !is_terminating {
            definitions.extend(remote_definition(found, cluster));
        }
    }
    definitions
}

fn create(definition: NetworkAttachmentDefinition) -> Step {
    let name = name(&definition.metadata).to_owned();
    let message = format!("Created NetworkAttachmentDefinition {name}");
    Step {
        action: Action::Create(Object::Attachment(definition)),
        reason: "the network has no definition in the cluster".to_owned(),
        event: Some(Event::normal("Created", message)),
    }
}

/// Restores the configuration of a definition that the operator created. Others may own it too, and one
/// without the operator's label is used as it is.
fn repair(
    found: &NetworkAttachmentDefinition,
    mut desired: NetworkAttachmentDefinition,
) -> Option<Step> {
    let is_managed = |metadata: &ObjectMeta| {
        let labels = metadata.labels.as_ref();
        labels.is_some_and(|it| {
            it.get(labels::MANAGED_BY)
                .is_some_and(|by| by == labels::MANAGER)
        })
    };
    if !is_managed(&found.metadata)
        || is_terminating(&found.metadata)
        || same_json(&found.spec.config, &desired.spec.config)
    {
        return None;
    }
    desired
        .metadata
        .owner_references
        .clone_from(&found.metadata.owner_references);
    let fields = ["spec.config".to_owned()];
    Some(Step {
        event: repaired(Kind::NetworkAttachmentDefinition, &found.metadata, &fields),
        action: Action::Apply {
            uid: uid(&found.metadata),
            created_at: managed::created_at(&found.metadata),
            object: Object::Attachment(desired),
        },
        reason: "it differs from the network".to_owned(),
    })
}

/// Obstacles to attaching a VirtualMachine to its networks.
pub(super) fn obstacles(observed: &Observed<'_>, machine: &ResolvedMachine) -> Vec<Obstacle> {
    let attachments = || machine.interfaces.iter().map(|it| &it.attachment);
    if attachments().all(|it| *it == Attachment::PodNetwork) {
        return Vec::new();
    }
    let mut networks: Vec<&str> = attachments()
        .filter_map(|attachment| match attachment {
            Attachment::PodNetwork | Attachment::Vlan(_) => None,
            Attachment::Network(network) => Some(network.as_str()),
        })
        .collect();
    networks.sort_unstable();
    networks.dedup();
    if !observed.installed.multus {
        return vec![Obstacle::error(
            Part::Network,
            ErrorType::ApiError,
            multus_is_missing(observed),
        )];
    }
    networks
        .into_iter()
        .filter_map(|network| obstacle(observed, network))
        .collect()
}

fn multus_is_missing(observed: &Observed<'_>) -> String {
    let place = match &observed.surroundings.cluster {
        Some(cluster) => format!(" in cluster {}", cluster.name),
        None => String::new(),
    };
    format!(
        "Multus, which attaches machines to networks, is not installed{place}: install it, or leave networks out for the pod network"
    )
}

/// Whether the operator created a definition for a NetworkConfiguration of this name.
fn is_managed_for(metadata: &ObjectMeta, network: &str) -> bool {
    let label = |name: &str| metadata.labels.as_ref()?.get(name).map(String::as_str);
    label(labels::MANAGED_BY) == Some(labels::MANAGER)
        && label(labels::NETWORK_CONFIGURATION) == Some(network)
        && label(labels::WORKLOAD_CLUSTER).is_some()
}

fn obstacle(observed: &Observed<'_>, network: &str) -> Option<Obstacle> {
    let configuration = match observed.surroundings.networks.get(network) {
        Lookup::Found(configuration) => configuration,
        // The Machine does not resolve in this case.
        Lookup::Missing | Lookup::Unknown => return None,
    };
    if configuration.metadata.deletion_timestamp.is_some() && observed.virtual_machine.is_none() {
        return Some(Obstacle::error(
            Part::Network,
            ErrorType::NetworkConfigurationNotFound,
            format!(
                "NetworkConfiguration {network:?} is being deleted: recreate it afterwards, or name another"
            ),
        ));
    }
    let attachment = observed
        .attachments
        .iter()
        .find(|attachment| name(&attachment.metadata) == network);
    if observed.surroundings.cluster.is_some() {
        let foreign = attachment.filter(|it| !is_managed_for(&it.metadata, network))?;
        return Some(Obstacle::error(
            Part::Network,
            ErrorType::ForeignObject,
            format!(
                "NetworkAttachmentDefinition {} in {} does not belong to this operator: delete it, or give the network another name",
                name(&foreign.metadata),
                cluster::described(observed)
            ),
        ));
    }
    let is_own = attachment.is_some_and(|attachment| {
        controller(&attachment.metadata) == configuration.metadata.uid.as_deref()
    });
    if is_own {
        return None;
    }
    let conditions = configuration
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_deref());
    let not_ready = conditions
        .unwrap_or_default()
        .iter()
        .find(|condition| condition.type_ == "Ready" && condition.status == "False");
    Some(match not_ready {
        Some(failed) => Obstacle::error(
            Part::Network,
            ErrorType::ApiError,
            format!("NetworkConfiguration {network:?}: {}", failed.message),
        ),
        None => Obstacle::waiting(
            Part::Network,
            format!("NetworkConfiguration {network:?} is being prepared"),
        ),
    })
}
