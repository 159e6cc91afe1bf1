//! Networks of a Machine: checks that the attachment definitions exist. The network planner creates those of
//! NetworkConfigurations; those of VLANs are created here, and used as they are if they exist.

use api::multus::NetworkAttachmentDefinition;

use super::ownership::{controller, name};
use crate::{
    Event,
    machine::{
        Action, Attachment, ErrorType, Lookup, Object, Observed, Obstacle, Part, ResolvedMachine,
        Step,
    },
};

/// Creates the missing attachment definitions of VLANs.
pub(super) fn definitions(
    observed: &Observed<'_>,
    desired: Vec<NetworkAttachmentDefinition>,
) -> impl Iterator<Item = Step> {
    let is_missing = |definition: &NetworkAttachmentDefinition| {
        let mut found = observed.attachments.iter();
        observed.installed.multus
            && !found.any(|found| found.metadata.name == definition.metadata.name)
    };
    let missing = desired.into_iter().filter(is_missing);
    missing
        .map(|definition| {
            let name = name(&definition.metadata).to_owned();
            let message = format!("Created NetworkAttachmentDefinition {name}");
            Step {
                action: Action::Create(Object::Attachment(definition)),
                reason: "the VLAN of the NetworkNamespace has no definition".to_owned(),
                event: Some(Event::normal("Created", message)),
            }
        })
        .collect::<Vec<_>>()
        .into_iter()
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
            "Multus, which attaches machines to networks, is not installed: install it, or leave networks out for the pod network",
        )];
    }
    networks
        .into_iter()
        .filter_map(|network| obstacle(observed, network))
        .collect()
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
