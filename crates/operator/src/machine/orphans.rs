//! Orphan detection: disks whose Machine is gone, as a gauge per namespace and one Warning Event per
//! disk.
//!
//! A disk counts once it has been found without its Machine for [`GRACE`]: the watches of Machines,
//! claims and DataVolumes are not in step. Nothing is evaluated before all caches are synced, nor while
//! the definition of Machines does not exist. Nothing is written but Events.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use api::ObjectMeta;
use plan::machine::{Kind, is_orphaned, orphan_event};
use runtime::cache::Key;
use tokio::time::Instant;

use super::{
    caches::{Affected, Caches},
    paths::Owner,
};

/// Time without its Machine after which a disk is reported.
const GRACE: Duration = Duration::from_secs(30);
/// Maximum number of Machines per evaluation: it blocks the control loop.
const MOST_EVALUATED: usize = 1000;

#[derive(Default)]
pub(super) struct Orphans {
    /// Machines whose disks are to be evaluated.
    pending: BTreeSet<Key>,
    found: BTreeMap<Disk, Finding>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Disk {
    machine: Key,
    name: String,
    uid: String,
}

struct Finding {
    kind: Kind,
    disk: ObjectMeta,
    since: Instant,
    /// Whether the grace period has passed.
    is_lasting: bool,
    is_reported: bool,
}

/// Disk to report, with its Event.
pub(super) struct Orphan {
    pub(super) kind: Kind,
    pub(super) disk: ObjectMeta,
    pub(super) event: plan::Event,
}

impl Orphans {
    /// Adds the Machines whose disks may have become orphans, or may have an owner again.
    pub(super) fn on_change(&mut self, affected: &Affected, caches: &Caches) {
        let changed = affected.subjects.iter();
        let machines = changed.filter(|subject| subject.owner == Owner::Machine);
        let pending = machines.filter(|subject| {
            caches.machines.get(&subject.key).is_none()
                || affected.replaced.contains(subject)
                || self.has_orphans(&subject.key)
        });
        let pending: Vec<Key> = pending.map(|subject| subject.key.clone()).collect();
        self.pending.extend(pending);
        // A claim may be restored from a backup after its Machine was replaced.
        let claims = affected.claims.iter().filter(|claim| claim.old.is_none());
        let claims = claims.filter_map(|claim| claim.new.as_ref()?.machine().cloned());
        self.pending.extend(claims);
    }

    /// Evaluates the disks of Machines that changed.
    pub(super) fn evaluate(&mut self, caches: &Caches, now: Instant) {
        for _ in 0..MOST_EVALUATED {
            let Some(machine) = self.pending.pop_first() else {
                break;
            };
            self.evaluate_machine(&machine, caches, now);
        }
        for finding in self.found.values_mut() {
            finding.is_lasting |= now.saturating_duration_since(finding.since) >= GRACE;
        }
    }

    /// Orphans that have not been reported.
    pub(super) fn unreported(&mut self) -> Vec<Orphan> {
        let findings = self.found.values_mut();
        let unreported = findings.filter(|finding| finding.is_lasting && !finding.is_reported);
        unreported
            .map(|finding| {
                finding.is_reported = true;
                Orphan {
                    kind: finding.kind,
                    event: orphan_event(finding.kind, &finding.disk),
                    disk: finding.disk.clone(),
                }
            })
            .collect()
    }

    /// Number of orphans by namespace.
    pub(super) fn counts(&self) -> BTreeMap<String, i64> {
        let mut counts = BTreeMap::new();
        for (disk, finding) in &self.found {
            if finding.is_lasting {
                let namespace = disk.machine.namespace.to_string();
                *counts.entry(namespace).or_insert(0) += 1;
            }
        }
        counts
    }

    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }

    fn has_orphans(&self, machine: &Key) -> bool {
        self.of(machine).next().is_some()
    }

    fn of(&self, machine: &Key) -> impl Iterator<Item = &Disk> + use<'_> {
        let machine = machine.clone();
        let first = Disk {
            machine: machine.clone(),
            name: String::new(),
            uid: String::new(),
        };
        let following = self.found.range(first..).map(|(disk, _)| disk);
        following.take_while(move |disk| disk.machine == machine)
    }

    fn evaluate_machine(&mut self, machine: &Key, caches: &Caches, now: Instant) {
        let found = caches.machines.get(machine).map(|found| &found.metadata);
        let mut before: BTreeSet<Disk> = self.of(machine).cloned().collect();
        for (kind, disk) in caches.disks_of(machine) {
            if !is_orphaned(&disk, found) {
                continue;
            }
            let orphan = Disk {
                machine: machine.clone(),
                name: disk.name.clone().unwrap_or_default(),
                uid: disk.uid.clone().unwrap_or_default(),
            };
            before.remove(&orphan);
            self.found.entry(orphan).or_insert(Finding {
                kind,
                disk,
                since: now,
                is_lasting: false,
                is_reported: false,
            });
        }
        for gone in before {
            self.found.remove(&gone);
        }
    }
}
