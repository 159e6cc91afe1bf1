//! Aggregation of KubeVirt's roles to the cluster's admin, edit and view.

use serde_json::Value;

use super::Context;
use crate::kubevirt::tree;

const AGGREGATE: &str = "rbac.authorization.k8s.io/aggregate-to-";

/// Excludes a role from aggregation if the spec asks for it. The label becomes `"false"`, because other
/// field managers would keep a removed one. None if the labels are not a map.
pub(super) fn finish(context: &Context<'_>, role: &mut Value) -> Option<()> {
    if context.switches.manual_aggregation {
        for (label, value) in tree::map(role, &["metadata", "labels"])? {
            if label.starts_with(AGGREGATE) {
                *value = "false".into();
            }
        }
    }
    Some(())
}
