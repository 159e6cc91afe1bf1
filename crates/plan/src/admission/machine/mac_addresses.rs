//! Review of MAC addresses that several Machines request.
//!
//! Two guests with one address on one network receive each other's packets, so the second is refused.
//! Different networks may be connected (two NetworkConfigurations may use one bridge, and bridges of one
//! name may differ between nodes), so there it is a warning.

use api::Machine;

use super::ReviewContext;
use crate::admission::{Problem, Verdict};

/// Number of other Machines that a message names.
const MAX_NAMES: usize = 3;

/// The MAC addresses that a Machine requests, normalized for comparison.
pub fn mac_addresses(machine: &Machine) -> impl Iterator<Item = String> {
    let networks = machine.spec.networks.iter().flatten();
    networks.filter_map(|network| Some(compared(network.mac_address.as_deref()?)))
}

fn compared(address: &str) -> String {
    address.to_ascii_lowercase()
}

/// One message for each MAC address that other Machines request as well. Machines in other namespaces are
/// not named: users of this namespace may not be allowed to see them.
pub(crate) fn shared_addresses(machine: &Machine, others: &[&Machine]) -> Vec<String> {
    let networks = machine.spec.networks.iter().flatten().enumerate();
    networks
        .filter_map(|(index, network)| {
            let address = compared(network.mac_address.as_deref()?);
            let rivals = others
                .iter()
                .filter(|other| super::is_another(other, machine))
                .filter(|other| mac_addresses(other).any(|other| other == address));
            let mut names: Vec<String> = rivals
                .map(|other| {
                    let is_near = other.metadata.namespace == machine.metadata.namespace;
                    let name = other.metadata.name.as_deref().filter(|_| is_near);
                    name.map_or("a Machine of another namespace".to_owned(), |name| {
                        format!("Machine {name:?}")
                    })
                })
                .collect();
            names.sort_unstable();
            names.dedup();
            names.truncate(MAX_NAMES);
            (!names.is_empty()).then(|| {
                format!(
                    "spec.networks[{index}].macAddress: {address} is also that of {}: on one network only \
                     one of them is reachable; give each its own, or leave it out to have one generated",
                    names.join(", ")
                )
            })
        })
        .collect()
}

pub(super) fn check(
    old: Option<&Machine>,
    new: &Machine,
    context: &ReviewContext,
    verdict: &mut Verdict,
) {
    let before = old.map(|old| problems(old, context, &mut Verdict::default()));
    let now = problems(new, context, verdict);
    verdict.compare_problems(before.unwrap_or_default(), now);
}

/// Conflicting addresses. Those that may be harmless are added as warnings.
fn problems(machine: &Machine, context: &ReviewContext, verdict: &mut Verdict) -> Vec<Problem> {
    let mut problems = Vec::new();
    let networks = machine.spec.networks.iter().flatten();
    for (index, network) in networks.enumerate() {
        let Some(address) = &network.mac_address else {
            continue;
        };
        let field = format!("spec.networks[{index}].macAddress");
        for other in context
            .others
            .iter()
            .filter(|other| super::is_another(other, machine))
        {
            let networks = other.spec.networks.iter().flatten();
            let mut same = networks.filter(|other| {
                let address = other.mac_address.as_deref().map(compared);
                address == network.mac_address.as_deref().map(compared)
            });
            let Some(same) = same.next() else {
                continue;
            };
            let name = other.metadata.name.as_deref().unwrap_or_default();
            if other.metadata.namespace != machine.metadata.namespace {
                // Users of this namespace may not be allowed to see its name.
                verdict.warn(format!(
                    "{field}: {address:?} is also that of a Machine of another namespace: only one of them is reachable if both are on the same wire"
                ));
            } else if same.network_name != network.network_name {
                verdict.warn(format!(
                    "{field}: {address:?} is also that of Machine {name:?} on another network: only one of them is reachable if both are on the same wire"
                ));
            } else if other.metadata.deletion_timestamp.is_some() {
                verdict.warn(format!(
                    "{field}: {address:?} is still that of Machine {name:?}, which is being deleted"
                ));
            } else {
                problems.push(Problem::new(
                    &*field,
                    format!(
                        "{address:?} is also that of Machine {name:?} on this network: give each its own, or leave it out to have one generated"
                    ),
                ));
            }
        }
    }
    problems
}
