//! What an actor is given and what it gives back.
//!
//! An actor is a pure function: of a key, the caches, the present time, the faults that were asked
//! for, and since when it has been waiting for what. It answers with writes and with when it wants
//! to be asked again. The framework carries the writes out in order, leaves out those that would
//! change nothing, and asks again when an object that the actor watches has changed.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    Caches, Kind, Speed, Step,
    clock::elapsed,
    faults::{Fault, Faults},
    object::{Key, Object, drop_idle_nulls, name, namespace, text, uid},
};

/// Annotation of a claim by which the scheduler tells the provisioner where a volume has to be.
pub(crate) const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// A controller, as a pure function.
pub trait Actor: Send + Sync {
    /// Its name: the field manager of its writes and the source of its events.
    fn name(&self) -> &'static str;

    /// The kinds that it has to be told about.
    fn watches(&self) -> &[Kind];

    /// Which of its keys a changed object concerns. Called with the object before the change and
    /// with the one after it.
    fn keys(&self, kind: Kind, object: &Value, caches: &Caches) -> Vec<Key>;

    /// Keys to be asked about once at the start, whether or not there are objects.
    fn initial(&self) -> Vec<Key> {
        Vec::new()
    }

    /// Whether the keys are decided one after another: each decision then sees the writes of the
    /// one before.
    fn one_by_one(&self) -> bool {
        false
    }

    /// Decides about one key.
    fn decide(&self, turn: &mut Turn<'_>);
}

/// One write, with all that is needed to carry it out.
#[derive(Clone, Debug, PartialEq)]
pub enum Write {
    /// Creates an object. One that is there already is left alone.
    Create {
        /// Its kind.
        kind: Kind,
        /// The object, without `apiVersion` and `kind`.
        object: Value,
    },
    /// A merge patch of the object as it was observed: a conflict if it has changed since.
    Patch {
        /// Its kind.
        kind: Kind,
        /// The object as it was observed.
        observed: Object,
        /// `status`, or the object itself.
        subresource: Option<&'static str>,
        /// What changes.
        patch: Value,
    },
    /// Binds a pod to a node.
    Bind {
        /// The pod as it was observed.
        pod: Object,
        /// Name of the node.
        node: String,
    },
    /// Deletes the object with this uid.
    Delete {
        /// Its kind.
        kind: Kind,
        /// The object as it was observed.
        observed: Object,
        /// Seconds that it is given, where that is not the object's own choice.
        grace: Option<u32>,
    },
    /// Tells of something that happened to an object.
    Event {
        /// Kind of the object.
        kind: Kind,
        /// The object.
        regarding: Object,
        /// Whether it is `Normal` or a `Warning`.
        of_type: &'static str,
        /// One word.
        reason: String,
        /// A sentence.
        message: String,
    },
}

/// Since when an actor has been waiting for what, for one of its keys.
pub type Waits = BTreeMap<String, Timestamp>;

/// One decision about one key.
#[derive(Debug)]
pub struct Turn<'a> {
    /// What it is about.
    pub key: &'a Key,
    /// What has been observed.
    pub caches: &'a Caches,
    /// The present time.
    pub now: Timestamp,
    /// How long things take.
    pub speed: Speed,
    faults: &'a Faults,
    seed: u64,
    waited: &'a Waits,
    refusal: Option<&'a str>,
    outcome: Outcome,
}

/// What a decision came to.
#[derive(Debug, Default)]
pub struct Outcome {
    /// What is to be written, in this order.
    pub writes: Vec<Write>,
    /// After how long the actor wants to be asked again.
    pub next: Option<Duration>,
    /// What the actor waits for, since when. A wait that was not asked for again has ended.
    pub waits: Waits,
}

impl<'a> Turn<'a> {
    /// A turn for this key.
    pub fn new(
        key: &'a Key,
        caches: &'a Caches,
        now: Timestamp,
        speed: Speed,
        faults: &'a Faults,
        rng_seed: u64,
        waited: &'a Waits,
    ) -> Self {
        Self {
            key,
            caches,
            now,
            speed,
            faults,
            seed: rng_seed,
            waited,
            refusal: None,
            outcome: Outcome::default(),
        }
    }

    /// The same turn, after the writes of the one before were refused in these words.
    #[must_use]
    pub fn after_refusal(mut self, refusal: Option<&'a str>) -> Self {
        self.refusal = refusal;
        self
    }

