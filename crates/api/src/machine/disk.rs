//! Disks of a Machine.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::omit_description;
use crate::rules;

/// A disk of the machine.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!has(self.type) || self.type != 'cdrom' || !has(self.bus) || self.bus != 'virtio'").message("a cdrom cannot be on the virtio bus: use sata or scsi"),
    validation = Rule::new("!has(self.type) || self.type != 'cdrom' || !has(self.boot) || !self.boot").message("boot marks the disk to boot from; to boot from a cdrom put cdrom into bootOrder"),
    validation = Rule::new("!has(self.size) || !has(self.sizeGB)").message("size and sizeGB say the same thing: give one or the other"),
    validation = Rule::new("!has(self.bus) || !has(self.type) || !(self.type in ['virtio', 'nvme', 'sata', 'scsi'])").message("type names a bus: leave bus out, or use type disk"),
    validation = Rule::new("!has(self.storageClass) || !has(self.type) || self.type in ['', 'disk', 'cdrom', 'virtio', 'nvme', 'sata', 'scsi']").message("type names a StorageClass: leave storageClass out, or use type disk"),
    validation = Rule::new(rules::GROWS).message("a disk can grow but not shrink: give a size that is not below the present one").field_path(".size"),
    validation = Rule::new("!has(oldSelf.sizeGB) || has(self.size) || has(self.sizeGB) && self.sizeGB >= oldSelf.sizeGB").message("a disk can grow but not shrink: give a size that is not below the present one").field_path(".sizeGB"),
    validation = Rule::new("has(self.storageClass) == has(oldSelf.storageClass) && (!has(self.storageClass) || self.storageClass == oldSelf.storageClass)").message("storageClass is immutable: a volume cannot move; add a disk under another name").field_path(".storageClass"),
    validation = Rule::new("has(self.accessMode) == has(oldSelf.accessMode) && (!has(self.accessMode) || self.accessMode == oldSelf.accessMode)").message("accessMode is immutable: add a disk under another name").field_path(".accessMode"),
    validation = Rule::new("has(self.volumeMode) == has(oldSelf.volumeMode) && (!has(self.volumeMode) || self.volumeMode == oldSelf.volumeMode)").message("volumeMode is immutable: add a disk under another name").field_path(".volumeMode"),
    validation = Rule::new("has(self.source) == has(oldSelf.source) && (!has(self.source) || self.source == oldSelf.source)").message("source is immutable: it filled the disk once; add a disk under another name").field_path(".source")
)]
pub struct Disk {
    /// Name of the disk. Its PersistentVolumeClaim is named `{machine}-{name}`.
    #[schemars(length(min = 1, max = 63))]
    #[x_kube(
        validation = Rule::new(rules::IS_DNS_LABEL).message(rules::DNS_LABEL),
        validation = Rule::new("self != 'cloudinitdisk'").message("cloudinitdisk is the name of the cloud-init volume: choose another")
    )]
    pub name: String,

    /// Size as a quantity, such as `20Gi`. Optional for a disk that comes with the size of the machine.
    /// Can be increased, not decreased.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    #[x_kube(
        validation = Rule::new(rules::IS_AMOUNT).message("must be a quantity of at least 1Mi, such as 20Gi"),
        validation = Rule::new(rules::IS_COUNTABLE).message(rules::COUNTABLE)
    )]
    pub size: Option<String>,

    /// Size in GiB. Alternative to `size`.
    #[serde(rename = "sizeGB", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65_536))]
    pub size_gb: Option<i32>,

    /// Name of the StorageClass. If not set or `default`: the class named `default`, else the cluster's
    /// default class. Immutable.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = Rule::new(rules::IS_DNS_NAME).message(rules::DNS_NAME))]
    pub storage_class: Option<String>,

    /// Access mode of the volume. Defaults to ReadWriteOnce. Immutable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access_mode: Option<AccessMode>,

    /// Volume mode. Defaults to Filesystem. Immutable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_mode: Option<VolumeMode>,

    /// Type of device in the guest: `disk` or `cdrom`. Also a bus (`virtio`, `sata`, `scsi`; `nvme` is
    /// on virtio, since KubeVirt does not emulate it), or the name of a StorageClass. Defaults to disk.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub type_: Option<String>,

    /// Bus of the device. Defaults to virtio, and to sata for a cdrom.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bus: Option<DiskBus>,

    /// Whether to boot from this disk. If no disk sets it, the machine boots from the disk named root,
    /// else from the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boot: Option<bool>,

    /// Initial content, which CDI writes once. If not set, the disk is empty. Immutable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<DiskSource>,

    /// Name of the device in the guest, such as `/dev/vda`. For other providers: here the guest names
    /// its devices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,

    /// Whether the disk is encrypted. For other providers: here the StorageClass decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encrypted: Option<bool>,

    /// IOPS. For other providers: here the StorageClass decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 100, max = 64_000))]
    pub iops: Option<i32>,

    /// Throughput in MB/s. For other providers: here the StorageClass decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 125, max = 4_000))]
    pub throughput: Option<i32>,
}

