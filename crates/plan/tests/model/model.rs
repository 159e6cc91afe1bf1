//! Transition system: the moves that a state allows, and the state that each leads to.

use crate::{
    environment::Act,
    objects::{
        ABSENT, CLAIM, DATA_VOLUME, Facts, Finalizer, INSTANCE, Id, MACHINE, MACHINES, Objects,
        PER_MACHINE, Policy, SLOTS, VM, base, claim_bit, describe, machine_of,
    },
    operator::Plans,
    promises::Broken,
    state::{Memory, State, machine},
    users::UserAct,
};

/// Parameters of an exploration.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Config {
    pub(crate) machines: usize,
    pub(crate) disks: usize,
    /// CDI fills the root disk.
    pub(crate) has_source: bool,
    pub(crate) policy: Policy,
    /// Whether users act only on Machines that run.
    pub(crate) from_running: bool,
    /// Maximum number of user actions on a path.
    pub(crate) acts: u8,
}

/// Kinds with their own watch and cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Watch {
    Machines,
    VirtualMachines,
    Instances,
    Claims,
    DataVolumes,
}

impl Watch {
    const ALL: [Self; 5] = [
        Self::Machines,
        Self::VirtualMachines,
        Self::Instances,
        Self::Claims,
        Self::DataVolumes,
    ];

    fn slots(self) -> impl Iterator<Item = usize> {
        let kinds = match self {
            Self::Machines => MACHINE..VM,
            Self::VirtualMachines => VM..INSTANCE,
            Self::Instances => INSTANCE..CLAIM,
            Self::Claims => CLAIM..DATA_VOLUME,
            Self::DataVolumes => DATA_VOLUME..DATA_VOLUME + 2,
        };
        (0..SLOTS).filter(move |slot| kinds.contains(&(slot % PER_MACHINE)))
    }
}

/// One move of one party.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Move {
    /// A watch brings the cache of a kind up to date.
    Deliver(Watch),
    /// The operator executes the next step of a plan; the answer may get lost.
    Step {
        machine: usize,
        is_lost: bool,
    },
    /// The operator crashes in the middle of a plan, and restarts.
    Crash,
    /// The garbage collector processes an object.
    Collect(usize),
    Environment(usize, Act),
    User(UserAct),
}

pub(crate) struct Model {
    pub(crate) config: Config,
    pub(crate) objects: Objects,
    pub(crate) plans: Plans,
    /// Promises that the last move broke.
    pub(crate) broken: Vec<Broken>,
}

impl Model {
    pub(crate) fn new(config: Config) -> Self {
        Self {
            config,
            objects: Objects::new(),
            plans: Plans::new(),
            broken: Vec::new(),
        }
    }

    /// Claims that a Machine's spec requests.
    pub(crate) fn desired(&self, facts: &Facts, machine: usize) -> u8 {
        let root = claim_bit(base(machine) + CLAIM);
        let data = claim_bit(base(machine) + CLAIM + 1);
        if self.config.disks > 1 && facts.lists_data {
            root | data
        } else {
            root
        }
    }

    pub(crate) fn start(&mut self) -> State {
        let mut state = State::new(self.config.acts);
        for machine in 0..self.config.machines {
            self.create_machine(&mut state, base(machine), self.config.policy);
        }
        if self.config.from_running {
            self.rest(state).unwrap()
        } else {
            state
        }
    }

    /// What a watch shows of an object: only objects with our label, and Machines.
    fn shown(&self, slot: usize, id: Id) -> Id {
        let is_shown =
            slot % PER_MACHINE == MACHINE || self.known(id).is_some_and(|facts| facts.is_managed);
        if is_shown { id } else { ABSENT }
    }

    fn is_stale(&self, state: &State, watch: Watch) -> bool {
        watch
            .slots()
            .any(|slot| state.cache[slot] != self.shown(slot, state.objects[slot]))
    }

    pub(crate) fn deliver(&self, state: &mut State, watch: Watch) {
        for slot in watch.slots() {
            self.learn(state, slot, self.shown(slot, state.objects[slot]));
        }
    }

    /// Puts an object into a cache. An orphaning deletion is remembered, because the garbage collector
    /// removes its finalizer.
    pub(crate) fn learn(&self, state: &mut State, slot: usize, id: Id) {
        if slot % PER_MACHINE == MACHINE {
            let uid = |id: Id| self.known(id).map(|facts| facts.uid);
            let memory = &mut state.memory[machine_of(slot)];
            if uid(state.cache[slot]) != uid(id) {
                *memory = Memory::default();
            }
            // A watch delivers every version, including the one before the garbage collector removed its
            // finalizer; a list after a crash has only the last one.
            let was_orphaned = state.ghost.machines[machine_of(slot)] & machine::ORPHANED != 0;
            let orphans =
                |facts: &Facts| facts.is_deleting && (facts.has(Finalizer::Orphan) || was_orphaned);
            memory.is_orphaned |= self.known(id).is_some_and(orphans);
        }
        state.cache[slot] = id;
    }

    pub(crate) fn deliver_all(&self, state: &mut State) {
        for watch in Watch::ALL {
            self.deliver(state, watch);
        }
    }

