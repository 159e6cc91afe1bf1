//! Networks of a Machine: checks that the attachment definitions exist. The network planner creates them.

use super::ownership::{controller, name};
use crate::machine::{Attachment, ErrorType, Lookup, Observed, Obstacle, Part, ResolvedMachine};

/// Obstacles to attaching a VirtualMachine to its networks.
pub(super) fn obstacles(observed: &Observed<'_>, machine: &ResolvedMachine) -> Vec<Obstacle> {
    let mut networks: Vec<&str> = machine
        .interfaces
        .iter()
        .filter_map(|interface| match &interface.attachment {
            Attachment::PodNetwork => None,
            Attachment::Network(network) => Some(network.as_str()),
        })
        .collect();
    networks.sort_unstable();
    networks.dedup();
    if networks.is_empty() {
        return Vec::new();
    }
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
