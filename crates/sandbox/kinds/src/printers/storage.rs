//! Printers of volumes, claims and storage classes.

use serde_json::{Value, json};

use super::{AGE, Column, NAME, Row};
use crate::{
    Kind,
    value::{has, list, map},
};

pub(super) fn columns(kind: &Kind) -> Option<&'static [Column]> {
    Some(match (kind.group, kind.kind) {
        ("", "PersistentVolumeClaim") => {
            const {
                &[
                    NAME,
                    Column::text("Status", "Whether it is bound"),
                    Column::text("Volume", "The volume that it is bound to"),
                    Column::text("Capacity", "The size of the volume"),
                    Column::text("Access Modes", "How it may be mounted"),
                    Column::text("StorageClass", "What provides it"),
                    Column::text("VolumeAttributesClass", "How its volume behaves"),
                    AGE,
                    Column::text("VolumeMode", "Block or Filesystem").wide(),
                ]
            }
        }
        ("", "PersistentVolume") => {
            const {
                &[
                    NAME,
                    Column::text("Capacity", "Its size"),
                    Column::text("Access Modes", "How it may be mounted"),
                    Column::text("Reclaim Policy", "What happens to it after use"),
                    Column::text("Status", "Whether it is in use"),
                    Column::text("Claim", "Who uses it"),
                    Column::text("StorageClass", "What provides it"),
                    Column::text("VolumeAttributesClass", "How it behaves"),
                    Column::text("Reason", "Why it is in this state"),
                    AGE,
                    Column::text("VolumeMode", "Block or Filesystem").wide(),
                ]
            }
        }
        ("storage.k8s.io", "StorageClass") => {
            const {
                &[
                    NAME,
                    Column::text("Provisioner", "What makes its volumes"),
                    Column::text("ReclaimPolicy", "What happens to volumes after use"),
                    Column::text("VolumeBindingMode", "When volumes are made"),
                    Column::text("AllowVolumeExpansion", "Whether volumes may grow"),
                    AGE,
                ]
            }
        }
        ("storage.k8s.io", "VolumeAttachment") => {
            const {
                &[
                    NAME,
                    Column::text("Attacher", "What attaches it").name_format(),
                    Column::text("PV", "The volume"),
                    Column::text("Node", "The node"),
                    Column::truth("Attached", "Whether it is attached"),
                    AGE,
                ]
            }
        }
        ("storage.k8s.io", "CSIDriver") => {
            const {
                &[
                    NAME,
                    Column::truth("AttachRequired", "Whether volumes are attached first"),
                    Column::truth(
                        "PodInfoOnMount",
                        "Whether the driver needs information about the pod",
                    ),
                    Column::truth(
                        "StorageCapacity",
                        "Whether the scheduler considers the storage capacity",
                    ),
                    Column::text("TokenRequests", "The tokens that it wants"),
                    Column::truth("RequiresRepublish", "Whether it is called again and again"),
                    Column::text("Modes", "What kinds of volumes it has"),
                    AGE,
                ]
            }
        }
        ("storage.k8s.io", "CSINode") => {
            const {
                &[
                    NAME,
                    Column::number("Drivers", "How many drivers it has"),
                    AGE,
                ]
            }
        }
        _ => return None,
    })
}

pub(super) fn cells(kind: &Kind, row: Row<'_>) -> Option<Vec<Value>> {
    let mode = || row.or("spec.volumeMode", "<unset>");
    let attributes = || row.or("spec.volumeAttributesClassName", "<unset>");
    let phase = || {
        if row.is_deleted() {
            "Terminating".into()
        } else {
            Value::from(row.text("status.phase"))
        }
    };
    Some(match (kind.group, kind.kind) {
        ("", "PersistentVolumeClaim") => {
            let bound = has(row.object, "spec.volumeName");
            let of_volume = |value: Value| if bound { value } else { "".into() };
            vec![
                row.name(),
                phase(),
                row.text("spec.volumeName").into(),
                of_volume(row.or("status.capacity.storage", "0")),
                of_volume(access_modes(row, "status.accessModes")),
                class(row),
                attributes(),
                row.age(),
                mode(),
            ]
        }
        ("", "PersistentVolume") => {
            let claim = if has(row.object, "spec.claimRef") {
                format!(
                    "{}/{}",
                    row.text("spec.claimRef.namespace"),
                    row.text("spec.claimRef.name")
                )
            } else {
                String::new()
            };
            vec![
                row.name(),
                row.or("spec.capacity.storage", "0"),
                access_modes(row, "spec.accessModes"),
                row.text("spec.persistentVolumeReclaimPolicy").into(),
                phase(),
                claim.into(),
                class(row),
                attributes(),
                row.text("status.reason").into(),
                row.age(),
                mode(),
            ]
        }
        ("storage.k8s.io", "StorageClass") => vec![
            with_default(row, "storageclass.kubernetes.io/is-default-class"),
            row.text("provisioner").into(),
            row.or("reclaimPolicy", "Delete"),
            row.or("volumeBindingMode", "Immediate"),
            row.truth("allowVolumeExpansion"),
            row.age(),
        ],
        ("storage.k8s.io", "VolumeAttachment") => vec![
            row.name(),
            row.text("spec.attacher").into(),
            row.text("spec.source.persistentVolumeName").into(),
            row.text("spec.nodeName").into(),
            row.truth("status.attached"),
            row.age(),
        ],
        ("storage.k8s.io", "CSIDriver") => csi_driver(row),
        ("storage.k8s.io", "CSINode") => vec![row.name(), row.count("spec.drivers"), row.age()],
        _ => return None,
    })
}

/// Name with the suffix `(default)` for the default class.
pub(super) fn with_default(row: Row<'_>, annotation: &str) -> Value {
    let marked = map(row.object, "metadata.annotations").get(annotation) == Some(&json!("true"));
    let name = row.text("metadata.name");
    if marked {
        format!("{name} (default)").into()
    } else {
        name.into()
    }
}

fn class(row: Row<'_>) -> Value {
    let annotation =
        map(row.object, "metadata.annotations").get("volume.beta.kubernetes.io/storage-class");
    annotation
        .cloned()
        .unwrap_or_else(|| row.text("spec.storageClassName").into())
}

fn access_modes(row: Row<'_>, path: &str) -> Value {
    let modes = list(row.object, path);
    let short = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let present = short
        .iter()
        .filter(|(mode, _)| modes.iter().any(|present| present == mode));
    present
        .map(|(_, short)| *short)
        .collect::<Vec<_>>()
        .join(",")
        .into()
}

fn csi_driver(row: Row<'_>) -> Vec<Value> {
    let joined = |path: &str, field: Option<&str>| {
        let items = list(row.object, path).iter();
        let texts =
            items.filter_map(|item| field.map_or(Some(item), |field| item.get(field))?.as_str());
        texts.collect::<Vec<_>>().join(",")
    };
    let tokens = if has(row.object, "spec.tokenRequests") {
        joined("spec.tokenRequests", Some("audience"))
    } else {
        "<unset>".to_owned()
    };
    vec![
        row.name(),
        row.truth("spec.attachRequired"),
        row.truth("spec.podInfoOnMount"),
        row.truth("spec.storageCapacity"),
        tokens.into(),
        row.truth("spec.requiresRepublish"),
        super::none_if_empty(joined("spec.volumeLifecycleModes", None)),
        row.age(),
    ]
}
