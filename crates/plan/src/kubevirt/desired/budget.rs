//! PodDisruptionBudgets of Deployments.

use serde_json::{Value, json};

use super::{Context, DesiredError, object_of};
use crate::kubevirt::{
    object::{Id, Object},
    tree,
};

/// The PodDisruptionBudget of a Deployment: all pods but one must be available. None for other kinds,
/// and for a Deployment with one pod, whose node could not be drained.
pub(super) fn of(
    context: &Context<'_>,
    id: &Id,
    deployment: &Value,
) -> Result<Option<Object>, DesiredError> {
    if !id.is("apps", "Deployment") {
        return Ok(None);
    }
    let replicas = deployment.pointer("/spec/replicas").and_then(Value::as_i64);
    let min_available = replicas.map_or(1, |replicas| replicas.saturating_sub(1));
    let Some(selector) = deployment.pointer("/spec/selector") else {
        return Ok(None);
    };
    if min_available <= 0 {
        return Ok(None);
    }
    let name = format!("{}-pdb", id.name);
    let mut budget = json!({
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {
            "name": name,
            "namespace": tree::text(deployment, "/metadata/namespace"),
            "labels": {"kubevirt.io": name},
        },
        "spec": {"minAvailable": min_available, "selector": selector},
    });
    context.common.add_to(&mut budget);
    tree::drop_nulls(&mut budget);
    object_of(id, &budget).map(Some)
}
