//! Oracle of adoption: a guest and its disks outlive it.

use super::Violation;
use crate::history::{History, Moment};

/// What an adoption must not end.
const LASTING: [&str; 3] = [
    "virtualmachines",
    "virtualmachineinstances",
    "persistentvolumeclaims",
];

/// Deletions of objects of a Machine that adopts and is not being deleted itself.
pub(super) fn judge(history: &History) -> Vec<Violation> {
    let mut violations = Vec::new();
    history.replay(|objects, moment| {
        let Moment::Written(write) = moment else {
            return;
        };
        let is_deleted =
            write.is_deletion || !write.object["metadata"]["deletionTimestamp"].is_null();
        if !is_deleted || !LASTING.contains(&write.resource.as_str()) {
            return;
        }
        let adopts = objects.get("machines", &write.key).is_some_and(|machine| {
            let metadata = &machine["metadata"];
            let asked = metadata["annotations"]["vitistack.io/adopt"].as_str();
            asked.is_some() && metadata["deletionTimestamp"].is_null()
        });
        if adopts {
            violations.push(Violation {
                oracle: "an-adoption-ends-nothing",
                at: write.at,
                text: format!("{} {} is deleted", write.resource, write.key),
            });
        }
    });
    violations
}
