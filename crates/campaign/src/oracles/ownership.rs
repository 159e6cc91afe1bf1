//! Oracles of ownership: no write to foreign objects, and no orphans.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{
    CHILD_RESOURCES, Violation,
    disks::{machine_of, uid},
};
use crate::{
    decision::{Action, Propagation},
    history::{History, Moment},
};

pub(super) fn judge(history: &History) -> Vec<Violation> {
    let mut violations = Vec::new();
    // By UID, with its Machine. Objects that KubeVirt and CDI create from owned ones are owned.
    let mut owned: BTreeMap<String, Option<String>> = BTreeMap::new();
    // Creations are concurrent.
    let mut creating: Vec<(String, String, u64, u64)> = Vec::new();
    history.replay(|objects, moment| match moment {
        Moment::Sent(sent) => {
            let Some((resource, key)) = sent.target() else {
                return;
            };
            if !sent.is_write()
                || !sent.succeeded()
                || !CHILD_RESOURCES.contains(&resource.as_str())
            {
                return;
            }
            let Some(object) = objects.get(&resource, &key) else {
                creating.push((resource, key, sent.before, sent.after));
                return;
            };
            let may = owned.contains_key(uid(object)) || is_created_from_owned(object, &owned);
            let adopts = objects.all("machines").any(|(_, machine)| {
                let annotations = &machine["metadata"]["annotations"];
                annotations["vitistack.io/adopt-disks"] == "true"
                    || annotations["vitistack.io/adopt"].is_string()
            });
            if !may && !adopts {
                violations.push(Violation {
                    oracle: "nothing-foreign-is-touched",
                    at: sent.at.duration_since(history.start_time),
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
            if by_operator || is_created_from_owned(&write.object, &owned) {
                let machine = machine_of(&write.object).map(ToOwned::to_owned);
                owned
                    .entry(uid(&write.object).to_owned())
                    .or_insert(machine);
            }
        }
    });
    violations.extend(orphans(history, &owned));
    violations
}

fn is_created_from_owned(object: &Value, owned: &BTreeMap<String, Option<String>>) -> bool {
    let owners = object["metadata"]["ownerReferences"].as_array();
    let mut owners = owners.into_iter().flatten();
    owners.any(|owner| {
        let kind = owner["kind"].as_str().unwrap_or_default();
        matches!(kind, "VirtualMachine" | "DataVolume")
            && owner["uid"]
                .as_str()
                .is_some_and(|uid| owned.contains_key(uid))
    })
}

/// VirtualMachines and Secrets whose Machine is gone.
fn orphans(history: &History, owned: &BTreeMap<String, Option<String>>) -> Vec<Violation> {
    let end = history.end();
    let present: BTreeSet<_> = end.all("machines").map(|(_, one)| uid(one)).collect();
    // `--cascade=orphan` asks to keep all children; without its finalizer a Machine cannot clean up.
    let is_released = history
        .user_actions
        .iter()
        .any(|user_action| match &user_action.action {
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
            let Some(machine) = owned.get(uid(object)) else {
                continue;
            };
            let is_orphan = machine.as_deref().is_some_and(|uid| !present.contains(uid));
            if is_orphan && !is_released {
                violations.push(Violation {
                    oracle: "no-orphan",
                    at: history
                        .entries
                        .last()
                        .map_or_else(Default::default, |last| last.at),
                    text: format!("{resource} {key} remains although its Machine is gone"),
                });
            }
        }
    }
    violations
}

/// Writes to foreign objects in the namespace of an installation.
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
                at: sent.at.duration_since(history.start_time),
                text: format!("{} {}", sent.method, sent.uri),
            });
        }
    });
    violations
}
