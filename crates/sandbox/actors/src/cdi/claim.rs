//! Claims of DataVolumes.

use quantity::Quantity;
use serde_json::{Map, Value, json};

use crate::{
    Caches, faults,
    kind::{DATA_VOLUME, STORAGE_CLASS},
    object::{controlled_by, list, map, name, namespace, text, uid},
    pods::requests::amount,
    storage::default_class,
};

/// File system overhead of a disk image, in percent.
const OVERHEAD: i128 = 6;
const MEBIBYTE: i128 = 1024 * 1024;

/// The claim of a DataVolume. What `storage` leaves out is filled in from the class.
pub(super) fn claim_of(caches: &Caches, volume: &Value, source_size: Option<&Value>) -> Value {
    let spec = match volume.pointer("/spec/pvc") {
        Some(given) => given.clone(),
        None => from_storage(caches, volume.pointer("/spec/storage"), source_size),
    };
    let mut labels = json!({ "app": "containerized-data-importer" });
    if text(&spec, "/volumeMode") != "Block" {
        labels["alerts.k8s.io/KubePersistentVolumeFillingUp"] = "disabled".into();
    }
    copy_metadata(&mut labels, map(volume, "/metadata/labels"));
    labels["app.kubernetes.io/component"] = "storage".into();
    labels["app.kubernetes.io/managed-by"] = "cdi-controller".into();
    let mut annotations = json!({});
    copy_metadata(&mut annotations, map(volume, "/metadata/annotations"));
    if let Some(annotations) = annotations.as_object_mut() {
        // A fault of the DataVolume does not apply to its claim.
        annotations.remove(faults::ANNOTATION);
    }
    annotations["cdi.kubevirt.io/storage.contentType"] = "kubevirt".into();
    annotations["cdi.kubevirt.io/storage.pod.restarts"] = "0".into();
    annotations["cdi.kubevirt.io/createdForDataVolume"] = uid(volume).into();
    json!({
        "metadata": {
            "name": name(volume),
            "namespace": namespace(volume),
            "labels": labels,
            "annotations": annotations,
            "ownerReferences": [controlled_by(DATA_VOLUME, volume)],
        },
        "spec": spec,
    })
}

/// Copies labels or annotations of the DataVolume to its claim.
fn copy_metadata(target: &mut Value, of_volume: Option<&Map<String, Value>>) {
    if let (Some(target), Some(of_volume)) = (target.as_object_mut(), of_volume) {
        target.extend(of_volume.clone());
    }
}

fn from_storage(caches: &Caches, storage: Option<&Value>, source_size: Option<&Value>) -> Value {
    let mut spec = storage.cloned().unwrap_or_else(|| json!({}));
    let class = match text(&spec, "/storageClassName") {
        "" => default_class(caches),
        named => caches.find(STORAGE_CLASS, "", named),
    };
    if let Some(class) = class {
        spec["storageClassName"] = name(class).into();
    }
    // As a StorageProfile would say: storage that binds immediately is accessible from all nodes.
    let is_local =
        class.is_some_and(|class| text(class, "/volumeBindingMode") == "WaitForFirstConsumer");
    let (mode, access) = if is_local {
        ("Filesystem", "ReadWriteOnce")
    } else {
        ("Block", "ReadWriteMany")
    };
    if text(&spec, "/volumeMode").is_empty() {
        let is_given = !list(&spec, "/accessModes").is_empty();
        spec["volumeMode"] = if is_given && is_local {
            "Filesystem"
        } else {
            mode
        }
        .into();
    }
    if list(&spec, "/accessModes").is_empty() {
        spec["accessModes"] = json!([access]);
    }
    let requested = spec
        .pointer("/resources/requests/storage")
        .or(source_size)
        .map(amount);
    if let Some(requested) = requested {
        let is_block = text(&spec, "/volumeMode") == "Block";
        spec["resources"]["requests"]["storage"] = required(requested, is_block).into();
    }
    spec
}

/// Size of a claim that fits a disk image of this size.
fn required(nanos: i128, is_block: bool) -> String {
    let bytes = nanos.div_euclid(1_000_000_000);
    let size = if is_block {
        bytes
    } else {
        let aligned = (bytes + MEBIBYTE - 1)
            .div_euclid(MEBIBYTE)
            .saturating_mul(MEBIBYTE);
        (aligned.saturating_mul(100 + OVERHEAD) + 99).div_euclid(100)
    };
    Quantity::from_bytes(i64::try_from(size).unwrap_or(i64::MAX)).to_string()
}
