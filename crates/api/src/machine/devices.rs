//! Further virtual devices of a Machine.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::omit_description;
use crate::rules;

/// Trusted Platform Module 2.0.
#[derive(KubeSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tpm {
    /// Whether its state survives a restart of the guest. KubeVirt keeps it in a volume of its own, and needs
    /// a StorageClass for that. Defaults to false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub persistent: Option<bool>,
}

/// A device of the node that is passed through to the guest.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PassedThroughDevice {
    /// Name of the device in the machine.
    #[schemars(length(min = 1, max = 63))]
    #[x_kube(validation = Rule::new(rules::IS_DNS_LABEL).message(rules::DNS_LABEL))]
    pub name: String,
    /// Resource by which nodes offer the device, such as `nvidia.com/GA102GL_A10`, as KubeVirt's
    /// `permittedHostDevices` lists it.
    #[schemars(length(min = 1, max = 316))]
    #[x_kube(validation = Rule::new(rules::IS_QUALIFIED_NAME).message("must be the name of a resource, such as nvidia.com/GA102GL_A10"))]
    pub device_name: String,
}

/// Watchdog: a device that acts when the guest no longer resets it.
#[derive(KubeSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watchdog {
    /// What it does. Defaults to reset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<WatchdogAction>,
}

/// What a watchdog does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(transform = omit_description)]
pub enum WatchdogAction {
    /// Restart the guest at once.
    #[default]
    Reset,
    /// Power the guest off at once.
    Poweroff,
    /// Ask the guest to shut down.
    Shutdown,
}

/// Size of memory pages of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = omit_description)]
pub enum HugePages {
    /// 2 MiB.
    #[serde(rename = "2Mi")]
    Of2Mi,
    /// 1 GiB.
    #[serde(rename = "1Gi")]
    Of1Gi,
}
