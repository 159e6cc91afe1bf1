//! Features of the KubeVirt resource that add or remove objects.

use api::kubevirt::install::KubeVirt;
use serde_json::Value;

use crate::kubevirt::{gates::Gates, target::Target, tree};

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
        let gates = Gates::of(kubevirt, &target.version);
        let enabled = |part: &str| {
            let pointer = format!("/{part}/enabled");
            configuration.pointer(&pointer) != Some(&Value::Bool(false))
        };
        let strategy = tree::text(configuration, "/roleAggregationStrategy");
        Self {
            templates: gates.on("Template") && enabled("virtTemplateDeployment"),
            container_paths: gates.on("ContainerPathVolumes"),
            synchronization: gates.on("DecentralizedLiveMigration"),
            instancetypes: enabled("commonInstancetypesDeployment"),
            manual_aggregation: gates.on("OptOutRoleAggregation") && strategy == Some("Manual"),
        }
    }
}
