//! Admission review of NetworkConfigurations.

use std::sync::Arc;

use api::{Machine, NetworkConfiguration};

use super::{Verdict, machines, names};
use crate::machine::is_being_deleted;

/// Controllers whose deletions are always allowed, because refusing them would block the deletion of a
/// namespace. Clusters may run all controllers under the account of kube-controller-manager.
const CLEANERS: [&str; 3] = [
    "system:serviceaccount:kube-system:namespace-controller",
    "system:serviceaccount:kube-system:generic-garbage-collector",
    "system:kube-controller-manager",
];

/// Reviews an update of a NetworkConfiguration that these Machines use.
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

/// Reviews the deletion of a NetworkConfiguration that these Machines use.
///
/// Machines that are being deleted do not count: the finalizer keeps the network until they are gone.
pub fn delete(network: &NetworkConfiguration, users: &[Arc<Machine>], user: &str) -> Verdict {
    let mut verdict = Verdict::default();
    let staying: Vec<&Machine> = users
        .iter()
        .map(Arc::as_ref)
        .filter(|machine| !is_being_deleted(machine))
        .collect();
    let is_terminating = network.metadata.deletion_timestamp.is_some();
    if staying.is_empty() || is_terminating || CLEANERS.contains(&user) {
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
