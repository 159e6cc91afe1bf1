//! Which changes and deletions of NetworkConfigurations are let in.

use std::sync::Arc;

use api::{Machine, NetworkConfiguration};

use super::{Verdict, machines, names};

/// Those that delete what is no longer wanted: a namespace that goes, and what has lost its owner. Who
/// stands in their way keeps a namespace from going. In a cluster whose controllers have no accounts
/// of their own they all share one.
const CLEANERS: [&str; 3] = [
    "system:serviceaccount:kube-system:namespace-controller",
    "system:serviceaccount:kube-system:generic-garbage-collector",
    "system:kube-controller-manager",
];

/// What is said to a change of a NetworkConfiguration that these Machines name.
pub fn review(
    old: Option<&NetworkConfiguration>,
    new: &NetworkConfiguration,
    users: &[Arc<Machine>],
) -> Verdict {
    let mut verdict = Verdict::default();
    let Some(old) = old else {
        return verdict;
    };
    if new.metadata.deletion_timestamp.is_some() || users.is_empty() {
        return verdict;
    }
    let fields = [
        ("spec.bridge", old.spec.bridge != new.spec.bridge),
        ("spec.vlan", old.spec.vlan != new.spec.vlan),
        ("spec.mtu", old.spec.mtu != new.spec.mtu),
    ];
    let changed: Vec<&str> = fields
        .into_iter()
        .filter_map(|(field, is_changed)| is_changed.then_some(field))
        .collect();
    if !changed.is_empty() {
        verdict.warn(format!(
            "{}: {} on this network ({}): each gets the change at its next start, and may not reach the others meanwhile",
            changed.join(", "),
            match users.len() {
                1 => "1 Machine is".to_owned(),
                count => format!("{} are", machines(count)),
            },
            names(users.iter().map(Arc::as_ref)),
        ));
    }
    verdict
}

/// What is said to a user who deletes a NetworkConfiguration that these Machines name.
///
/// Machines that are being deleted do not count: the finalizer holds the network until they are gone.
pub fn delete(network: &NetworkConfiguration, users: &[Arc<Machine>], user: &str) -> Verdict {
    let mut verdict = Verdict::default();
    let staying: Vec<&Machine> = users
        .iter()
        .map(Arc::as_ref)
        .filter(|machine| machine.metadata.deletion_timestamp.is_none())
        .collect();
    let is_going = network.metadata.deletion_timestamp.is_some();
    if staying.is_empty() || is_going || CLEANERS.contains(&user) {
        return verdict;
    }
    let name = network.metadata.name.as_deref().unwrap_or_default();
    verdict.conflict = Some(format!(
        "NetworkConfiguration {name:?} is in use by {} ({}): remove it from their spec.networks, or delete them first",
        machines(staying.len()),
        names(staying),
    ));
    verdict
}