/// Initial content of a disk. Exactly one field must be set.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("[has(self.http), has(self.registry), has(self.pvc), has(self.snapshot), has(self.ref), has(self.blank)].filter(given, given).size() == 1").message("give exactly one of http, registry, pvc, snapshot, ref and blank"))]
pub struct DiskSource {
    /// Image to download from a URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http: Option<HttpSource>,
    /// Container disk in a registry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub registry: Option<RegistrySource>,
    /// PersistentVolumeClaim to clone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pvc: Option<ObjectSource>,
    /// VolumeSnapshot to clone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<ObjectSource>,
    /// CDI DataSource to clone.
    #[serde(rename = "ref", skip_serializing_if = "Option::is_none")]
    pub reference: Option<ObjectSource>,
    /// Empty disk, created by CDI.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blank: Option<EmptySource>,
}

/// Image to download from a URL.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpSource {
    /// URL of the image, with `http://` or `https://`.
    #[schemars(length(max = 2048))]
    #[x_kube(validation = Rule::new("self.matches('^https?://[^/]')").message("must be a URL that begins with http:// or https://"))]
    pub url: String,
    /// Secret with `accessKeyId` and `secretKey` for basic authentication.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = Rule::new(rules::IS_DNS_NAME).message(rules::DNS_NAME))]
    pub secret_ref: Option<String>,
    /// ConfigMap with the CA certificate of the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = Rule::new(rules::IS_DNS_NAME).message(rules::DNS_NAME))]
    pub cert_config_map: Option<String>,
}

/// Container disk in a registry.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RegistrySource {
    /// URL of the image, with `docker://` or `oci-archive://`.
    #[schemars(length(max = 2048))]
    #[x_kube(validation = Rule::new("self.matches('^(docker|oci-archive)://[^/]')").message("must be an image that begins with docker:// or oci-archive://"))]
    pub url: String,
    /// Secret with `accessKeyId` and `secretKey` for the registry.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = Rule::new(rules::IS_DNS_NAME).message(rules::DNS_NAME))]
    pub secret_ref: Option<String>,
    /// ConfigMap with the CA certificate of the registry.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = Rule::new(rules::IS_DNS_NAME).message(rules::DNS_NAME))]
    pub cert_config_map: Option<String>,
    /// Who pulls the image: the importer pod, or the node through its container runtime. Defaults to
    /// pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pull_method: Option<RegistryPullMethod>,
}

/// Object to clone.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectSource {
    /// Name of the object.
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = Rule::new(rules::IS_DNS_NAME).message(rules::DNS_NAME))]
    pub name: String,
    /// Namespace of the object. Defaults to the namespace of the Machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub namespace: Option<String>,
}

/// Empty object.
#[derive(KubeSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EmptySource {}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = omit_description)]
pub enum AccessMode {
    /// One node, read and write.
    ReadWriteOnce,
    /// Many nodes, read and write: live migration is possible.
    ReadWriteMany,
    /// Many nodes, read only.
    ReadOnlyMany,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = omit_description)]
pub enum VolumeMode {
    /// As a disk image in a file system.
    Filesystem,
    /// As a raw device.
    Block,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(transform = omit_description)]
pub enum DiskBus {
    /// Paravirtualized; needs a driver in the guest.
    Virtio,
    /// SATA.
    Sata,
    /// SCSI.
    Scsi,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(transform = omit_description)]
pub enum RegistryPullMethod {
    /// The importer pod.
    Pod,
    /// The node, through its container runtime.
    Node,
}
