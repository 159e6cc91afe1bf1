//! Interned objects of the API server: a state contains a number for each of them.
//!
//! An object is stored as JSON without `resourceVersion`; its number serves as that. So two versions with
//! the same content are the same version, and preconditions pass more often than on a real server: the
//! model allows more, never less.

use std::collections::HashMap;

use api::labels;
use serde_json::{Value, json};

/// Number of an interned object; [`ABSENT`] when there is none.
pub(crate) type Id = u16;
pub(crate) const ABSENT: Id = 0;

/// Slots of one Machine: the Machine, its VirtualMachine, its instance, two claims, two DataVolumes,
/// and a VirtualMachine of someone else, with another name.
pub(crate) const PER_MACHINE: usize = 8;
pub(crate) const MACHINE: usize = 0;
pub(crate) const VM: usize = 1;
pub(crate) const INSTANCE: usize = 2;
pub(crate) const CLAIM: usize = 3;
pub(crate) const DATA_VOLUME: usize = 5;
pub(crate) const OTHER_VM: usize = 7;
pub(crate) const DISKS: [&str; 2] = ["root", "data"];
pub(crate) const MACHINES: [&str; 2] = ["web", "db"];
pub(crate) const SLOTS: usize = PER_MACHINE * MACHINES.len();

pub(crate) const TIME: &str = "2026-01-01T00:00:00Z";

/// Machine that a slot belongs to.
pub(crate) fn machine_of(slot: usize) -> usize {
    slot / PER_MACHINE
}

/// First slot of a Machine.
pub(crate) fn base(machine: usize) -> usize {
    machine * PER_MACHINE
}

/// Kind and name of the object in a slot.
pub(crate) fn describe(slot: usize) -> String {
    let machine = MACHINES[machine_of(slot)];
    match slot % PER_MACHINE {
        MACHINE => format!("Machine {machine}"),
        VM => format!("VirtualMachine {machine}"),
        INSTANCE => format!("VirtualMachineInstance {machine}"),
        OTHER_VM => format!("VirtualMachine rescue-{machine}"),
        kind if kind < DATA_VOLUME => {
            format!("PersistentVolumeClaim {machine}-{}", DISKS[kind - CLAIM])
        }
        kind => format!("DataVolume {machine}-{}", DISKS[kind - DATA_VOLUME]),
    }
}

/// A UID: the slot, the incarnation in it, and the incarnation of the Machine that the object was created
/// for. Objects of users have [`Uid::USER`] instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Uid {
    pub(crate) slot: u8,
    pub(crate) incarnation: u8,
    pub(crate) made_for: u8,
}

impl Uid {
    pub(crate) const USER: u8 = 15;

    pub(crate) fn text(self) -> String {
        format!(
            "uid-{:x}{:x}{:x}",
            self.slot, self.incarnation, self.made_for
        )
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut digits = text.strip_prefix("uid-")?.chars();
        let mut next = || u8::try_from(digits.next()?.to_digit(16)?).ok();
        Some(Self {
            slot: next()?,
            incarnation: next()?,
            made_for: next()?,
        })
    }

    /// One bit for the object, and one for the Machine that it was created for.
    pub(crate) fn bits(self) -> u128 {
        let bit = |slot: u8, incarnation: u8| 1_u128 << (slot * 8 + incarnation);
        let machine = self.slot - self.slot % 8;
        let made_for = if self.made_for == Self::USER {
            0
        } else {
            bit(machine, self.made_for)
        };
        bit(self.slot, self.incarnation) | made_for
    }
}

/// Finalizers that matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Finalizer {
    Cleanup,
    Foreground,
    Orphan,
    ClaimProtection,
    KubeVirt,
}

impl Finalizer {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Cleanup => labels::FINALIZER,
            Self::Foreground => "foregroundDeletion",
            Self::Orphan => "orphan",
            Self::ClaimProtection => "kubernetes.io/pvc-protection",
            Self::KubeVirt => "kubevirt.io/virtualMachineControllerFinalize",
        }
    }
}

/// An owner reference.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owner {
    pub(crate) uid: Uid,
    pub(crate) blocks: bool,
    pub(crate) controls: bool,
}

