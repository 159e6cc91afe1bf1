//! Oracles of disks: no claim with data is deleted while it is referenced or against the deletion
//! policy, and none is recreated empty.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use serde_json::Value;

use super::{Violation, end::RECREATE_DISK};
use crate::{
    decision::{Action, Propagation},
    history::{History, Moment, Write},
};

/// A younger reference was made while the deletion was in flight: the operator cannot know of it.
const REFERENCE_GRACE: Duration = Duration::from_secs(1);

/// Observations of a claim or DataVolume.
#[derive(Clone, Debug, Default)]
struct Disk {
    /// UID of its Machine.
    machine: Option<String>,
    had_data: bool,
    /// UID of the DataVolume that created it.
    creator: Option<String>,
    is_deleted: bool,
    /// A user changed its labels, owners or annotations.
    tampered: bool,
}

/// A disk with data that a user deleted.
struct LostDisk {
    /// UID of its Machine.
    machine: String,
    /// UIDs of the claim and of its DataVolume.
    uids: BTreeSet<String>,
}

struct Judge<'a> {
    history: &'a History,
    violations: Vec<Violation>,
    /// Claims and DataVolumes by UID.
    disks: BTreeMap<String, Disk>,
    /// By claim: its referrers, and since when.
    references: BTreeMap<String, BTreeMap<(String, String), Duration>>,
    /// All versions of Machines by UID.
    machines: BTreeMap<String, Vec<(u64, Arc<Value>)>>,
    /// By key: disks with data that users deleted.
    lost: BTreeMap<String, LostDisk>,
    deleted_machines: BTreeSet<String>,
    stripped: BTreeSet<String>,
}

pub(super) fn judge(history: &History) -> Vec<Violation> {
    let mut judge = Judge {
        history,
        violations: Vec::new(),
        disks: BTreeMap::new(),
        references: BTreeMap::new(),
        machines: BTreeMap::new(),
        lost: BTreeMap::new(),
        deleted_machines: BTreeSet::new(),
        stripped: BTreeSet::new(),
    };
    history.replay(|_, moment| {
        if let Moment::Written(write) = moment {
            judge.observe(write);
        }
    });
    judge.find_orphans();
    judge.violations
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

pub(super) fn uid(object: &Value) -> &str {
    text(object, "/metadata/uid")
}

fn owner<'a>(object: &'a Value, kind: &str) -> Option<&'a str> {
    let owners = object["metadata"]["ownerReferences"].as_array();
    let mut owners = owners.into_iter().flatten();
    let owner = owners.find(|owner| owner["kind"] == kind)?;
    owner["uid"].as_str()
}

/// UID of the Machine in an object's metadata.
pub(super) fn machine_of(object: &Value) -> Option<&str> {
    let recorded = &object["metadata"]["annotations"]["vitistack.io/machine-uid"];
    recorded.as_str().or_else(|| owner(object, "Machine"))
}

fn volumes(object: &Value) -> impl Iterator<Item = &str> {
    let of_vm = object.pointer("/spec/template/spec/volumes");
    let of_instance = object.pointer("/spec/volumes");
    let all = [of_vm, of_instance].into_iter().flatten();
    all.filter_map(Value::as_array)
        .flatten()
        .filter_map(|volume| {
            let claim = volume.pointer("/persistentVolumeClaim/claimName");
            claim.or(volume.pointer("/dataVolume/name"))?.as_str()
        })
}

/// Whether a Machine's spec lists a disk.
fn lists(machine: &Value, disk: &str) -> bool {
    let disks = machine["spec"]["disks"].as_array();
    disks
        .into_iter()
        .flatten()
        .any(|listed| listed["name"] == disk)
}

