//! Placement of a Machine on nodes.

use kube::KubeSchema;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::omit_description;
use crate::rules;

/// Schema of an object that another API defines.
pub(super) fn open_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
}

/// A toleration, as in Pods: it lets the machine run on nodes with a matching taint.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("has(self.key) && self.key != '' || has(self.operator) && self.operator == 'Exists'").message("a toleration without a key needs operator: Exists"),
    validation = Rule::new("!has(self.operator) || self.operator != 'Exists' || !has(self.value) || self.value == ''").message("operator Exists takes no value: leave it out"),
    validation = Rule::new("!has(self.tolerationSeconds) || has(self.effect) && self.effect == 'NoExecute'").message("tolerationSeconds needs effect: NoExecute")
)]
pub struct Toleration {
    /// Key of the taint. If not set, all keys match.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 316))]
    pub key: Option<String>,
    /// How the value is compared. Defaults to Equal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operator: Option<TolerationOperator>,
    /// Value of the taint.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub value: Option<String>,
    /// Effect of the taint. If not set, all effects match.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effect: Option<TaintEffect>,
    /// Seconds for which a taint with the effect NoExecute is tolerated. If not set, for ever.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub toleration_seconds: Option<i64>,
}

/// How a toleration compares the value of a taint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = omit_description)]
pub enum TolerationOperator {
    /// The value is equal.
    Equal,
    /// Any value.
    Exists,
}

/// Effect of a taint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = omit_description)]
pub enum TaintEffect {
    /// Nothing is scheduled there.
    NoSchedule,
    /// Other nodes are preferred.
    PreferNoSchedule,
    /// What runs there is evicted.
    NoExecute,
}

/// Distribution of Machines over nodes, zones or other topologies.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SpreadBy {
    /// Label of nodes that names the topology, such as `kubernetes.io/hostname` or
    /// `topology.kubernetes.io/zone`.
    #[schemars(length(min = 1, max = 316))]
    #[x_kube(validation = Rule::new(rules::IS_QUALIFIED_NAME).message(rules::QUALIFIED_NAME))]
    pub topology_key: String,
    /// Label of Machines: those with the same value in a namespace are spread. Defaults to
    /// `cluster.vitistack.io/cluster-name`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 316))]
    #[x_kube(validation = Rule::new(rules::IS_QUALIFIED_NAME).message(rules::QUALIFIED_NAME))]
    pub label: Option<String>,
    /// Whether the machine waits if it cannot be placed evenly. Defaults to false: an even placement is
    /// preferred.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub required: Option<bool>,
}