    pub(crate) fn moves(&mut self, state: &State) -> Vec<Move> {
        let mut moves = self.own_moves(state);
        let is_busy = state.pending.iter().any(|pending| pending.plan != 0);
        // A watch event does not change the steps of a plan in execution: with one Machine it may as well
        // come after them.
        if !is_busy || self.config.machines > 1 {
            let behind = Watch::ALL
                .into_iter()
                .filter(|watch| self.is_stale(state, *watch));
            moves.extend(behind.map(Move::Deliver));
        }
        for machine in 0..self.config.machines {
            if self.has_turn(state, machine) {
                moves.push(Move::Step {
                    machine,
                    is_lost: false,
                });
                moves.push(Move::Step {
                    machine,
                    is_lost: true,
                });
            }
            if state.acts > 0 {
                moves.extend(self.user_acts(state, machine).into_iter().map(Move::User));
            }
        }
        if is_busy {
            moves.push(Move::Crash);
        }
        moves
    }

    /// Moves of the garbage collector, KubeVirt and the storage.
    pub(crate) fn own_moves(&self, state: &State) -> Vec<Move> {
        let slots = (0..SLOTS).filter(|slot| self.collection(state, *slot).is_some());
        let mut moves: Vec<_> = slots.map(Move::Collect).collect();
        for machine in 0..self.config.machines {
            let acts = self.environment(state, machine).into_iter();
            moves.extend(acts.map(|act| Move::Environment(machine, act)));
        }
        moves
    }

    pub(crate) fn apply_move(&mut self, state: &State, chosen: Move) -> State {
        let mut state = state.clone();
        match chosen {
            Move::Deliver(watch) => self.deliver(&mut state, watch),
            Move::Step { machine, is_lost } => self.step(&mut state, machine, is_lost),
            Move::Crash => self.crash(&mut state),
            Move::Collect(slot) => self.collect(&mut state, slot),
            Move::Environment(machine, act) => self.act(&mut state, machine, act),
            Move::User(act) => {
                state.acts -= 1;
                self.user(&mut state, act);
            }
        }
        state
    }

    fn crash(&mut self, state: &mut State) {
        state.pending = Default::default();
        self.deliver_all(state);
        for machine in 0..self.config.machines {
            let listed = self.at(state, base(machine));
            let is_orphaned =
                listed.is_some_and(|facts| facts.is_deleting && facts.has(Finalizer::Orphan));
            state.memory[machine] = Memory {
                is_orphaned,
                ..Memory::default()
            };
            if listed.is_some_and(|facts| facts.is_deleting && !facts.has(Finalizer::Orphan)) {
                self.forget_orphaning(state, base(machine));
            }
        }
    }

    /// Describes a move as a line of a counterexample.
    pub(crate) fn describe_move(&mut self, state: &State, chosen: Move) -> String {
        match chosen {
            Move::Deliver(watch) => format!("the operator's watch of {watch:?} catches up"),
            Move::Step { machine, is_lost } => {
                let before = state.pending[machine].plan == 0;
                let step = self.describe_step(state, machine);
                let caches = if before { ", as its caches say" } else { "" };
                let lost = if is_lost {
                    "; the answer gets lost"
                } else {
                    ""
                };
                format!("the operator: {step}{caches}{lost}")
            }
            Move::Crash => "the operator crashes, and starts again".to_owned(),
            Move::Collect(slot) => {
                let what = self.collection(state, slot);
                format!("the garbage collector on {}: {what:?}", describe(slot))
            }
            Move::Environment(_, Act::Bind(slot)) => format!("{} is bound", describe(slot)),
            Move::Environment(_, Act::Unprotect(slot)) => format!("{} disappears", describe(slot)),
            Move::Environment(_, Act::Populate(slot) | Act::Fill(slot)) => {
                format!("CDI continues with {}", describe(slot))
            }
            Move::Environment(machine, act) => format!("KubeVirt: {act:?} {}", MACHINES[machine]),
            Move::User(act) => format!("A USER {}", act.describe()),
        }
    }

    /// Runs everybody but users in turn, until nothing changes.
    ///
    /// Everybody gets a turn in every round, so this is a fair continuation.
    pub(crate) fn rest(&mut self, mut state: State) -> Result<State, State> {
        for _ in 0..60 {
            let before = state.clone();
            for machine in 0..self.config.machines {
                while state.pending[machine].plan != 0 {
                    self.step(&mut state, machine, false);
                }
            }
            for _ in 0..100 {
                let Some(next) = self.own_moves(&state).first().copied() else {
                    break;
                };
                state = self.apply_move(&state, next);
            }
            self.deliver_all(&mut state);
            for machine in 0..self.config.machines {
                // A live read and the plan that relies on it are one turn.
                for _ in 0..3 {
                    let has_read = state.memory[machine].is_fresh;
                    if self.has_turn(&state, machine) {
                        self.step(&mut state, machine, false);
                    }
                    if has_read || !state.memory[machine].is_fresh {
                        break;
                    }
                }
            }
            if state == before {
                return Ok(state);
            }
        }
        Err(state)
    }

    /// Whether an object belongs to the existing Machine of its name.
    pub(crate) fn is_own(&self, state: &State, slot: usize) -> bool {
        let machine = self.at(state, base(machine_of(slot)));
        let object = self.at(state, slot);
        match (machine, object) {
            (Some(machine), Some(object)) => object.uid.made_for == machine.uid.incarnation,
            _ => false,
        }
    }
}
