//! Checks of the Machine itself, its network, and the components that act on it.

use super::{
    super::{Cause, Finding, Severity},
    GRACE_PERIOD, View,
};
use crate::upstream_messages::RefusalCause;

pub(super) fn other_provider(view: &View<'_>) -> Vec<Finding> {
    let observed = view.observed;
    if observed.provider.is_named_by(&observed.machine) {
        return Vec::new();
    }
    let named = observed
        .machine
        .spec
        .provider
        .as_deref()
        .unwrap_or_default();
    vec![
        view.machine(Cause::OtherProvider, Severity::Broken)
            .says(format!(
                "spec.provider names {named:?}, and this operator's is {:?}: it leaves the Machine alone",
                observed.provider.to_string()
            ))
            .remedy(
                "ask the operator of that provider, or remove spec.provider; if this operator has \
                 another name, pass it with --machine-provider",
            ),
    ]
}

pub(super) fn deleting(view: &View<'_>) -> Vec<Finding> {
    let metadata = &view.observed.machine.metadata;
    let Some(since) = &metadata.deletion_timestamp else {
        return Vec::new();
    };
    let foreign = metadata.finalizers.iter().flatten();
    let foreign: Vec<&str> = foreign
        .filter(|finalizer| *finalizer != api::labels::FINALIZER)
        .map(String::as_str)
        .collect();
    let reported = view.condition("Ready").map_or("", |ready| &ready.message);
    let (severity, remedy) = match (foreign.as_slice(), view.since(since) > GRACE_PERIOD * 4) {
        (_, false) => (Severity::Progressing, String::new()),
        ([], true) => (
            Severity::Broken,
            "check that the operator runs, and what its log says about this Machine".to_owned(),
        ),
        (others, true) => (
            Severity::Broken,
            format!(
                "the operators behind these finalizers have to remove them: {}",
                others.join(", ")
            ),
        ),
    };
    vec![
        view.machine(Cause::Deleting, severity)
            .says(format!("is being deleted: {reported}"))
            .remedy(remedy),
    ]
}

pub(super) fn kubevirt_missing(view: &View<'_>) -> Vec<Finding> {
    if view.observed.is_kubevirt_installed {
        return Vec::new();
    }
    vec![
        view.machine(Cause::KubeVirtMissing, Severity::Broken)
            .says("KubeVirt is not installed in this cluster")
            .remedy(
                "install KubeVirt; with this project's operator: create a KubeVirt resource \
                 (docs/virt-operator.md)",
            ),
    ]
}

/// Whether virt-api answers. Running guests continue without it.
pub(super) fn virt_api(view: &View<'_>) -> Vec<Finding> {
    let refused = view
        .condition("Ready")
        .filter(|ready| ready.status == "False");
    let refused = refused.filter(|ready| {
        matches!(
            RefusalCause::parse(&ready.message),
            RefusalCause::WebhookUnavailable { endpoint } if endpoint.contains("virt")
        )
    });
    let message = match (&view.observed.virt_api_failure, refused) {
        (Some(failure), _) => failure.clone(),
        (None, Some(ready)) => ready.message.clone(),
        (None, None) => return Vec::new(),
    };
    let severity = if view.is_ready() {
        Severity::Degraded
    } else {
        Severity::Broken
    };
    vec![
        Finding {
            object: "Service virt-api".to_owned(),
            ..view.machine(Cause::VirtApiUnavailable, severity)
        }
        .says(message)
        .remedy(
            "virt-api does not answer, so VirtualMachines cannot be created or changed: check its pods \
             (kubectl get pods -A -l kubevirt.io=virt-api) and the network between the API server and them",
        ),
    ]
}

