//! Test fixture: caches of a few objects, a clock, and actors that reconcile them.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use crate::{
    Actor, Caches, Kind, Speed,
    actor::{Context, ReconcileResult, Waits, Write},
    faults::Faults,
    object::{Key, Object, merge, name},
    write::is_needed,
};

pub(crate) struct Fixture {
    pub caches: Caches,
    pub now: Timestamp,
    pub speed: Speed,
    pub faults: Faults,
    pub waits: Waits,
    version: u64,
}

impl Fixture {
    /// These objects on 1 January 2026, at instant speed.
    pub fn of(objects: impl IntoIterator<Item = (Kind, Value)>) -> Self {
        let mut fixture = Self {
            caches: Caches::default(),
            now: "2026-01-01T00:00:00Z".parse().unwrap(),
            speed: Speed::Instant,
            faults: Faults::default(),
            waits: Waits::new(),
            version: 0,
        };
        for (kind, object) in objects {
            fixture.put(kind, object);
        }
        fixture
    }

    /// Stores an object as the API server would: with UID, resource version and creation time.
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

    pub fn advance(&mut self, time: Duration) {
        self.now += time;
    }

    /// Reconciles a key once; writes that would change nothing are left out.
    pub fn reconcile(&mut self, actor: &dyn Actor, key: &Key) -> ReconcileResult {
        let mut ctx = Context::new(
            key,
            &self.caches,
            self.now,
            self.speed,
            &self.faults,
            0,
            &self.waits,
        );
        actor.reconcile(&mut ctx);
        let mut result = ctx.finish();
        result.writes.retain(is_needed);
        self.waits = result.waits.clone();
        result
    }

    /// Reconciles a key and applies the writes until there are none. Returns all of them.
    pub fn settle(&mut self, actor: &dyn Actor, key: &Key) -> Vec<Write> {
        let mut all = Vec::new();
        for _ in 0..50 {
            let result = self.reconcile(actor, key);
            if result
                .writes
                .iter()
                .all(|write| matches!(write, Write::Event { .. }))
            {
                all.extend(result.writes);
                return all;
            }
            for write in result.writes {
                self.apply(&write);
                all.push(write);
            }
        }
        panic!("{} does not settle on {key}", actor.name());
    }

    fn apply(&mut self, write: &Write) {
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

pub(crate) fn reasons(writes: &[Write]) -> Vec<&str> {
    let reasons = writes.iter().filter_map(|write| match write {
        Write::Event { reason, .. } => Some(reason.as_str()),
        _ => None,
    });
    reasons.collect()
}

/// Names of the objects that these writes delete.
pub(crate) fn deleted(writes: &[Write]) -> Vec<&str> {
    let names = writes.iter().filter_map(|write| match write {
        Write::Delete { observed, .. } => Some(name(observed)),
        _ => None,
    });
    names.collect()
}

/// Objects that these writes create.
pub(crate) fn created(writes: &[Write]) -> Vec<&Value> {
    let objects = writes.iter().filter_map(|write| match write {
        Write::Create { object, .. } => Some(object),
        _ => None,
    });
    objects.collect()
}
