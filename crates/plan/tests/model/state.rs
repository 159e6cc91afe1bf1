//! States of the model.

use std::hash::{DefaultHasher, Hash, Hasher};

use crate::objects::{ABSENT, CLAIM, DISKS, Id, MACHINES, PER_MACHINE, SLOTS, Uid, machine_of};

/// Position of the operator in the plan for a Machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Pending {
    /// Number of the plan; 0 if none is in execution.
    pub(crate) plan: u32,
    pub(crate) next: u8,
}

/// The operator's memory of a Machine, besides the caches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Memory {
    /// Number of a live read of references to claims; 0 if there is none.
    pub(crate) read: u16,
    /// Whether a plan may still rely on the read.
    pub(crate) is_fresh: bool,
    /// Whether an orphaning deletion was observed.
    pub(crate) is_orphaned: bool,
    /// Recorded claims that a live read did not find, of each disk.
    pub(crate) lost: [Option<Uid>; DISKS.len()],
    /// Claims and DataVolumes whose create got no answer, a bit each.
    pub(crate) unconfirmed: u8,
}

/// History that promises depend on and that no object shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Ghost {
    /// Of each disk, flags of [`disk`].
    pub(crate) disks: [[u16; 2]; MACHINES.len()],
    /// Incarnation of the Machine that each claim belongs to.
    pub(crate) owner: [[u8; 2]; MACHINES.len()],
    /// Of each Machine, flags of [`machine`].
    pub(crate) machines: [u8; MACHINES.len()],
}

/// Flags of a disk.
pub(crate) mod disk {
    /// Its claim has data.
    pub(crate) const DATA: u16 = 1;
    /// A user deleted its claim or its DataVolume.
    pub(crate) const DOOMED: u16 = 1 << 1;
    /// Its removal, or that of its Machine, requests its deletion.
    pub(crate) const DROP: u16 = 1 << 2;
    /// Its removal from the list keeps it.
    pub(crate) const DETACHED: u16 = 1 << 3;
    /// The removal of its Machine keeps it.
    pub(crate) const RETAINED: u16 = 1 << 4;
    /// A recorded claim disappeared although its disk is desired, and no one has confirmed that.
    pub(crate) const LOST: u16 = 1 << 5;
    /// A user caused its claim to disappear.
    pub(crate) const GONE_BY_USER: u16 = 1 << 6;
    /// The operator deleted its DataVolume, with the right to.
    pub(crate) const CONDEMNED: u16 = 1 << 7;
    /// A user removed its labels or annotations.
    pub(crate) const STRIPPED: u16 = 1 << 8;
    /// Someone referred to its claim after the operator had checked that no one does.
    pub(crate) const RACED: u16 = 1 << 9;
    /// It was removed from the list under Delete. The model has no generations, without which the
    /// operator cannot know that policy and removal belong together: it may keep the disk.
    pub(crate) const IN_DOUBT: u16 = 1 << 10;
    /// The flags of a claim, not of the disk's place in the list.
    pub(crate) const OF_CLAIM: u16 = DATA | DOOMED | CONDEMNED | STRIPPED | RACED;
}

/// Flags of a Machine.
pub(crate) mod machine {
    /// Its user deleted it with `--cascade=orphan`.
    pub(crate) const ORPHANED: u8 = 1;
    /// A user removed the finalizer during its deletion, or deleted it before it had one.
    pub(crate) const ABANDONED: u8 = 1 << 1;
}

/// A state: objects of the API server, the operator's memory and position, remaining user actions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    pub(crate) objects: [Id; SLOTS],
    /// The operator's caches.
    pub(crate) cache: [Id; SLOTS],
    pub(crate) pending: [Pending; MACHINES.len()],
    pub(crate) memory: [Memory; MACHINES.len()],
    pub(crate) ghost: Ghost,
    /// Remaining user actions.
    pub(crate) acts: u8,
}

impl State {
    pub(crate) fn new(acts: u8) -> Self {
        Self {
            objects: [ABSENT; SLOTS],
            cache: [ABSENT; SLOTS],
            pending: Default::default(),
            memory: Default::default(),
            ghost: Ghost::default(),
            acts,
        }
    }

    /// Flags of the disk whose claim or DataVolume is in a slot.
    pub(crate) fn disk(&mut self, slot: usize) -> &mut u16 {
        &mut self.ghost.disks[machine_of(slot)][(slot % PER_MACHINE - CLAIM) % 2]
    }

    pub(crate) fn has(&self, slot: usize, flag: u16) -> bool {
        let disk = (slot % PER_MACHINE - CLAIM) % 2;
        self.ghost.disks[machine_of(slot)][disk] & flag != 0
    }

    /// Incarnation of the Machine that a claim belongs to.
    pub(crate) fn owner(&mut self, slot: usize) -> &mut u8 {
        &mut self.ghost.owner[machine_of(slot)][(slot % PER_MACHINE - CLAIM) % 2]
    }

    /// 64-bit hash of the state. Among ten million states, two collide with a probability of three in a
    /// million.
    pub(crate) fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish()
    }
}
