//! Volumes of VMs and VMIs, and the state of their claims and DataVolumes.

use serde_json::{Value, json};

use crate::{
    Caches,
    kind::{CLAIM, DATA_VOLUME, STORAGE_CLASS},
    object::{Key, Object, condition, is_true, list, text},
};

/// Annotation of a StorageClass whose volumes can be snapshotted; replaces VolumeSnapshotClasses,
/// which the sandbox does not have.
pub const SNAPSHOT_CLASS_ANNOTATION: &str = "sandbox.vitistack.io/volume-snapshot-class";

/// Claim of a volume. The claim of a DataVolume has the same name.
pub fn claim_name(volume: &Value) -> Option<&str> {
    ["/persistentVolumeClaim/claimName", "/dataVolume/name"]
        .iter()
        .map(|pointer| text(volume, pointer))
        .find(|name| !name.is_empty())
}

/// Claims of volumes, including missing ones.
pub fn claims<'a>(
    caches: &'a Caches,
    namespace: &'a str,
    volumes: &'a [Value],
) -> impl Iterator<Item = (&'a str, Option<&'a Object>)> {
    volumes
        .iter()
        .filter_map(claim_name)
        .map(move |name| (name, caches.find(CLAIM, namespace, name)))
}

/// Existing DataVolumes of volumes.
pub fn data_volumes<'a>(
    caches: &'a Caches,
    namespace: &'a str,
    volumes: &'a [Value],
) -> impl Iterator<Item = &'a Object> {
    volumes.iter().filter_map(move |volume| {
        let name = text(volume, "/dataVolume/name");
        (!name.is_empty()).then(|| caches.find(DATA_VOLUME, namespace, name))?
    })
}

/// Whether an import failed or its importer stopped with an error.
pub fn has_failed(data_volume: &Value) -> bool {
    let running = condition(data_volume, "Running");
    text(data_volume, "/status/phase") == "Failed"
        || running.is_some_and(|running| {
            text(running, "/status") == "False"
                && matches!(text(running, "/reason"), "Error" | "ImagePullFailed")
        })
}

/// Whether a DataVolume is being filled. One that waits for its first consumer is not.
pub fn is_provisioning(data_volume: &Value) -> bool {
    match text(data_volume, "/status/phase") {
        "Succeeded" | "PendingPopulation" => false,
        "WaitForFirstConsumer" => is_true(data_volume, "Bound"),
        _ => true,
    }
}

/// Whether a DataVolume is filled, or will be once a consumer uses it.
pub fn is_usable(data_volume: &Value) -> bool {
    matches!(
        text(data_volume, "/status/phase"),
        "Succeeded" | "WaitForFirstConsumer" | "PendingPopulation"
    )
}

/// Snapshot support of a VM's volumes, with the reason if there is none.
pub fn snapshot_statuses(caches: &Caches, namespace: &str, volumes: &[Value]) -> Vec<Value> {
    let status = |volume: &Value| -> Result<(), String> {
        let name = text(volume, "/name");
        let Some(claim) = claim_name(volume) else {
            return Err(format!(
                "Snapshot is not supported for this volumeSource type [{name}]"
            ));
        };
        let claim = caches
            .find(CLAIM, namespace, claim)
            .ok_or_else(|| "PVC not found".to_owned())?;
        let class = text(claim, "/spec/storageClassName");
        caches
            .get(STORAGE_CLASS, &Key::cluster(class))
            .and_then(|class| crate::object::annotation(class, SNAPSHOT_CLASS_ANNOTATION))
            .map(|_| ())
            .ok_or_else(|| {
                format!(
                    "No VolumeSnapshotClass: Volume snapshots are not configured for this \
                     StorageClass [{class}] [{name}]"
                )
            })
    };
    volumes
        .iter()
        .map(|volume| match status(volume) {
            Ok(()) => json!({ "name": text(volume, "/name"), "enabled": true }),
            Err(reason) => {
                json!({ "name": text(volume, "/name"), "enabled": false, "reason": reason })
            }
        })
        .collect()
}

/// Status of a VMI's attached volumes.
pub fn volume_statuses(caches: &Caches, namespace: &str, volumes: &[Value]) -> Vec<Value> {
    let mut statuses: Vec<Value> = volumes
        .iter()
        .map(|volume| {
            let mut status = json!({ "name": text(volume, "/name"), "target": "" });
            let claim = claim_name(volume).and_then(|name| caches.find(CLAIM, namespace, name));
            if let (Some(claim), Some(fields)) = (claim, status.as_object_mut()) {
                fields.insert("persistentVolumeClaimInfo".to_owned(), claim_info(claim));
            }
            status
        })
        .collect();
    statuses.sort_by(|one, other| text(one, "/name").cmp(text(other, "/name")));
    statuses
}

fn claim_info(claim: &Value) -> Value {
    let mode = match text(claim, "/spec/volumeMode") {
        "" => "Filesystem",
        mode => mode,
    };
    let mut info = json!({
        "claimName": crate::object::name(claim),
        "accessModes": list(claim, "/spec/accessModes"),
        "capacity": claim.pointer("/status/capacity").cloned().unwrap_or_else(|| json!({})),
        "requests": claim.pointer("/spec/resources/requests").cloned().unwrap_or_else(|| json!({})),
        "volumeMode": mode,
    });
    if mode == "Filesystem"
        && let Some(fields) = info.as_object_mut()
    {
        fields.insert("filesystemOverhead".to_owned(), "0.055".into());
    }
    info
}
