//! Disks of a Machine.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::field_speaks;
use crate::rules;

/// One disk.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!has(self.type) || self.type != 'cdrom' || !has(self.bus) || self.bus != 'virtio'").message("a cdrom cannot be on the virtio bus: use sata or scsi"),
    validation = Rule::new("!has(self.type) || self.type != 'cdrom' || !has(self.boot) || !self.boot").message("boot marks the disk to boot from; to boot from a cdrom put cdrom into bootOrder"),
    validation = Rule::new(rules::GROWS).message("a disk can grow but not shrink: give a size that is not below the present one").field_path(".size"),
    validation = Rule::new("has(self.storageClass) == has(oldSelf.storageClass) && (!has(self.storageClass) || self.storageClass == oldSelf.storageClass)").message("storageClass is immutable: a volume cannot move; add a disk under another name").field_path(".storageClass"),
    validation = Rule::new("has(self.accessMode) == has(oldSelf.accessMode) && (!has(self.accessMode) || self.accessMode == oldSelf.accessMode)").message("accessMode is immutable: add a disk under another name").field_path(".accessMode"),
    validation = Rule::new("has(self.volumeMode) == has(oldSelf.volumeMode) && (!has(self.volumeMode) || self.volumeMode == oldSelf.volumeMode)").message("volumeMode is immutable: add a disk under another name").field_path(".volumeMode"),
    validation = Rule::new("has(self.source) == has(oldSelf.source) && (!has(self.source) || self.source == oldSelf.source)").message("source is immutable: it filled the disk once; add a disk under another name").field_path(".source")
)]
pub struct Disk {
    /// Identifies the disk; its claim is named `{machine}-{name}`.
    #[schemars(length(min = 1, max = 63))]
    #[x_kube(
        validation = Rule::new(rules::IS_DNS_LABEL).message(rules::DNS_LABEL),
        validation = Rule::new("self != 'cloudinitdisk'").message("cloudinitdisk is the name of the cloud-init volume: choose another")
    )]
    pub name: String,

    /// A quantity, such as `20Gi`. May be left out for a disk that the size brings. Can grow, not
    /// shrink.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    #[x_kube(
        validation = Rule::new(rules::IS_AMOUNT).message("must be a quantity of at least 1Mi, such as 20Gi"),
        validation = Rule::new(rules::IS_COUNTABLE).message(rules::COUNTABLE)
    )]
    pub size: Option<String>,

    /// StorageClass; absent or `default`: the class of that name, else the cluster's default.
    /// Cannot be changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = Rule::new(rules::IS_DNS_NAME).message(rules::DNS_NAME))]
    pub storage_class: Option<String>,

    /// Who can mount the volume. Default: ReadWriteOnce. Cannot be changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access_mode: Option<AccessMode>,

    /// Default: Filesystem. Cannot be changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_mode: Option<VolumeMode>,

    /// What the guest sees. Default: disk.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<DiskType>,

    /// How the guest reaches it. Default: virtio, and sata for a cdrom.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bus: Option<DiskBus>,

    /// The disk to boot from. Without one: the disk named root, else the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boot: Option<bool>,

    /// What the disk is filled with, once, by CDI. Absent: the disk is empty. Cannot be changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<DiskSource>,
}

/// What a disk is filled with: exactly one of these.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("[has(self.http), has(self.registry), has(self.pvc), has(self.snapshot), has(self.ref), has(self.blank)].filter(given, given).size() == 1").message("give exactly one of http, registry, pvc, snapshot, ref and blank"))]
pub struct DiskSource {
    /// An image behind a URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http: Option<HttpSource>,
    /// A container disk in a registry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub registry: Option<RegistrySource>,
    /// A copy of a PersistentVolumeClaim.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pvc: Option<ObjectSource>,
    /// A copy of a VolumeSnapshot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<ObjectSource>,
    /// A CDI DataSource.
    #[serde(rename = "ref", skip_serializing_if = "Option::is_none")]
    pub reference: Option<ObjectSource>,
    /// An empty disk, made by CDI.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blank: Option<EmptySource>,
}

/// An image behind a URL.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpSource {
    /// Where the image is: `http://` or `https://`.
    #[schemars(length(max = 2048))]
    #[x_kube(validation = Rule::new("self.matches('^https?://[^/]')").message("must be a URL that begins with http:// or https://"))]
    pub url: String,
    /// Secret with `accessKeyId` and `secretKey` for basic authentication.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = Rule::new(rules::IS_DNS_NAME).message(rules::DNS_NAME))]
    pub secret_ref: Option<String>,
    /// ConfigMap with the certificate authority of the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = Rule::new(rules::IS_DNS_NAME).message(rules::DNS_NAME))]
    pub cert_config_map: Option<String>,
}

/// A container disk in a registry.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RegistrySource {
    /// Where the image is: `docker://` or `oci-archive://`.
    #[schemars(length(max = 2048))]
    #[x_kube(validation = Rule::new("self.matches('^(docker|oci-archive)://[^/]')").message("must be an image that begins with docker:// or oci-archive://"))]
    pub url: String,
    /// Secret with `accessKeyId` and `secretKey` for the registry.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = Rule::new(rules::IS_DNS_NAME).message(rules::DNS_NAME))]
    pub secret_ref: Option<String>,
    /// ConfigMap with the certificate authority of the registry.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = Rule::new(rules::IS_DNS_NAME).message(rules::DNS_NAME))]
    pub cert_config_map: Option<String>,
    /// Who pulls: the importer pod, or the node through its container runtime. Default: pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pull_method: Option<RegistryPullMethod>,
}

/// Another object to copy from.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectSource {
    /// Name of the object.
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = Rule::new(rules::IS_DNS_NAME).message(rules::DNS_NAME))]
    pub name: String,
    /// Namespace of the object; the Machine's own when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub namespace: Option<String>,
}

/// Nothing to say.
#[derive(KubeSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EmptySource {}

/// Who can mount a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = field_speaks)]
pub enum AccessMode {
    /// One node, read and write.
    ReadWriteOnce,
    /// Many nodes, read and write: live migration is possible.
    ReadWriteMany,
    /// Many nodes, read only.
    ReadOnlyMany,
}

/// How a volume is presented.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = field_speaks)]
pub enum VolumeMode {
    /// As a disk image in a file system.
    Filesystem,
    /// As a raw device.
    Block,
}

/// What the guest sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(transform = field_speaks)]
pub enum DiskType {
    /// A disk.
    Disk,
    /// A CD-ROM.
    Cdrom,
}

/// How the guest reaches a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(transform = field_speaks)]
pub enum DiskBus {
    /// Paravirtualized; needs a driver in the guest.
    Virtio,
    /// SATA.
    Sata,
    /// SCSI.
    Scsi,
}

/// Who pulls a container disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(transform = field_speaks)]
pub enum RegistryPullMethod {
    /// The importer pod.
    Pod,
    /// The node, through its container runtime.
    Node,
}
