//! Checks of the Machine's disks: claims and DataVolumes.

use api::{
    ObservedCondition,
    cdi::DataVolumePhase,
    condition,
    core::{ClaimPhase, ObservedClaim},
};

use super::{
    super::{Cause, Finding, Severity},
    View, name_of, words,
};
use crate::Quantity;

pub(super) fn data_lost(view: &View<'_>) -> Vec<Finding> {
    let lost = view
        .condition("DataLost")
        .filter(|lost| lost.status == "True");
    let finding = lost.map(|lost| {
        view.machine(Cause::DataLost, Severity::Broken)
            .says(lost.message.clone())
            .remedy("restore the claim from a backup, or confirm the loss as the message says")
    });
    finding.into_iter().collect()
}

pub(super) fn claims(view: &View<'_>) -> Vec<Finding> {
    let claims = view.observed.claims.iter();
    claims.filter_map(|claim| unbound(view, claim)).collect()
}

fn unbound(view: &View<'_>, claim: &ObservedClaim) -> Option<Finding> {
    let name = name_of(&claim.metadata);
    match claim.status.phase {
        ClaimPhase::Lost => Some(
            view.on(
                "PersistentVolumeClaim",
                name,
                Cause::ClaimLost,
                Severity::Broken,
            )
            .says("the volume behind the claim is gone")
            .remedy("restore the volume, or restore the disk from a backup"),
        ),
        ClaimPhase::Bound => None,
        _ => {
            let reasons = ["ProvisioningFailed", "FailedBinding"];
            let event = view.last_event("PersistentVolumeClaim", &claim.metadata, &reasons)?;
            let class = claim.spec.storage_class_name.as_deref();
            let class = class.unwrap_or("the default class");
            Some(
                view.on(
                    "PersistentVolumeClaim",
                    name,
                    Cause::ProvisioningFailed,
                    Severity::Broken,
                )
                .says(event.message.clone())
                .remedy(format!(
                    "no volume is provisioned: check StorageClass {class} and the log of its \
                         provisioner, and that it has room for {}",
                    claim.spec.resources.requests.storage
                )),
            )
        }
    }
}

/// DataVolumes that CDI cannot create or fill, as the condition `StorageReady` reports them.
pub(super) fn volumes(view: &View<'_>) -> Vec<Finding> {
    let failing = [
        "ImportFailed",
        "CloneFailed",
        "SourceNotFound",
        "DiskNotCreated",
    ];
    let storage = view
        .condition("StorageReady")
        .filter(|ready| ready.status == "False");
    let reported = storage.filter(|ready| failing.contains(&ready.reason.as_str()));
    let volumes = view.observed.volumes.iter();
    let mut unfilled = volumes.filter(|volume| volume.status.phase != DataVolumePhase::Succeeded);
    let broken = unfilled.clone().find(|volume| {
        let running = condition(&volume.status.conditions, "Running");
        volume.status.phase == DataVolumePhase::Failed
            || volume.status.restart_count > 0 && running.is_some_and(ObservedCondition::is_false)
    });
    let (volume, message) = match (broken, reported) {
        (Some(volume), Some(ready)) => (Some(volume), ready.message.clone()),
        (Some(volume), None) => {
            let running = condition(&volume.status.conditions, "Running");
            let message = running.map_or("CDI cannot fill the volume", words);
            (Some(volume), message.to_owned())
        }
        (None, Some(ready)) => (unfilled.next(), ready.message.clone()),
        (None, None) => return Vec::new(),
    };
    let name = volume.map_or(view.name(), |volume| name_of(&volume.metadata));
    let reason = reported.map_or("ImportFailed", |ready| &ready.reason);
    let remedy = match reason {
        "SourceNotFound" => {
            "create the source that the message names, or correct spec.disks[].source"
        }
        "CloneFailed" => "check that the source is not in use, and is not larger than the disk",
        "DiskNotCreated" => "as the message says; check the disk's StorageClass and size",
        _ => {
            "check that the image's URL, its certificates and credentials are right, and that the \
              importer pod can reach it (kubectl logs of the pod importer-...)"
        }
    };
    let severity = if view.is_ready() {
        Severity::Degraded
    } else {
        Severity::Broken
    };
    vec![
        view.on("DataVolume", name, Cause::ImportFailed, severity)
            .says(format!("{reason}: {message}"))
            .remedy(remedy),
    ]
}

/// Claims that cannot grow.
pub(super) fn resizes(view: &View<'_>) -> Vec<Finding> {
    let claims = view.observed.claims.iter();
    let growing = claims.filter(|claim| is_smaller_than_requested(claim));
    let failed = growing.filter_map(|claim| {
        let reasons = [
            "VolumeResizeFailed",
            "FileSystemResizeFailed",
            "ExternalExpanding",
        ];
        let event = view.last_event("PersistentVolumeClaim", &claim.metadata, &reasons)?;
        event.is_warning().then(|| {
            let name = name_of(&claim.metadata);
            view.on(
                "PersistentVolumeClaim",
                name,
                Cause::ResizeFailed,
                Severity::Degraded,
            )
            .says(event.message.clone())
            .remedy(
                "the guest keeps the old size: check that the storage has room and that its driver \
                     can grow volumes",
            )
        })
    });
    failed.collect()
}

fn is_smaller_than_requested(claim: &ObservedClaim) -> bool {
    let size = |text: &str| text.parse::<Quantity>().ok();
    let requested = size(&claim.spec.resources.requests.storage);
    let capacity = claim
        .status
        .capacity
        .get("storage")
        .and_then(|text| size(text));
    matches!((requested, capacity), (Some(requested), Some(capacity)) if capacity < requested)
}
