//! PersistentVolumeClaims and DataVolumes of a resolved Machine.

use api::{
    ObjectSource,
    cdi::{
        DataVolume, DataVolumeSource, DataVolumeSourceHttp, DataVolumeSourceObject,
        DataVolumeSourceRef, DataVolumeSourceRegistry, DataVolumeSpec,
    },
    core::{PersistentVolumeClaim, PersistentVolumeClaimSpec, StorageRequest, VolumeResources},
    labels,
};

use super::{VolumeObject, metadata};
use crate::machine::{
    DataVolumeContent, DiskOrigin, Identity, ResolvedDisk, ResolvedMachine, ResolvedSource,
};

/// The claim of a disk, or the DataVolume if CDI fills it.
///
/// It has no owner reference, whatever the policy: the garbage collector would delete it by its own rules,
/// even while the operator is down. An annotation records the Machine's UID instead.
pub(super) fn volume(machine: &ResolvedMachine, disk: &ResolvedDisk) -> VolumeObject {
    let identity = &machine.identity;
    let mut metadata = metadata(identity, disk.claim(&identity.name));
    metadata.owner_references = None;
    metadata.annotations = identity.uid.clone().map(|uid| {
        let origin = match disk.origin {
            DiskOrigin::Size => None,
            DiskOrigin::Listed => Some(labels::LISTED_DISK),
            DiskOrigin::Installer => Some(labels::INSTALLER),
        };
        let origin = origin.map(|name| (name.to_owned(), "true".to_owned()));
        let adopted = disk.adopted_claim.as_ref();
        let adopted = adopted.map(|_| (labels::DISK.to_owned(), disk.name.clone()));
        [(labels::MACHINE_UID.to_owned(), uid)]
            .into_iter()
            .chain(origin)
            .chain(adopted)
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
    let content = match &disk.source {
        ResolvedSource::Empty => {
            return VolumeObject::Claim(PersistentVolumeClaim::new(metadata, storage));
        }
        ResolvedSource::DataVolume(content) => content,
    };
    let spec = data_volume_spec(identity, content, storage);
    let mut volume = DataVolume::new("", spec);
    volume.metadata = metadata;
    VolumeObject::DataVolume(volume)
}

fn data_volume_spec(
    machine: &Identity,
    content: &DataVolumeContent,
    storage: PersistentVolumeClaimSpec,
) -> DataVolumeSpec {
    let object = |object: &ObjectSource| DataVolumeSourceObject {
        namespace: object
            .namespace
            .clone()
            .or_else(|| machine.namespace.clone()),
        name: object.name.clone(),
    };
    let source = match content {
        DataVolumeContent::Http(http) => DataVolumeSource::Http(DataVolumeSourceHttp {
            url: http.url.clone(),
            secret_ref: http.secret_ref.clone(),
            cert_config_map: http.cert_config_map.clone(),
        }),
        DataVolumeContent::Registry(registry) => {
            DataVolumeSource::Registry(DataVolumeSourceRegistry {
                url: registry.url.clone(),
                secret_ref: registry.secret_ref.clone(),
                cert_config_map: registry.cert_config_map.clone(),
                pull_method: registry.pull_method,
            })
        }
        DataVolumeContent::Pvc(pvc) => DataVolumeSource::Pvc(object(pvc)),
        DataVolumeContent::Snapshot(snapshot) => DataVolumeSource::Snapshot(object(snapshot)),
        DataVolumeContent::Blank => DataVolumeSource::Blank {},
        DataVolumeContent::DataSource(reference) => {
            let source_ref = DataVolumeSourceRef {
                kind: "DataSource".to_owned(),
                namespace: reference.namespace.clone(),
                name: reference.name.clone(),
            };
            return DataVolumeSpec {
                source: None,
                source_ref: Some(source_ref),
                storage,
            };
        }
    };
    DataVolumeSpec {
        source: Some(source),
        source_ref: None,
        storage,
    }
}