/// Facts that the environment's decisions depend on, computed once per object.
#[derive(Clone, Debug)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is a field of an object, and they are independent"
)]
pub(crate) struct Facts {
    pub(crate) uid: Uid,
    pub(crate) owners: Vec<Owner>,
    pub(crate) is_deleting: bool,
    pub(crate) finalizers: Vec<String>,
    pub(crate) is_managed: bool,
    pub(crate) machine: Option<usize>,
    /// Claims that a VirtualMachine or instance refers to, a bit each.
    pub(crate) mounts: u8,
    pub(crate) hotplug: u8,
    pub(crate) is_halted: bool,
    pub(crate) is_bound: bool,
    pub(crate) is_filled: bool,
    pub(crate) lists_data: bool,
    pub(crate) policy: Policy,
    pub(crate) adopts: bool,
    /// Claims that `status.disks` of a Machine records, of each disk.
    pub(crate) recorded: [Option<Uid>; DISKS.len()],
    pub(crate) mentions: u128,
}

impl Facts {
    pub(crate) fn has(&self, finalizer: Finalizer) -> bool {
        self.finalizers.iter().any(|it| it == finalizer.name())
    }

    pub(crate) fn controller(&self) -> Option<Uid> {
        let mut owners = self.owners.iter();
        owners.find(|owner| owner.controls).map(|owner| owner.uid)
    }
}

/// `spec.deletionPolicy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Policy {
    Unset,
    Delete,
    Retain,
}

impl Policy {
    pub(crate) const ALL: [Self; 3] = [Self::Unset, Self::Delete, Self::Retain];

    pub(crate) fn value(self) -> Value {
        match self {
            Self::Unset => Value::Null,
            Self::Delete => "Delete".into(),
            Self::Retain => "Retain".into(),
        }
    }
}

/// Bit of a claim among those of all Machines.
pub(crate) fn claim_bit(slot: usize) -> u8 {
    1 << (machine_of(slot) * DISKS.len() + slot % PER_MACHINE - CLAIM)
}

/// Claims of the disks that are plugged in and out.
pub(crate) fn data_bits() -> u8 {
    let machines = 0..MACHINES.len();
    machines.fold(0, |bits, machine| {
        bits | claim_bit(base(machine) + CLAIM + 1)
    })
}

/// Slots of the claims in a set of bits.
pub(crate) fn claims_in(bits: u8) -> impl Iterator<Item = usize> {
    let slots =
        (0..MACHINES.len()).flat_map(|machine| [CLAIM, CLAIM + 1].map(|it| base(machine) + it));
    slots.filter(move |slot| bits & claim_bit(*slot) != 0)
}

fn claim_named(name: &str) -> Option<usize> {
    let slots = claims_in(u8::MAX);
    let mut slots = slots.filter(|slot| {
        let disk = DISKS[slot % PER_MACHINE - CLAIM];
        name == format!("{}-{disk}", MACHINES[machine_of(*slot)])
    });
    slots.next()
}

fn volumes(object: &Value) -> impl Iterator<Item = (&Value, usize)> {
    let spec = object.pointer("/spec/template/spec/volumes");
    let volumes = spec.or_else(|| object.pointer("/spec/volumes"));
    let volumes = volumes.and_then(Value::as_array).into_iter().flatten();
    volumes.filter_map(|volume| {
        let name = volume["persistentVolumeClaim"]["claimName"].as_str();
        let name = name.or_else(|| volume["dataVolume"]["name"].as_str());
        Some((volume, claim_named(name?)?))
    })
}

