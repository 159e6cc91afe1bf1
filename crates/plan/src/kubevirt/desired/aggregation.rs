//! Whether KubeVirt's roles become part of the cluster's own admin, edit and view.

use serde_json::Value;

use super::Context;
use crate::kubevirt::tree;

const AGGREGATE: &str = "rbac.authorization.k8s.io/aggregate-to-";

/// Takes a role out of aggregation where that is asked for. The label stays, as `"false"`: other
/// managers of the object would otherwise keep it as it was. None when its labels are no map.
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
