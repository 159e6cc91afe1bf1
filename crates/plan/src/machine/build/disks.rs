//! PersistentVolumeClaims and DataVolumes of a resolved Machine.

use api::{
    DiskSource, ObjectSource,
    cdi::{
        DataVolume, DataVolumeSource, DataVolumeSourceHttp, DataVolumeSourceObject,
        DataVolumeSourceRef, DataVolumeSourceRegistry, DataVolumeSpec,
    },
    core::{PersistentVolumeClaim, PersistentVolumeClaimSpec, StorageRequest, VolumeResources},
    labels,
};

use super::{VolumeObject, metadata};
use crate::{
    machine::{Identity, ResolvedDisk, ResolvedMachine},
    naming,
};

/// The claim of a disk, or the DataVolume if CDI fills it.
///
/// It has no owner reference, whatever the policy: the garbage collector would delete it by its own rules,
/// even while the operator is down. An annotation records the Machine's UID instead.
pub(super) fn volume(machine: &ResolvedMachine, disk: &ResolvedDisk) -> VolumeObject {
    let identity = &machine.identity;
    let mut metadata = metadata(identity, naming::claim(&identity.name, &disk.name));
    metadata.owner_references = None;
    metadata.annotations = identity.uid.clone().map(|uid| {
        let listed = disk
            .is_listed
            .then(|| (labels::LISTED_DISK.to_owned(), "true".to_owned()));
        [(labels::MACHINE_UID.to_owned(), uid)]
            .into_iter()
            .chain(listed)
            .collect()
    });
    let storage = PersistentVolumeClaimSpec {
        storage_class_name: disk.storage_class.clone(),
        access_modes: vec![disk.access_mode],
        volume_mode: Some(disk.volume_mode),
        resources: VolumeResources {
            requests: StorageRequest {
                storage: disk.size.to_string(),
            },
        },
    };
    let Some(source) = &disk.source else {
        return VolumeObject::Claim(PersistentVolumeClaim::new(metadata, storage));
    };
    let (source, source_ref) = cdi_source(identity, source);
    let spec = DataVolumeSpec {
        source,
        source_ref,
        storage,
    };
    let mut volume = DataVolume::new("", spec);
    volume.metadata = metadata;
    VolumeObject::DataVolume(volume)
}

fn cdi_source(
    machine: &Identity,
    source: &DiskSource,
) -> (Option<DataVolumeSource>, Option<DataVolumeSourceRef>) {
    let DiskSource {
        http,
        registry,
        pvc,
        snapshot,
        reference,
        blank,
    } = source;
    let object = |object: &ObjectSource| DataVolumeSourceObject {
        namespace: object
            .namespace
            .clone()
            .or_else(|| machine.namespace.clone()),
        name: object.name.clone(),
    };
    let http = http.as_ref().map(|http| {
        DataVolumeSource::Http(DataVolumeSourceHttp {
            url: http.url.clone(),
            secret_ref: http.secret_ref.clone(),
            cert_config_map: http.cert_config_map.clone(),
        })
    });
    let registry = registry.as_ref().map(|registry| {
        DataVolumeSource::Registry(DataVolumeSourceRegistry {
            url: registry.url.clone(),
            secret_ref: registry.secret_ref.clone(),
            cert_config_map: registry.cert_config_map.clone(),
            pull_method: registry.pull_method,
        })
    });
    let pvc = pvc.as_ref().map(|pvc| DataVolumeSource::Pvc(object(pvc)));
    let snapshot = snapshot
        .as_ref()
        .map(|snapshot| DataVolumeSource::Snapshot(object(snapshot)));
    let blank = blank.map(|_| DataVolumeSource::Blank {});
    let source_ref = reference.as_ref().map(|reference| DataVolumeSourceRef {
        kind: "DataSource".to_owned(),
        namespace: reference.namespace.clone(),
        name: reference.name.clone(),
    });
    (http.or(registry).or(pvc).or(snapshot).or(blank), source_ref)
}
