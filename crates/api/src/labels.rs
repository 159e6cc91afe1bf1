//! Names that tie objects together: labels, the finalizer, the prefixes that are passed on.

/// Label on every object that this operator makes; its value is [`MANAGER`].
pub const MANAGED_BY: &str = "vitistack.io/managed-by";

/// Label that names the Machine an object belongs to.
pub const MACHINE: &str = "vitistack.io/machine";

/// Label that names the NetworkConfiguration an object belongs to.
pub const NETWORK_CONFIGURATION: &str = "vitistack.io/network-configuration";

/// Label by which users tie a Machine to a cluster.
pub const CLUSTER_NAME: &str = "cluster.vitistack.io/cluster-name";

/// Label by which users note the template that a Machine was written for.
pub const MACHINE_TEMPLATE: &str = "vitistack.io/machine-template";

/// The value of [`MANAGED_BY`], and the field manager of every apply.
pub const MANAGER: &str = "kubevirt-operator";

/// The domain of the documented prefixes: a Machine's labels and annotations whose prefix is this
/// domain or below it (`cluster.vitistack.io/...`) are passed on to its virtual machine.
pub const DOMAIN: &str = "vitistack.io";

/// Finalizer that holds a Machine until its children are gone.
pub const FINALIZER: &str = "machine.vitistack.io/cleanup";
