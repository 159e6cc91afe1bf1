//! Planner of the Machine operator.
//!
//! [`resolve()`] turns a Machine's spec and the objects it refers to into a [`ResolvedMachine`] in which
//! nothing is implicit, and [`build()`] turns that into the desired objects. Nothing reads the raw spec
//! after `resolve`. [`plan()`] compares the desired objects with the [`Observed`] state and returns the
//! next actions and the status.

mod action;
mod bootable;
pub mod build;
mod cloud_init_secret;
pub(crate) mod cluster;
mod digest_key;
mod disk_name;
mod elided;
mod error;
mod import;
mod observed;
mod orphan;
mod passed_on;
mod plan;
pub mod preview;
pub(crate) mod protection;
mod provider;
mod references;
pub(crate) mod resolve;
pub(crate) mod resolved;
pub mod simulation;
mod ssh_keys;
mod status;
pub(crate) mod surroundings;
pub(crate) mod switches;

pub use action::{Action, Kind, MetadataChange, Object, Step};
pub use bootable::nothing_to_boot;
pub use build::{MachineObjects, VolumeObject, build};
pub use cloud_init_secret::{
    CloudInitSecret, CloudInitSource, SecretMetadata, SourceKind, cloud_init_sources,
};
pub use cluster::{
    ClusterProblem, ClusterProblemKind, RemoteCluster, Unavailable, VmCluster, child_labels,
    cluster_finalizer, is_cluster_name, requested as requested_cluster,
};
pub use digest_key::{DigestKey, has_keyed_digest};
pub use elided::{elide_cloud_init, has_inline_user_data, restore_cloud_init};
pub use error::{ErrorType, SpecError};
pub use import::{ImportSource, Imported, cloud_init_secret_of, import};
pub use observed::{Installed, Observed, Obstacle, Part, Refusal};
pub use orphan::{is_orphaned, orphan_event};
pub use passed_on::{NamePatterns, PassedOn};
pub(crate) use plan::{NotExpandable, Standing, class_snapshot::classes_for, ignored_modes};
pub use plan::{
    Plan, claims_of, class_snapshot::snapshot_class_name, controlled_by_other,
    is_controlled_by_other, is_running, label_repair_event, never_started, plan,
};
pub use protection::is_being_deleted;
pub use provider::Provider;
pub use references::{Age, LiveReferences, References};
pub use resolve::{
    Note, Resolution,
    networks::{network_namespace, vlan_of},
    resolve,
};
pub use resolved::{
    Access, Attachment, Bootloader, CloudInit, DataVolumeContent, Devices, DiskOrigin, DiskType,
    Identity, KeySecret, NetworkData, Placement, ResolvedDisk, ResolvedInterface, ResolvedMachine,
    ResolvedNamespace, ResolvedSource, SizingSource, Spread, UserData,
};
pub use status::{trim_addresses, trim_instance_spec, trim_ledger};
pub use surroundings::{
    CloneSources, CloudInitObjects, KeptInterface, Known, Lookup, Surroundings,
};
pub use switches::{AdoptionRequest, ignored_switches, labels_not_passed_on};
