//! Oracles of status: no Machine reports interference that did not happen.

use serde_json::Value;

use super::{CHILD_RESOURCES, Violation, disks::machine_of};
use crate::{
    decision::Action,
    history::{History, Moment, Objects, Write},
    objects::condition,
};

pub(super) fn judge(history: &History) -> Vec<Violation> {
    let mut violations = Vec::new();
    history.replay(|objects, moment| {
        let Moment::Written(write) = moment else {
            return;
        };
        if write.resource != "machines" || write.is_deletion {
            return;
        }
        let before = objects.get("machines", &write.key);
        let ready = condition(&write.object, "Ready");
        let is_new = before.is_none_or(|before| condition(before, "Ready") != ready);
        if !is_new {
            return;
        }
        let false_alarm = match ready["reason"].as_str().unwrap_or_default() {
            "ForeignObject" => nothing_is_foreign(objects, write),
            "StoppedByOther" => no_user_stopped(history, write),
            _ => None,
        };
        if let Some(why) = false_alarm {
            violations.push(Violation {
                oracle: "no-false-alarm",
                at: write.at,
                text: format!(
                    "Machine {}: {} {}: {why}",
                    write.key, ready["reason"], ready["message"]
                ),
            });
        }
    });
    violations
}

/// Why a ForeignObject report is wrong: every object that it names is the Machine's own.
fn nothing_is_foreign(objects: &Objects, write: &Write) -> Option<String> {
    let machine = write.object["metadata"]["uid"].as_str()?;
    let ready = condition(&write.object, "Ready");
    let message = ready["message"].as_str()?;
    let namespace = write.key.split('/').next()?;
    let mut named = Vec::new();
    for resource in CHILD_RESOURCES {
        for (key, object) in objects.all(resource) {
            let name = key.strip_prefix(&format!("{namespace}/")).unwrap_or(key);
            let mut words = message.split(|c: char| !(c.is_alphanumeric() || "-./".contains(c)));
            if words.any(|word| word == name || word == key) {
                named.push((resource, key, object));
            }
        }
    }
    if named.is_empty() {
        return Some("no object that it names exists".to_owned());
    }
    let is_own = |object: &Value| machine_of(object) == Some(machine);
    let all_own = named.iter().all(|(_, _, object)| {
        is_own(object) && object["metadata"]["labels"]["vitistack.io/managed-by"].is_string()
    });
    all_own.then(|| format!("{} {} belongs to this Machine", named[0].0, named[0].1))
}

/// Why a StoppedByOther report is wrong: no action can have stopped the guest.
fn no_user_stopped(history: &History, write: &Write) -> Option<String> {
    let may_stop = history
        .user_actions
        .iter()
        .filter(|user_action| user_action.before < write.revision)
        .any(|user_action| match &user_action.action {
            Action::Virtctl { .. } => true,
            Action::Delete { kind, .. }
            | Action::Patch { kind, .. }
            | Action::Create { kind, .. } => *kind != "Machine",
        });
    (!may_stop).then(|| "no user stopped it".to_owned())
}
