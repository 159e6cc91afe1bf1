//! What the KubeVirt resource turns on and off among the objects.

use api::kubevirt::install::KubeVirt;
use serde_json::Value;

use crate::kubevirt::{target::Target, tree};

/// What is turned on.
#[derive(Clone, Copy, Debug)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "they have nothing to do with each other"
)]
pub(super) struct Switches {
    pub(super) templates: bool,
    pub(super) container_paths: bool,
    pub(super) synchronization: bool,
    pub(super) instancetypes: bool,
    pub(super) manual_aggregation: bool,
}

impl Switches {
    pub(super) fn of(kubevirt: &KubeVirt, target: &Target) -> Self {
        let configuration = kubevirt.spec.configuration.as_ref().unwrap_or(&Value::Null);
        let gate = |name: &str| gate(configuration, target, name);
        let enabled = |part: &str| {
            let pointer = format!("/{part}/enabled");
            configuration.pointer(&pointer) != Some(&Value::Bool(false))
        };
        let strategy = tree::text(configuration, "/roleAggregationStrategy");
        Self {
            templates: gate("Template") && enabled("virtTemplateDeployment"),
            container_paths: gate("ContainerPathVolumes"),
            synchronization: gate("DecentralizedLiveMigration"),
            instancetypes: enabled("commonInstancetypesDeployment"),
            manual_aggregation: gate("OptOutRoleAggregation") && strategy == Some("Manual"),
        }
    }
}

fn gate(configuration: &Value, target: &Target, name: &str) -> bool {
    let listed = |field: &str| {
        let pointer = format!("/developerConfiguration/{field}");
        tree::items(configuration, &pointer).any(|gate| gate.as_str() == Some(name))
    };
    let beta =
        target.version.starts_with("v1.9") && ["Template", "OptOutRoleAggregation"].contains(&name);
    listed("featureGates") || (beta && !listed("disabledFeatureGates"))
}
