//! World of the controllers under test.

use std::collections::BTreeMap;

use actors::{
    Actor, Caches, Context, Key, Kind, Speed, Waits, Write,
    faults::Faults,
    kind::POD,
    kubevirt::{VM, VMI, VmController, VmiController},
    object::{is_deleted, list, merge, name, number, text},
};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::recording::Recorded;

/// A few objects, the controllers under test, and a simulated node.
pub(crate) struct World {
    pub(crate) objects: BTreeMap<(Kind, Key), Value>,
    pub(crate) events: Vec<Recorded>,
    pub(crate) now: Timestamp,
    /// Time of the recording at `now`, and the events since.
    time: (f64, u32),
    version: u64,
    /// Whether deleted pods are observed while they terminate.
    pub(crate) pods_linger: bool,
}

impl World {
    pub(crate) fn new(now: Timestamp, time: f64) -> Self {
        Self {
            objects: BTreeMap::new(),
            events: Vec::new(),
            now,
            time: (time, 0),
            version: 0,
            pods_linger: true,
        }
    }

    /// Waits until a time of the recording.
    pub(crate) fn wait_until(&mut self, time: f64) {
        self.now += SignedDuration::from_secs_f64(time - self.time.0);
        self.time = (time, 0);
    }

    fn record(&mut self, of_type: &str, object: &Value) {
        let (time, events) = self.time;
        self.time.1 += 1;
        self.events.push(Recorded {
            at: time + f64::from(events) / 100.0,
            of_type: of_type.to_owned(),
            object: object.clone(),
        });
    }

    pub(crate) fn settle(&mut self) {
        let key = Key::new("default", "x");
        for _ in 0..200 {
            let written = self.reconcile(&VmController, &key)
                || self.run_pods()
                || self.reconcile(&VmiController, &key)
                || self.end_pods();
            if !written {
                return;
            }
        }
        panic!("the controllers do not settle");
    }

    fn reconcile(&mut self, actor: &dyn Actor, key: &Key) -> bool {
        let caches = Caches::of(
            self.objects
                .iter()
                .map(|((kind, _), object)| (*kind, object.clone())),
        );
        let (faults, waits) = (Faults::default(), Waits::new());
        let mut ctx = Context::new(key, &caches, self.now, Speed::Real, &faults, 0, &waits);
        actor.reconcile(&mut ctx);
        let mut written = false;
        for write in ctx.finish().writes {
            written |= self.apply(write);
        }
        written
    }

    fn apply(&mut self, write: Write) -> bool {
        match write {
            Write::Create { kind, mut object } => {
                if self.objects.contains_key(&(kind, Key::of(&object))) {
                    return false;
                }
                object["apiVersion"] = kind.api_version().into();
                object["kind"] = kind.kind.into();
                object["metadata"]["uid"] = format!("uid-{}", self.version).into();
                object["metadata"]["creationTimestamp"] = self.now.to_string().into();
                object["metadata"]["generation"] = 1.into();
                self.store(kind, object);
                true
            }
            Write::Patch {
                kind,
                observed,
                subresource,
                patch,
            } => {
                assert_eq!(
                    subresource.is_some(),
                    kind == VM && patch.get("status").is_some()
                );
                self.patch(kind, &observed, &patch)
            }
            Write::Delete { kind, observed, .. } => self.delete(kind, &observed),
            Write::Event { .. } => false,
            Write::Bind { .. } => panic!("virt-controller binds no pods"),
        }
    }

    fn patch(&mut self, kind: Kind, observed: &Value, patch: &Value) -> bool {
        let Some(old) = self.objects.get(&(kind, Key::of(observed))).cloned() else {
            panic!("patched {} {} is not there", kind.kind, name(observed));
        };
        assert_eq!(
            text(&old, "/metadata/resourceVersion"),
            text(observed, "/metadata/resourceVersion"),
            "{} was written twice in one reconcile",
            kind.kind
        );
        let mut object = old.clone();
        merge(&mut object, patch);
        if object == old {
            return false;
        }
        let counts = kind == VMI || object["spec"] != old["spec"];
        if counts {
            let generation = number(&old, "/metadata/generation").unwrap_or_default();
            object["metadata"]["generation"] = (generation + 1).into();
        }
        self.store(kind, object);
        true
    }

    pub(crate) fn delete(&mut self, kind: Kind, observed: &Value) -> bool {
        let Some(mut object) = self.objects.get(&(kind, Key::of(observed))).cloned() else {
            return false;
        };
        if is_deleted(&object) {
            return false;
        }
        let lingers = kind == POD || !list(&object, "/metadata/finalizers").is_empty();
        if kind == POD && !self.pods_linger || !lingers {
            self.objects.remove(&(kind, Key::of(observed)));
            return true;
        }
        object["metadata"]["deletionTimestamp"] = self.now.to_string().into();
        object["metadata"]["deletionGracePeriodSeconds"] = 0.into();
        let generation = number(&object, "/metadata/generation").unwrap_or_default();
        object["metadata"]["generation"] = (generation + 1).into();
        self.store(kind, object);
        true
    }

    pub(crate) fn store(&mut self, kind: Kind, mut object: Value) {
        self.version += 1;
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        let key = (kind, Key::of(&object));
        let ends =
            is_deleted(&object) && list(&object, "/metadata/finalizers").is_empty() && kind != POD;
        if ends {
            self.record("DELETED", &object);
            self.objects.remove(&key);
            return;
        }
        let of_type = if self.objects.contains_key(&key) {
            "MODIFIED"
        } else {
            "ADDED"
        };
        self.record(of_type, &object);
        self.objects.insert(key, object);
    }

    pub(crate) fn get(&self, kind: Kind, name: &str) -> &Value {
        &self.objects[&(kind, Key::new("default", name))]
    }

    pub(crate) fn edit(&mut self, kind: Kind, name: &str, patch: &Value) {
        let observed = self.get(kind, name).clone();
        assert!(self.patch(kind, &observed, patch));
        self.settle();
    }

    /// Makes pods ready as soon as their VMI is Scheduling.
    fn run_pods(&mut self) -> bool {
        let scheduling = self
            .objects
            .iter()
            .any(|((kind, _), vmi)| *kind == VMI && text(vmi, "/status/phase") == "Scheduling");
        let pod = self
            .pods()
            .find(|pod| text(pod, "/spec/nodeName").is_empty());
        let Some(pod) = pod.filter(|_| scheduling).cloned() else {
            return false;
        };
        let ready = json!([{ "type": "Ready", "status": "True" }]);
        let patch = json!({
            "spec": { "nodeName": "fake-node-1" },
            "status": { "qosClass": "Burstable", "phase": "Running", "conditions": ready },
        });
        self.patch(POD, &pod, &patch)
    }

    /// Removes deleted pods once nothing else changes.
    fn end_pods(&mut self) -> bool {
        let pod = self.pods().find(|pod| is_deleted(pod)).map(Key::of);
        pod.is_some_and(|pod| self.objects.remove(&(POD, pod)).is_some())
    }

    fn pods(&self) -> impl Iterator<Item = &Value> {
        let pods = self.objects.iter().filter(|((kind, _), _)| *kind == POD);
        pods.map(|(_, pod)| pod)
    }
}
