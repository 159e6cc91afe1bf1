//! Sweep of another cluster: objects whose Machine is gone. No garbage collector removes them there, since
//! owner references do not cross clusters.
//!
//! - Only objects with the labels of this cluster and of this management cluster are considered.
//! - They are reported once for each Machine, after they have been found without it for [`GRACE`].
//! - Nothing is removed unless the KubevirtConfig names the UID of the Machine, and then only while a live read
//!   shows no such Machine. A disk in use stays.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use api::{KubevirtConfig, ObjectMeta, labels};
use plan::{machine::Kind, naming};
use runtime::cache::Key;
use serde_json::Value;
use tokio::time::Instant;

use super::{
    caches::{Affected, Caches},
    clusters::Clusters,
    paths::{self, Owner},
    references,
};
use crate::requests::{is_code, status_message};

/// Time without its Machine after which an object is reported.
const GRACE: Duration = Duration::from_secs(60);

/// Number of objects that a message names.
const MOST_NAMED: usize = 5;

/// Machine that is gone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Gone {
    pub(super) machine: Key,
    pub(super) uid: String,
}

/// Object in the cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Left {
    pub(super) kind: Kind,
    pub(super) name: String,
    uid: String,
}

struct Group {
    objects: BTreeSet<Left>,
    since: Instant,
    is_reported: bool,
    is_removing: bool,
}

#[derive(Default)]
pub(super) struct Sweep {
    /// Machines whose objects are to be evaluated.
    pending: BTreeSet<Key>,
    groups: BTreeMap<Gone, Group>,
    has_begun: bool,
}

/// What is left of a Machine, to be removed.
pub(super) struct Removal {
    gone: Gone,
    objects: BTreeSet<Left>,
}

impl Sweep {
    /// Adds the Machines whose objects may have become orphans.
    pub(super) fn on_change(&mut self, affected: &Affected, caches: &Caches) {
        let machines = affected.subjects.iter();
        let machines = machines.filter(|subject| subject.owner == Owner::Machine);
        let pending = machines.filter(|subject| {
            caches.machines.get(&subject.key).is_none()
                || affected.replaced.contains(subject)
                || self.groups.keys().any(|gone| gone.machine == subject.key)
        });
        let pending: Vec<Key> = pending.map(|subject| subject.key.clone()).collect();
        self.pending.extend(pending);
    }

    /// Evaluates what has changed.
    pub(super) fn evaluate(&mut self, caches: &Caches, now: Instant) {
        if !self.has_begun {
            self.has_begun = true;
            self.pending.extend(caches.machines_of_children());
        }
        let pending = std::mem::take(&mut self.pending);
        if pending.is_empty() {
            return;
        }
        let mut found: BTreeMap<Gone, BTreeSet<Left>> = BTreeMap::new();
        for (machine, kind, metadata) in caches.children_of_any(&pending) {
            if let Some((gone, left)) = orphan(machine, kind, &metadata, caches) {
                found.entry(gone).or_default().insert(left);
            }
        }
        self.groups
            .retain(|gone, _| !pending.contains(&gone.machine) || found.contains_key(gone));
        for (gone, objects) in found {
            let group = self.groups.entry(gone).or_insert(Group {
                objects: BTreeSet::new(),
                since: now,
                is_reported: false,
                is_removing: false,
            });
            group.objects = objects;
        }
    }

    fn lasting(&mut self, now: Instant) -> impl Iterator<Item = (&Gone, &mut Group)> {
        let groups = self.groups.iter_mut();
        groups.filter(move |(_, group)| now >= group.since + GRACE)
    }

    /// Number of objects by kind.
    pub(super) fn counts(&mut self, now: Instant) -> BTreeMap<&'static str, i64> {
        let mut counts = BTreeMap::new();
        for (_, group) in self.lasting(now) {
            for object in &group.objects {
                *counts.entry(object.kind.as_str()).or_insert(0) += 1;
            }
        }
        counts
    }

    /// Events about what has not been reported.
    pub(super) fn unreported(&mut self, config: &str, now: Instant) -> Vec<plan::Event> {
        let unreported = self.lasting(now).filter(|(_, group)| !group.is_reported);
        let events = unreported.map(|(gone, group)| {
            group.is_reported = true;
            event(config, gone, &group.objects)
        });
        events.collect()
    }

    /// What the KubevirtConfig asks to remove.
    pub(super) fn removals(&mut self, config: &KubevirtConfig, now: Instant) -> Vec<Removal> {
        let annotations = config.metadata.annotations.as_ref();
        let asked = annotations.and_then(|all| all.get(labels::REMOVE_ORPHANS));
        let asked: BTreeSet<&str> = asked.map_or_else(BTreeSet::new, |asked| {
            asked.split(',').map(str::trim).collect()
        });
        let due = self
            .lasting(now)
            .filter(|(gone, group)| !group.is_removing && asked.contains(gone.uid.as_str()));
        let removals = due.map(|(gone, group)| {
            group.is_removing = true;
            Removal {
                gone: gone.clone(),
                objects: group.objects.clone(),
            }
        });
        removals.collect()
    }

    /// Continues with what is left, once caches show what was removed.
    pub(super) fn on_removed(&mut self, gone: &Gone) {
        if let Some(group) = self.groups.get_mut(gone) {
            group.is_removing = false;
        }
    }
}