/// A spec that the operator has not acted on.
pub(super) fn not_reconciled(view: &View<'_>) -> Vec<Finding> {
    let metadata = &view.observed.machine.metadata;
    let status = view.observed.machine.status.as_ref();
    let generation = metadata.generation.unwrap_or_default();
    let observed = status
        .and_then(|status| status.observed_generation)
        .unwrap_or_default();
    if observed >= generation || !view.observed.provider.is_named_by(&view.observed.machine) {
        return Vec::new();
    }
    // Of the last change to the spec; status and finalizers are written by operators.
    let entries = metadata.managed_fields.iter().flatten();
    let entries =
        entries.filter(|entry| entry.subresource.as_deref().unwrap_or_default().is_empty());
    let changed = entries
        .filter_map(|entry| entry.time.as_ref())
        .max_by_key(|time| time.0);
    let changed = changed.or(metadata.creation_timestamp.as_ref());
    if changed.is_none_or(|changed| view.since(changed) <= GRACE_PERIOD) {
        return Vec::new();
    }
    vec![
        view.machine(Cause::NotReconciled, Severity::Broken)
            .says(format!(
                "no operator has acted on generation {generation} of the Machine; its status describes {observed}"
            ))
            .remedy(
                "check that the operator runs, leads and may act on this namespace: \
                 kubectl -n kubevirt-operator-system get pods,leases",
            ),
    ]
}

pub(super) fn invalid_spec(view: &View<'_>) -> Vec<Finding> {
    let invalid = view
        .condition("SpecValid")
        .filter(|valid| valid.status == "False");
    let finding = invalid.map(|invalid| {
        view.machine(Cause::InvalidSpec, Severity::Broken)
            .says(format!("{}: {}", invalid.reason, invalid.message))
            .remedy(format!(
                "correct the field that the message names: kubectl -n {} edit machine {}",
                view.namespace(),
                view.name()
            ))
    });
    finding.into_iter().collect()
}

pub(super) fn network(view: &View<'_>) -> Vec<Finding> {
    let failed = view
        .condition("NetworkReady")
        .filter(|ready| ready.status == "False");
    let Some(failed) = failed else {
        return Vec::new();
    };
    let remedy = match failed.reason.as_str() {
        "NetworkPending" => {
            "the NetworkNamespace or the address is missing: check the operator that allocates it"
        }
        _ => "check the NetworkConfiguration that the message names, and that Multus is installed",
    };
    let severity = if view.is_ready() {
        Severity::Degraded
    } else {
        Severity::Broken
    };
    vec![
        view.machine(Cause::NetworkNotReady, severity)
            .says(format!("{}: {}", failed.reason, failed.message))
            .remedy(remedy),
    ]
}

/// A reason of `Ready` that is an error, in the operator's words. The checks before it may name its cause.
pub(super) fn reported(view: &View<'_>) -> Vec<Finding> {
    let Some(ready) = view
        .condition("Ready")
        .filter(|ready| ready.status == "False")
    else {
        return Vec::new();
    };
    let passes = [
        "Creating", "Starting", "Paused", "Stopping", "Stopped", "Deleting",
    ];
    // Explained by checks of their own.
    let explained = [
        "GuestNotReady",
        "NodeLost",
        "GuestShutdown",
        "StoppedByOther",
        "Evicted",
        "Crashed",
        "ImportFailed",
        "CloneFailed",
        "SourceNotFound",
        "DiskNotCreated",
        "DataLost",
    ];
    let reason = ready.reason.as_str();
    if passes.contains(&reason) || explained.contains(&reason) {
        return Vec::new();
    }
    vec![
        view.machine(Cause::Reported(reason.to_owned()), Severity::Broken)
            .says(ready.message.clone())
            .remedy(format!(
                "see {reason} in docs/machine.md, \"Errors\" and \"Conditions\""
            )),
    ]
}

/// Conditions that do not keep the guest from running.
pub(super) fn notices(view: &View<'_>) -> Vec<Finding> {
    let notices = [
        (
            "Bootable",
            "False",
            Cause::NothingToBoot,
            "give a disk a source, or boot from the network (bootOrder)",
        ),
        (
            "MacAddressShared",
            "True",
            Cause::MacAddressShared,
            "give one of the Machines another macAddress",
        ),
        (
            "RestartRequired",
            "True",
            Cause::RestartRequired,
            "restart the guest when it suits: kubectl machine restart",
        ),
    ];
    let found = notices
        .into_iter()
        .filter_map(|(type_, status, cause, remedy)| {
            let condition = view.condition(type_)?;
            (condition.status == status).then(|| {
                view.machine(cause, Severity::Degraded)
                    .says(condition.message.clone())
                    .remedy(remedy)
            })
        });
    found.collect()
}
