//! Breadth-first search over states, and the counterexamples of those that break a promise.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fmt::Write as _,
};

use crate::{
    model::{Config, Model, Move},
    promises::{Broken, Promise},
    state::State,
};

/// Result of a search.
pub(crate) struct Found {
    pub(crate) states: usize,
    pub(crate) transitions: usize,
    pub(crate) objects: usize,
    pub(crate) plans: usize,
    /// Whether no state is left to explore.
    pub(crate) is_complete: bool,
    /// The shortest counterexample of each way in which a promise was broken.
    pub(crate) counterexamples: BTreeMap<(Promise, String), String>,
}

struct Search {
    model: Model,
    states: Vec<State>,
    /// Predecessor of each state, and the move from it.
    parents: Vec<(u32, Move)>,
    known: HashMap<u64, u32>,
    /// States whose end is known to keep all promises.
    ends_well: HashSet<u64>,
    found: Found,
}

/// Explores at most `bound` states.
pub(crate) fn explore(config: Config, bound: usize) -> Found {
    let mut model = Model::new(config);
    let start = model.start();
    model.broken.clear();
    let mut search = Search {
        model,
        known: HashMap::from([(start.fingerprint(), 0)]),
        states: vec![start],
        parents: vec![(0, Move::Crash)],
        ends_well: HashSet::new(),
        found: Found {
            states: 0,
            transitions: 0,
            objects: 0,
            plans: 0,
            is_complete: true,
            counterexamples: BTreeMap::new(),
        },
    };
    search.run(bound);
    search.found.states = search.states.len();
    search.found.objects = search.model.objects.len();
    search.found.plans = search.model.plans.len();
    search.found
}

impl Search {
    fn run(&mut self, bound: usize) {
        let mut next = 0;
        while next < self.states.len() {
            let state = self.states[next].clone();
            if !self.ends(next, &state) {
                next += 1;
                continue;
            }
            for chosen in self.model.moves(&state) {
                let to = self.model.apply_move(&state, chosen);
                self.found.transitions += 1;
                let broken = std::mem::take(&mut self.model.broken);
                if !broken.is_empty() {
                    self.report(next, Some(chosen), &broken);
                    continue;
                }
                let fingerprint = to.fingerprint();
                if self.known.contains_key(&fingerprint) {
                    continue;
                }
                if self.states.len() >= bound {
                    self.found.is_complete = false;
                    continue;
                }
                let number = u32::try_from(self.states.len()).unwrap();
                self.known.insert(fingerprint, number);
                self.states.push(to);
                self.parents.push((u32::try_from(next).unwrap(), chosen));
            }
            next += 1;
        }
    }

    /// Whether a state ends well once users stop.
    fn ends(&mut self, number: usize, state: &State) -> bool {
        let mut calm = state.clone();
        calm.acts = 0;
        let fingerprint = calm.fingerprint();
        if self.ends_well.contains(&fingerprint) {
            return true;
        }
        match self.model.rest(calm) {
            Ok(end) => {
                let end_fingerprint = end.fingerprint();
                if !self.ends_well.contains(&end_fingerprint) && self.model.broken.is_empty() {
                    self.model.check_end(&end);
                    if self.model.broken.is_empty() {
                        self.ends_well.insert(end_fingerprint);
                    }
                }
            }
            Err(_) => self.model.broken.push(Broken {
                promise: Promise::Rests,
                detail: "sixty rounds later something still changes".to_owned(),
            }),
        }
        let broken = std::mem::take(&mut self.model.broken);
        if broken.is_empty() {
            self.ends_well.insert(fingerprint);
            return true;
        }
        self.report(number, None, &broken);
        false
    }

    fn report(&mut self, number: usize, last: Option<Move>, broken: &[Broken]) {
        for Broken { promise, detail } in broken {
            let key = (*promise, detail.clone());
            if self.found.counterexamples.contains_key(&key) {
                continue;
            }
            let mut counterexample = String::new();
            let mut path = Vec::new();
            let mut at = number;
            while at != 0 {
                let (parent, chosen) = self.parents[at];
                path.push((parent as usize, chosen));
                at = parent as usize;
            }
            path.reverse();
            path.extend(last.map(|chosen| (number, chosen)));
            for (line, (from, chosen)) in path.into_iter().enumerate() {
                let state = self.states[from].clone();
                let line_text = self.model.describe_move(&state, chosen);
                let _ = writeln!(counterexample, "  {:2}. {line_text}", line + 1);
            }
            if last.is_none() {
                let _ = writeln!(
                    counterexample,
                    "      then users stop, and everybody else continues"
                );
            }
            let _ = writeln!(counterexample, "   => {promise:?}: {detail}");
            self.found.counterexamples.insert(key, counterexample);
        }
    }
}