/// An object whose Machine is gone.
fn orphan(
    machine: Key,
    kind: Kind,
    metadata: &ObjectMeta,
    caches: &Caches,
) -> Option<(Gone, Left)> {
    let labels = metadata.labels.as_ref()?;
    let uid = labels.get(labels::MACHINE_UID)?.clone();
    let found = caches.machines.get(&machine);
    let is_there = found.is_some_and(|it| it.metadata.uid.as_ref() == Some(&uid));
    let is_kept = labels.contains_key(labels::RETAINED) || metadata.deletion_timestamp.is_some();
    if is_there || is_kept {
        return None;
    }
    let left = Left {
        kind,
        name: metadata.name.clone()?,
        uid: metadata.uid.clone()?,
    };
    Some((Gone { machine, uid }, left))
}

fn event(config: &str, gone: &Gone, objects: &BTreeSet<Left>) -> plan::Event {
    let named = objects.iter().take(MOST_NAMED);
    let mut named: Vec<String> = named
        .map(|object| format!("{} {}", object.kind.as_str(), object.name))
        .collect();
    if objects.len() > MOST_NAMED {
        named.push(format!("{} more", objects.len() - MOST_NAMED));
    }
    let Gone { machine, uid } = gone;
    let message = format!(
        "Machine {machine} with UID {uid} no longer exists, and in cluster {config} it left behind {}. To keep \
         them without this report, label them {}=true; to remove them with their data: kubectl annotate \
         kubevirtconfig {config} --overwrite {}={uid}",
        named.join(", "),
        labels::RETAINED,
        labels::REMOVE_ORPHANS,
    );
    plan::Event::warning("ObjectsOrphaned", message)
}

/// Removes what is left of a Machine, VirtualMachines first.
pub(super) async fn remove(clusters: &Clusters, removal: Removal) -> Gone {
    let Removal { gone, objects } = removal;
    let machine = &gone.machine;
    if let Err(error) = remove_objects(clusters, &gone, &objects).await {
        let reason = match &error {
            kube::Error::Api(status) => status_message(status),
            error => error.to_string(),
        };
        tracing::warn!("cannot remove what Machine {machine} left behind: {reason}");
    }
    gone
}

async fn remove_objects(
    clusters: &Clusters,
    gone: &Gone,
    objects: &BTreeSet<Left>,
) -> kube::Result<()> {
    let Key { namespace, name } = &gone.machine;
    // The Machine may exist, and only the caches not show it.
    let machines = Owner::Machine.collection(namespace);
    let path = format!("{machines}?fieldSelector=metadata.name%3D{name}");
    let found = clusters.management.get(&path).await?;
    let mut items = found["items"].as_array().into_iter().flatten();
    if items.any(|item| item["metadata"]["uid"] == gone.uid.as_str()) {
        return Ok(());
    }
    let of_kind = |kind: Kind| objects.iter().filter(move |object| object.kind == kind);
    let mut has_vm = false;
    for object in of_kind(Kind::VirtualMachine) {
        has_vm = true;
        delete(clusters, namespace, object).await?;
    }
    if has_vm {
        return Ok(());
    }
    let used = references::read(&clusters.workload, namespace, true).await?;
    for kind in [Kind::DataVolume, Kind::PersistentVolumeClaim] {
        for object in of_kind(kind) {
            if used.users(&object.name).next().is_none() {
                delete(clusters, namespace, object).await?;
            }
        }
    }
    let secrets = paths::secrets(namespace);
    let secret = format!("{secrets}/{}", naming::cloud_init_secret(name));
    match clusters.workload.get(&secret).await {
        Ok(found) if is_of(&found, &gone.uid) => {
            let uid = found["metadata"]["uid"].as_str().unwrap_or_default();
            ignore_missing(clusters.workload.delete(&secret, uid, None).await)
        }
        Ok(_) => Ok(()),
        Err(error) if is_code(&error, 404) => Ok(()),
        Err(error) => Err(error),
    }
}

fn is_of(object: &Value, machine: &str) -> bool {
    object["metadata"]["labels"][labels::MACHINE_UID] == machine
}

async fn delete(clusters: &Clusters, namespace: &str, object: &Left) -> kube::Result<()> {
    let path = paths::object(object.kind, namespace, &object.name);
    tracing::info!(
        namespace,
        "Deleting {} {}: its Machine is gone, and its removal was asked for",
        object.kind.as_str(),
        object.name
    );
    ignore_missing(
        clusters
            .of(object.kind)
            .delete(&path, &object.uid, None)
            .await,
    )
}

fn ignore_missing<T>(deleted: kube::Result<T>) -> kube::Result<()> {
    match deleted {
        Ok(_) => Ok(()),
        Err(error) if is_code(&error, 404) => Ok(()),
        Err(error) => Err(error),
    }
}
