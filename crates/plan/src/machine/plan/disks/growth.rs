//! Expansion of claims: on request, never a reduction, and only if the StorageClass allows it.

use std::fmt;

use api::{
    ObjectMeta,
    core::{
        ClaimPhase, ObservedClaim, PersistentVolumeClaim, PersistentVolumeClaimSpec, StorageClass,
        StorageRequest, VolumeResources,
    },
};

use super::Disks;
use crate::{
    Event, Quantity,
    machine::{
        Action, ErrorType, Known, Lookup, Object, Observed, Obstacle, Part, ResolvedDisk, Step,
        plan::ownership::{is_terminating, uid},
    },
    sizes::printed,
};

impl Disks {
    /// Expands a claim that CDI created: we own nothing but its size.
    pub(super) fn grow(
        &mut self,
        observed: &Observed<'_>,
        disk: &ResolvedDisk,
        claim: &ObservedClaim,
    ) {
        if is_terminating(&claim.metadata) {
            return;
        }
        let Some(size) = self.growth(observed, disk, claim) else {
            return;
        };
        let metadata = ObjectMeta {
            name: claim.metadata.name.clone(),
            namespace: claim.metadata.namespace.clone(),
            ..ObjectMeta::default()
        };
        let spec = PersistentVolumeClaimSpec {
            resources: VolumeResources {
                requests: StorageRequest {
                    storage: size.to_string(),
                },
            },
            ..PersistentVolumeClaimSpec::default()
        };
        self.steps.push(Step {
            action: Action::Apply {
                object: Object::Claim(PersistentVolumeClaim::new(metadata, spec)),
                uid: uid(&claim.metadata),
                created_at: None,
            },
            reason: format!("disk {} grows to {size}", disk.name),
            event: Some(grown(disk, claim, size)),
        });
    }

    /// The size to expand to, if the claim requests less and its StorageClass allows it.
    pub(super) fn growth(
        &mut self,
        observed: &Observed<'_>,
        disk: &ResolvedDisk,
        claim: &ObservedClaim,
    ) -> Option<Quantity> {
        let requested: Quantity = claim.spec.resources.requests.storage.parse().ok()?;
        if disk.size <= requested {
            return None;
        }
        if let Some(not_expandable) =
            NotExpandable::of(claim, &observed.surroundings.storage_classes)
        {
            self.obstacles.push(Obstacle::error(
                Part::Storage,
                ErrorType::InvalidSpec,
                format!(
                    "disk {:?} cannot grow from {requested} to {}: {not_expandable}, or ask for {requested}",
                    disk.name, disk.size
                ),
            ));
            return None;
        }
        if claim.status.phase != ClaimPhase::Bound {
            self.obstacles.push(Obstacle::waiting(
                Part::Storage,
                format!("disk {:?} grows once its claim is bound", disk.name),
            ));
            return None;
        }
        Some(disk.size)
    }
}

/// The Event for an expansion.
pub(super) fn grown(disk: &ResolvedDisk, claim: &ObservedClaim, size: Quantity) -> Event {
    let from = &claim.spec.resources.requests.storage;
    let from = from.parse().map_or_else(|_| from.clone(), printed);
    let message = format!(
        "Growing disk {} from {from} to {}",
        disk.name,
        printed(size)
    );
    Event::normal("DiskResized", message)
}

/// Why a claim cannot be expanded. The message includes the remedy.
pub(crate) enum NotExpandable<'a> {
    Forbidden(&'a str),
    ClassMissing(&'a str),
    /// It has no class: its volume was provisioned by hand.
    WithoutClass,
}

impl<'a> NotExpandable<'a> {
    /// The reason for which the API server would refuse to expand a claim.
    pub(crate) fn of(claim: &'a ObservedClaim, classes: &Known<StorageClass>) -> Option<Self> {
        let class = claim.spec.storage_class_name.as_deref().unwrap_or_default();
        if class.is_empty() {
            return Some(Self::WithoutClass);
        }
        match classes.get(class) {
            Lookup::Found(found) if found.allow_volume_expansion == Some(true) => None,
            Lookup::Found(_) => Some(Self::Forbidden(class)),
            Lookup::Missing => Some(Self::ClassMissing(class)),
            Lookup::Unknown => None,
        }
    }
}

impl fmt::Display for NotExpandable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Forbidden(class) => write!(
                f,
                "StorageClass {class:?} does not allow it; set allowVolumeExpansion in it"
            ),
            Self::ClassMissing(class) => write!(
                f,
                "StorageClass {class:?} does not exist; create it with allowVolumeExpansion"
            ),
            Self::WithoutClass => f.write_str("its claim has no StorageClass; add another disk"),
        }
    }
}
