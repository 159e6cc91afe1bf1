//! Oracles of ownership: nothing foreign is touched, and nothing is left behind.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{
    Violation,
    disks::{machine_of, uid},
};
use crate::{
    decision::{Action, Propagation},
    history::{History, Moment},
};

/// Resources that users have too.
const SHARED: [&str; 6] = [
    "virtualmachines",
    "virtualmachineinstances",
    "persistentvolumeclaims",
    "datavolumes",
    "secrets",
    "network-attachment-definitions",
];

pub(super) fn judge(history: &History) -> Vec<Violation> {
    let mut violations = Vec::new();
    // By uid: for whom the operator made it. What others made of ours is ours.
    let mut ours: BTreeMap<String, Option<String>> = BTreeMap::new();
    // Creations go on beside each other.
    let mut creating: Vec<(String, String, u64, u64)> = Vec::new();
    history.replay(|objects, moment| match moment {
        Moment::Sent(sent) => {
            let Some((resource, key)) = sent.target() else {
                return;
            };
            if !sent.is_write() || !sent.succeeded() || !SHARED.contains(&resource.as_str()) {
                return;
            }
            let Some(object) = objects.get(&resource, &key) else {
                creating.push((resource, key, sent.before, sent.after));
                return;
            };
            let may = ours.contains_key(uid(object)) || is_made_of_ours(object, &ours);
            let adopts = objects.all("machines").any(|(_, machine)| {
                machine["metadata"]["annotations"]["vitistack.io/adopt-disks"] == "true"
            });
            if !may && !adopts {
                violations.push(Violation {
                    oracle: "nothing-foreign-is-touched",
                    at: sent.at.duration_since(history.began),
                    text: format!("{} {}", sent.method, sent.uri),
                });
            }
        }
        Moment::Written(write) => {
            creating.retain(|(_, _, _, after)| write.revision <= *after);
            let by_operator = creating.iter().any(|(resource, key, before, after)| {
                *resource == write.resource
                    && *key == write.key
                    && (*before..=*after).contains(&write.revision)
            });
            if by_operator || is_made_of_ours(&write.object, &ours) {
                let machine = machine_of(&write.object).map(ToOwned::to_owned);
                ours.entry(uid(&write.object).to_owned()).or_insert(machine);
            }
        }
    });
    violations.extend(left_behind(history, &ours));
    violations
}

fn is_made_of_ours(object: &Value, ours: &BTreeMap<String, Option<String>>) -> bool {
    let owners = object["metadata"]["ownerReferences"].as_array();
    let mut owners = owners.into_iter().flatten();
    owners.any(|owner| {
        let kind = owner["kind"].as_str().unwrap_or_default();
        matches!(kind, "VirtualMachine" | "DataVolume")
            && owner["uid"]
                .as_str()
                .is_some_and(|uid| ours.contains_key(uid))
    })
}

/// Virtual machines and Secrets of Machines that are gone.
fn left_behind(history: &History, ours: &BTreeMap<String, Option<String>>) -> Vec<Violation> {
    let end = history.end();
    let present: BTreeSet<_> = end.all("machines").map(|(_, one)| uid(one)).collect();
    // `--cascade=orphan` is a wish to leave everything where it is; without its finalizer a Machine
    // cannot see to anything.
    let is_let_go = history.acted.iter().any(|acted| match &acted.action {
        Action::Patch { patch, .. } => {
            let metadata = &patch["metadata"];
            let is_null = |field: &str| metadata.get(field).is_some_and(Value::is_null);
            is_null("finalizers")
                || is_null("ownerReferences")
                || !metadata["labels"].is_null()
                || !metadata["annotations"]["vitistack.io/machine-uid"].is_null()
        }
        Action::Delete {
            propagation: Propagation::Orphan,
            ..
        } => true,
        _ => false,
    });
    let mut violations = Vec::new();
    for resource in ["virtualmachines", "virtualmachineinstances", "secrets"] {
        for (key, object) in end.all(resource) {
            let Some(machine) = ours.get(uid(object)) else {
                continue;
            };
            let is_orphan = machine.as_deref().is_some_and(|uid| !present.contains(uid));
            if is_orphan && !is_let_go {
                violations.push(Violation {
                    oracle: "no-orphan",
                    at: history
                        .entries
                        .last()
                        .map_or_else(Default::default, |last| last.at),
                    text: format!("{resource} {key} is left of a Machine that is gone"),
                });
            }
        }
    }
    violations
}

/// Objects in the namespace of an installation that are somebody else's.
pub(super) fn judge_installation(history: &History) -> Vec<Violation> {
    let mut violations = Vec::new();
    history.replay(|objects, moment| {
        let Moment::Sent(sent) = moment else {
            return;
        };
        if !sent.is_write() || !sent.succeeded() {
            return;
        }
        let Some((resource, key)) = sent.target() else {
            return;
        };
        if objects.get(&resource, &key).is_some() && key.ends_with("/theirs") {
            violations.push(Violation {
                oracle: "nothing-foreign-is-touched",
                at: sent.at.duration_since(history.began),
                text: format!("{} {}", sent.method, sent.uri),
            });
        }
    });
    violations
}