    /// Why the last decision about this key could not be carried out, if the API server refused it.
    pub fn refusal(&self) -> Option<&'a str> {
        self.refusal
    }

    /// What was decided.
    pub fn finish(self) -> Outcome {
        self.outcome
    }

    /// The object of a kind that the key names.
    pub fn observed(&self, kind: Kind) -> Option<Object> {
        self.caches.get(kind, self.key).map(Arc::clone)
    }

    /// The present time as `metav1.Time` is written.
    pub fn timestamp(&self) -> String {
        crate::object::seconds(self.now)
    }

    /// Whether the time that a step takes has passed since the actor began to wait for `what`. If
    /// not, it will be asked again by then.
    ///
    /// A wait begins with the first decision that asks for it and ends with the first that does
    /// not, so `what` names all that it depends on.
    pub fn waited(&mut self, what: impl Into<String>, step: Step) -> bool {
        let time = self.speed.of(step);
        self.waited_for(what, time)
    }

    /// The same for a time that does not depend on the speed.
    pub fn waited_for(&mut self, what: impl Into<String>, time: Duration) -> bool {
        let what = what.into();
        let since = *self.waited.get(&what).unwrap_or(&self.now);
        self.outcome.waits.insert(what, since);
        self.is_past(since, time)
    }

    /// Whether so much time has passed since an instant. If not, the actor will be asked again by
    /// then.
    pub fn is_past(&mut self, since: Timestamp, time: Duration) -> bool {
        let passed = elapsed(since, self.now);
        if passed >= time {
            return true;
        }
        self.again_after(time.saturating_sub(passed));
        false
    }

    /// Asks for another turn after a while, or sooner.
    pub fn again_after(&mut self, time: Duration) {
        let next = self.outcome.next.map_or(time, |next| next.min(time));
        self.outcome.next = Some(next);
    }

    /// The fault that was asked for this object, if its time has come.
    pub fn fault(&mut self, kind: Kind, object: &Value, what: &str) -> Option<Fault> {
        self.fault_where(kind, object, |fault| fault.what == what)
    }

    /// The first fault that was asked for this object and is one that is looked for, if its time has
    /// come.
    pub fn fault_where(
        &mut self,
        kind: Kind,
        object: &Value,
        is_wanted: impl Fn(&Fault) -> bool,
    ) -> Option<Fault> {
        let fault = self.faults.find_where(kind, object, is_wanted)?;
        let created =
            crate::object::time(object, "/metadata/creationTimestamp").unwrap_or(self.now);
        self.is_past(created, fault.after).then_some(fault)
    }

    /// A number that looks random: always the same for the same seed, key and name.
    pub fn random(&self, what: &str) -> u64 {
        let mut state = self.seed ^ apimachinery::random::GAMMA;
        for part in [&self.key.namespace, &self.key.name, what] {
            for byte in part.bytes().chain([0xff]) {
                state = apimachinery::random::mix(state ^ u64::from(byte));
            }
        }
        state
    }

    /// Creates an object.
    pub fn create(&mut self, kind: Kind, object: Value) {
        self.outcome.writes.push(Write::Create { kind, object });
    }

    /// Changes the status of an object by a merge patch of it.
    pub fn status(&mut self, kind: Kind, observed: &Object, status: Value) {
        self.push_patch(
            kind,
            observed,
            Some("status"),
            Value::Object([("status".to_owned(), status)].into_iter().collect()),
        );
    }

    /// Changes an object, though not its status, by a merge patch.
    pub fn patch(&mut self, kind: Kind, observed: &Object, patch: Value) {
        self.push_patch(kind, observed, None, patch);
    }

    /// Changes a subresource of an object by a merge patch of the whole.
    pub fn push_patch(
        &mut self,
        kind: Kind,
        observed: &Object,
        subresource: Option<&'static str>,
        mut patch: Value,
    ) {
        drop_idle_nulls(&mut patch, Some(observed));
        self.outcome.writes.push(Write::Patch {
            kind,
            observed: Arc::clone(observed),
            subresource,
            patch,
        });
    }

    /// Adds or removes a finalizer.
    pub fn finalizer(&mut self, kind: Kind, observed: &Object, finalizer: &str, wanted: bool) {
        let mut finalizers: Vec<Value> =
            crate::object::list(observed, "/metadata/finalizers").to_vec();
        finalizers.retain(|one| one.as_str() != Some(finalizer));
        if wanted {
            finalizers.push(finalizer.into());
        }
        let finalizers = if finalizers.is_empty() {
            Value::Null
        } else {
            finalizers.into()
        };
        self.patch(
            kind,
            observed,
            json!({"metadata": {"finalizers": finalizers}}),
        );
    }

    /// Deletes an object.
    pub fn delete(&mut self, kind: Kind, observed: &Object) {
        self.outcome.writes.push(Write::Delete {
            kind,
            observed: Arc::clone(observed),
            grace: None,
        });
    }

    /// Deletes an object and gives it so many seconds, whatever it asks for.
    pub fn delete_within(&mut self, kind: Kind, observed: &Object, grace: u32) {
        self.outcome.writes.push(Write::Delete {
            kind,
            observed: Arc::clone(observed),
            grace: Some(grace),
        });
    }

    /// Binds a pod to a node.
    pub fn bind(&mut self, pod: &Object, node: &str) {
        self.outcome.writes.push(Write::Bind {
            pod: Arc::clone(pod),
            node: node.to_owned(),
        });
    }

    /// Tells that something went as it should.
    pub fn normal(
        &mut self,
        kind: Kind,
        regarding: &Object,
        reason: &str,
        message: impl Into<String>,
    ) {
        self.push_event(kind, regarding, "Normal", reason, message.into());
    }

    /// Tells that something went wrong.
    pub fn warning(
        &mut self,
        kind: Kind,
        regarding: &Object,
        reason: &str,
        message: impl Into<String>,
    ) {
        self.push_event(kind, regarding, "Warning", reason, message.into());
    }

    fn push_event(
        &mut self,
        kind: Kind,
        regarding: &Object,
        of_type: &'static str,
        reason: &str,
        message: String,
    ) {
        self.outcome.writes.push(Write::Event {
            kind,
            regarding: Arc::clone(regarding),
            of_type,
            reason: reason.to_owned(),
            message,
        });
    }
}

/// What an event or another object refers to an object by.
pub fn reference(kind: Kind, object: &Value) -> Value {
    let mut reference = json!({
        "apiVersion": kind.api_version(),
        "kind": kind.kind,
        "name": name(object),
        "uid": uid(object),
        "resourceVersion": text(object, "/metadata/resourceVersion"),
    });
    if kind.namespaced {
        reference["namespace"] = namespace(object).into();
    }
    reference
}
