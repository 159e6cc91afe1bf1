//! A world of a few objects, for tests of decisions.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use crate::{
    Actor, Caches, Kind, Speed,
    faults::Faults,
    object::{Key, Object, merge, name},
    turn::{Outcome, Turn, Waits, Write},
    write::is_needed,
};

/// Objects at a time.
pub(crate) struct Scene {
    pub caches: Caches,
    pub now: Timestamp,
    pub speed: Speed,
    pub faults: Faults,
    pub waits: Waits,
    version: u64,
}

impl Scene {
    /// These objects on the first of January 2026, at instant speed.
    pub fn of(objects: impl IntoIterator<Item = (Kind, Value)>) -> Self {
        let mut scene = Self {
            caches: Caches::default(),
            now: "2026-01-01T00:00:00Z".parse().unwrap(),
            speed: Speed::Instant,
            faults: Faults::default(),
            waits: Waits::new(),
            version: 0,
        };
        for (kind, object) in objects {
            scene.put(kind, object);
        }
        scene
    }

    /// Puts an object there as the server would: with a uid, a version and a time.
    pub fn put(&mut self, kind: Kind, mut object: Value) {
        self.version += 1;
        let metadata = &mut object["metadata"];
        if metadata["name"].is_null() {
            let stem = metadata["generateName"]
                .as_str()
                .unwrap_or_default()
                .to_owned();
            metadata["name"] = format!("{stem}{}", self.version).into();
        }
        if metadata["uid"].is_null() {
            metadata["uid"] = format!("uid-{}-{}", kind.plural, self.version).into();
        }
        if metadata["creationTimestamp"].is_null() {
            metadata["creationTimestamp"] = crate::object::seconds(self.now).into();
        }
        metadata["resourceVersion"] = self.version.to_string().into();
        self.caches.observe(kind, object);
    }

    pub fn pass(&mut self, time: Duration) {
        self.now += time;
    }

    /// What an actor decides about a key, without what would change nothing.
    pub fn decide(&mut self, actor: &dyn Actor, key: &Key) -> Outcome {
        let mut turn = Turn::new(
            key,
            &self.caches,
            self.now,
            self.speed,
            &self.faults,
            0,
            &self.waits,
        );
        actor.decide(&mut turn);
        let mut outcome = turn.finish();
        outcome.writes.retain(is_needed);
        self.waits = outcome.waits.clone();
        outcome
    }

    /// Decides and carries out, until there is nothing more to write; gives back the writes.
    pub fn settle(&mut self, actor: &dyn Actor, key: &Key) -> Vec<Write> {
        let mut all = Vec::new();
        for _ in 0..50 {
            let outcome = self.decide(actor, key);
            if outcome
                .writes
                .iter()
                .all(|write| matches!(write, Write::Event { .. }))
            {
                all.extend(outcome.writes);
                return all;
            }
            for write in outcome.writes {
                self.carry_out(&write);
                all.push(write);
            }
        }
        panic!("{} does not come to rest on {key}", actor.name());
    }

    fn carry_out(&mut self, write: &Write) {
        match write {
            Write::Create { kind, object } => self.put(*kind, object.clone()),
            Write::Patch {
                kind,
                observed,
                patch,
                ..
            } => {
                let key = Key::of(observed);
                let mut object = Value::clone(self.caches.get(*kind, &key).unwrap());
                merge(&mut object, patch);
                self.put(*kind, object);
            }
            Write::Bind { pod, node } => {
                self.caches
                    .assume_bound(crate::kind::POD, &Key::of(pod), node);
            }
            Write::Delete { kind, observed, .. } => {
                self.caches.forget(*kind, &Key::of(observed));
            }
            Write::Event { .. } => {}
        }
    }

    pub fn get(&self, kind: Kind, namespace: &str, name: &str) -> Object {
        Object::clone(self.caches.find(kind, namespace, name).unwrap())
    }
}

/// The reasons of the events among these writes.
pub(crate) fn reasons(writes: &[Write]) -> Vec<&str> {
    let reasons = writes.iter().filter_map(|write| match write {
        Write::Event { reason, .. } => Some(reason.as_str()),
        _ => None,
    });
    reasons.collect()
}

/// The names of what is deleted by these writes.
pub(crate) fn deleted(writes: &[Write]) -> Vec<&str> {
    let names = writes.iter().filter_map(|write| match write {
        Write::Delete { observed, .. } => Some(name(observed)),
        _ => None,
    });
    names.collect()
}

/// What is created by these writes.
pub(crate) fn created(writes: &[Write]) -> Vec<&Value> {
    let objects = writes.iter().filter_map(|write| match write {
        Write::Create { object, .. } => Some(object),
        _ => None,
    });
    objects.collect()
}