impl Judge<'_> {
    fn violate(&mut self, oracle: &'static str, write: &Write, text: &str) {
        let at = write.at;
        let text = format!("{} {}: {text}", write.resource, write.key);
        self.violations.push(Violation { oracle, at, text });
    }

    fn observe(&mut self, write: &Write) {
        match write.resource.as_str() {
            "machines" => self.machine(write),
            "virtualmachines" | "virtualmachineinstances" => self.referrer(write),
            "persistentvolumeclaims" | "datavolumes" => self.disk(write),
            _ => {}
        }
    }

    fn machine(&mut self, write: &Write) {
        let uid = uid(&write.object).to_owned();
        if write.is_deletion {
            self.deleted_machines.insert(uid.clone());
        }
        if self.is_by_user(write, "Machine") && write.object["metadata"]["finalizers"].is_null() {
            self.stripped.insert(uid.clone());
        }
        let versions = self.machines.entry(uid).or_default();
        versions.push((write.revision, write.object.clone()));
    }

    fn referrer(&mut self, write: &Write) {
        let by = (write.resource.clone(), write.key.clone());
        let namespace = write.key.split('/').next().unwrap_or_default();
        let mut now = BTreeSet::new();
        if !write.is_deletion {
            now.extend(volumes(&write.object).map(|claim| format!("{namespace}/{claim}")));
        }
        for (claim, referrers) in &mut self.references {
            if !now.contains(claim) {
                referrers.remove(&by);
            }
        }
        for claim in now {
            let referrers = self.references.entry(claim).or_default();
            referrers.entry(by.clone()).or_insert(write.at);
        }
    }

    /// Whether a user's action on an object of this kind produced the write.
    fn is_by_user(&self, write: &Write, kind: &str) -> bool {
        self.history
            .actor_of(write.revision)
            .is_some_and(|user_action| match &user_action.action {
                Action::Create { .. } | Action::Virtctl { .. } => false,
                Action::Patch { kind: of, .. } | Action::Delete { kind: of, .. } => *of == kind,
            })
    }

    fn disk(&mut self, write: &Write) {
        let kind = match write.resource.as_str() {
            "datavolumes" => "DataVolume",
            _ => "PersistentVolumeClaim",
        };
        let is_user = self.is_by_user(write, kind);
        let is_new = !self.disks.contains_key(uid(&write.object));
        let disk = self.disks.entry(uid(&write.object).to_owned()).or_default();
        if is_new {
            disk.machine = machine_of(&write.object).map(ToOwned::to_owned);
            disk.creator = owner(&write.object, "DataVolume").map(ToOwned::to_owned);
        }
        if is_user && !is_new {
            disk.tampered = true;
        }
        let phase = text(&write.object, "/status/phase");
        disk.had_data |= matches!(phase, "Bound" | "Succeeded");
        let begins = !disk.is_deleted
            && (write.is_deletion || !write.object["metadata"]["deletionTimestamp"].is_null());
        disk.is_deleted |= begins;
        let disk = disk.clone();
        if is_new && let Some(machine) = &disk.machine {
            self.created(write, machine);
        }
        if begins {
            self.deletion(write, &disk, is_user);
        }
    }

    fn created(&mut self, write: &Write, machine: &str) {
        // The claim of a DataVolume is judged with the DataVolume.
        if owner(&write.object, "DataVolume").is_some() {
            return;
        }
        let lost = self.lost.remove(&write.key);
        let Some(lost) = lost.filter(|lost| lost.machine == machine) else {
            return;
        };
        let disk = self.name_of_disk(machine, &write.key);
        let versions = self.machines.get(machine);
        let mut versions = versions.into_iter().flatten();
        let is_confirmed = versions.any(|(_, machine)| {
            let confirmed = &machine["metadata"]["annotations"][RECREATE_DISK];
            let confirmed = confirmed.as_str().unwrap_or_default();
            let mut confirmed = confirmed.split(',').map(str::trim);
            confirmed.any(|uid| lost.uids.contains(uid))
        });
        if !is_confirmed {
            let text = format!("disk {disk} was lost with its data and is recreated empty");
            self.violate("no-empty-disk-in-place-of-a-lost-one", write, &text);
        }
    }

    fn name_of_disk(&self, machine: &str, key: &str) -> String {
        let versions = self.machines.get(machine);
        let first = versions.and_then(|versions| versions.first());
        let prefix = first.map(|(_, machine)| {
            let (namespace, name) = (
                text(machine, "/metadata/namespace"),
                text(machine, "/metadata/name"),
            );
            format!("{namespace}/{name}-")
        });
        let prefix = prefix.unwrap_or_default();
        key.strip_prefix(&prefix).unwrap_or(key).to_owned()
    }

    fn deletion(&mut self, write: &Write, disk: &Disk, is_user: bool) {
        let Some(machine) = disk.machine.clone().or_else(|| {
            let creator = disk.creator.as_ref()?;
            self.disks.get(creator)?.machine.clone()
        }) else {
            return;
        };
        if disk.creator.is_some() && self.creator_is_deleting(disk) {
            // Judged with its DataVolume.
            return;
        }
        let versions = self.machines.get(&machine);
        let current = versions.and_then(|versions| versions.last()).cloned();
        let name = self.name_of_disk(&machine, &write.key);
        if is_user || (write.resource == "datavolumes" && self.is_by_user(write, "DataVolume")) {
            let is_wanted = current
                .as_ref()
                .is_some_and(|(_, machine)| machine["metadata"]["deletionTimestamp"].is_null());
            if disk.had_data && is_wanted {
                let own = uid(&write.object);
                let claims = self.disks.iter();
                let claims = claims.filter(|(_, claim)| claim.creator.as_deref() == Some(own));
                let claims = claims.map(|(uid, _)| uid.clone());
                let uids = claims.chain([own.to_owned()]).collect();
                let lost = LostDisk { machine, uids };
                self.lost.insert(write.key.clone(), lost);
            }
            return;
        }
        if !disk.had_data {
            return;
        }
        let referrers = self.references.get(&write.key).into_iter().flatten();
        let known: Vec<_> = referrers
            .filter(|(_, since)| **since + REFERENCE_GRACE <= write.at)
            .map(|((resource, key), _)| format!("{resource} {key}"))
            .collect();
        if !known.is_empty() {
            let text = format!("deleted while {} refers to it", known.join(" and "));
            self.violate("no-disk-deleted-while-in-use", write, &text);
            return;
        }
        if let Some(why) = self.against_policy(&machine, &name) {
            self.violate("no-disk-deleted-against-the-policy", write, &why);
        }
    }

    fn creator_is_deleting(&self, disk: &Disk) -> bool {
        let creator = disk
            .creator
            .as_ref()
            .and_then(|creator| self.disks.get(creator));
        creator.is_some_and(|creator| creator.is_deleted)
    }

    fn against_policy(&self, uid: &str, disk: &str) -> Option<String> {
        let versions = self.machines.get(uid)?;
        let (_, current) = versions.last()?;
        if self.deleted_machines.contains(uid) {
            return Some("its Machine is gone, and with it the deletion policy".to_owned());
        }
        let is_deleting = |machine: &Value| !machine["metadata"]["deletionTimestamp"].is_null();
        let removed = versions.windows(2).rev().find_map(|pair| {
            let was = lists(&pair[0].1, disk);
            (was && !lists(&pair[1].1, disk)).then(|| &pair[1].1)
        });
        let removed = removed.filter(|_| !lists(current, disk));
        if is_deleting(current) {
            let (_, first) = versions.iter().find(|(_, machine)| is_deleting(machine))?;
            let finalizers = first["metadata"]["finalizers"].as_array();
            let mut finalizers = finalizers.into_iter().flatten();
            if finalizers.any(|finalizer| finalizer == "orphan") {
                return Some("its Machine was deleted with --cascade=orphan".to_owned());
            }
            let policy = &first["spec"]["deletionPolicy"];
            let now = &current["spec"]["deletionPolicy"];
            if policy == "Retain" && now == "Retain" {
                return Some("deletionPolicy: Retain".to_owned());
            }
            let then = removed.map(|then| &then["spec"]["deletionPolicy"])?;
            return (then != "Delete").then(|| {
                format!("removed from the list under deletionPolicy {then}, and kept since")
            });
        }
        if lists(current, disk) {
            return Some("its Machine still lists it".to_owned());
        }
        match removed {
            None => Some("its Machine never listed it".to_owned()),
            Some(then) if then["spec"]["deletionPolicy"] != "Delete" => Some(format!(
                "removed from the list under deletionPolicy {}, deleted under {}",
                then["spec"]["deletionPolicy"], current["spec"]["deletionPolicy"]
            )),
            Some(_) => None,
        }
    }

    /// Disks of deleted Machines that no policy keeps.
    fn find_orphans(&mut self) {
        let end = self.history.end();
        let mut left = Vec::new();
        for resource in ["persistentvolumeclaims", "datavolumes"] {
            for (key, object) in end.all(resource) {
                let Some(disk) = self.disks.get(uid(object)) else {
                    continue;
                };
                if let Some(machine) = &disk.machine
                    && !disk.tampered
                    && self.should_be_gone(machine, key)
                {
                    left.push((resource, key.to_owned()));
                }
            }
        }
        for (resource, key) in left {
            self.violations.push(Violation {
                oracle: "no-orphan",
                at: self
                    .history
                    .entries
                    .last()
                    .map_or(Duration::ZERO, |last| last.at),
                text: format!("{resource} {key} remains although its Machine was deleted"),
            });
        }
    }

    fn should_be_gone(&self, uid: &str, key: &str) -> bool {
        if !self.deleted_machines.contains(uid) || self.stripped.contains(uid) {
            return false;
        }
        if self.references.get(key).is_some_and(|by| !by.is_empty()) {
            return false;
        }
        let Some(versions) = self.machines.get(uid) else {
            return false;
        };
        let is_deleting = |machine: &Value| !machine["metadata"]["deletionTimestamp"].is_null();
        let deleting: Vec<_> = versions
            .iter()
            .filter(|(_, one)| is_deleting(one))
            .collect();
        let Some((_, first)) = deleting.first() else {
            return false;
        };
        let disk = self.name_of_disk(uid, key);
        let was_detached = versions
            .windows(2)
            .any(|pair| lists(&pair[0].1, &disk) && !lists(&pair[1].1, &disk));
        let is_kept = |machine: &Value| machine["spec"]["deletionPolicy"] == "Retain";
        let was_kept = deleting.iter().any(|(_, machine)| is_kept(machine));
        // Disks of a MachineClass are kept when the class changes.
        let was_of_size = !lists(first, &disk) && disk != "root";
        let orphaned = self.history.user_actions.iter().any(|user_action| {
            matches!(
                &user_action.action,
                Action::Delete {
                    kind: "Machine",
                    propagation: Propagation::Orphan,
                    ..
                }
            )
        });
        !(was_detached || was_kept || was_of_size || orphaned)
    }
}