fn facts_of(object: &Value) -> Facts {
    let metadata = &object["metadata"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let label = |name: &str| metadata["labels"][name].as_str();
    let uid = |value: &Value| Uid::parse(value.as_str()?);
    let references = list(&metadata["ownerReferences"]);
    let owners = references.iter().filter_map(|owner| {
        Some(Owner {
            uid: uid(&owner["uid"])?,
            blocks: owner["blockOwnerDeletion"] == true,
            controls: owner["controller"] == true,
        })
    });
    let is_hotplug = |volume: &Value| {
        let sources = ["persistentVolumeClaim", "dataVolume"];
        sources
            .iter()
            .any(|source| volume[source]["hotpluggable"] == true)
    };
    let disks = list(&object["spec"]["disks"]);
    Facts {
        uid: uid(&metadata["uid"]).unwrap(),
        owners: owners.collect(),
        is_deleting: metadata["deletionTimestamp"].is_string(),
        finalizers: list(&metadata["finalizers"]).iter().map(text).collect(),
        is_managed: label(labels::MANAGED_BY) == Some(labels::MANAGER),
        machine: MACHINES
            .iter()
            .position(|machine| label(labels::MACHINE) == Some(machine)),
        mounts: volumes(object).fold(0, |bits, (_, slot)| bits | claim_bit(slot)),
        hotplug: volumes(object)
            .filter(|(volume, _)| is_hotplug(volume))
            .fold(0, |bits, (_, slot)| bits | claim_bit(slot)),
        is_halted: object["spec"]["runStrategy"] == "Halted",
        is_bound: object["status"]["phase"] == "Bound",
        is_filled: object["status"]["phase"] == "Succeeded",
        lists_data: disks.iter().any(|disk| disk["name"] == "data"),
        policy: Policy::ALL
            .into_iter()
            .find(|policy| policy.value() == object["spec"]["deletionPolicy"])
            .unwrap_or(Policy::Unset),
        adopts: metadata["annotations"][labels::ADOPT_DISKS] == "true",
        recorded: DISKS.map(|disk| {
            let records = object["status"]["disks"].as_array()?;
            let record = records.iter().find(|record| record["name"] == disk)?;
            uid(&record["uuid"])
        }),
        mentions: mentions(&object.to_string()),
    }
}

/// Bits of the uids that a text mentions.
pub(crate) fn mentions(text: &str) -> u128 {
    let found = text.match_indices("uid-");
    let found = found.filter_map(|(at, _)| Uid::parse(&text[at..]));
    found.fold(0, |bits, uid| bits | uid.bits())
}

/// A change of one object. The object and the change determine the result, so it is computed once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Edit {
    Delete,
    Add(Finalizer),
    Remove(Finalizer),
    RemoveAllFinalizers,
    StripOwners,
    StripOwner(Uid),
    StripManagedBy,
    StripMachine,
    StripAnnotations,
    SetPolicy(Policy),
    ListData(bool),
    Adopt,
    Confirm(Uid),
    Bind,
    Fill,
    Empty,
    Own(Uid),
    Mount(u8),
    /// The body of a step of the operator.
    Apply(u32),
    /// Only the labels of a step's body.
    Label(u32),
    /// What the operator records in `status.disks`, by its plan.
    Record(u32),
}

/// All objects that occurred.
pub(crate) struct Objects {
    values: Vec<Value>,
    facts: Vec<Facts>,
    numbers: HashMap<String, Id>,
    edits: HashMap<(Id, Edit), Id>,
}

impl Objects {
    pub(crate) fn new() -> Self {
        let nothing = json!({ "metadata": { "uid": "uid-000" } });
        Self {
            facts: vec![facts_of(&nothing)],
            values: vec![nothing],
            numbers: HashMap::new(),
            edits: HashMap::new(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.values.len()
    }

    pub(crate) fn value(&self, id: Id) -> &Value {
        &self.values[usize::from(id)]
    }

    /// The object with its number for a version, as a cache has it.
    pub(crate) fn versioned(&self, id: Id) -> Value {
        let mut value = self.value(id).clone();
        value["metadata"]["resourceVersion"] = id.to_string().into();
        value
    }

    pub(crate) fn facts(&self, id: Id) -> &Facts {
        &self.facts[usize::from(id)]
    }

    pub(crate) fn intern(&mut self, value: Value) -> Id {
        let text = value.to_string();
        if let Some(id) = self.numbers.get(&text) {
            return *id;
        }
        let id = Id::try_from(self.values.len()).unwrap();
        self.facts.push(facts_of(&value));
        self.values.push(value);
        self.numbers.insert(text, id);
        id
    }

    pub(crate) fn edit(&mut self, id: Id, edit: Edit, change: impl FnOnce(&mut Value)) -> Id {
        if let Some(changed) = self.edits.get(&(id, edit)) {
            return *changed;
        }
        let mut value = self.value(id).clone();
        change(&mut value);
        prune(&mut value);
        let changed = self.intern(value);
        self.edits.insert((id, edit), changed);
        changed
    }
}

/// Absent, null and empty are the same in metadata, as the API server stores them.
pub(crate) fn prune(value: &mut Value) {
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    };
    for part in ["metadata", "spec", "status"] {
        if let Some(Value::Object(fields)) = value.get_mut(part) {
            fields.retain(|_, value| !is_empty(value));
        }
    }
    if let Value::Object(fields) = value {
        fields.retain(|field, value| field != "status" || !is_empty(value));
    }
}
