//! The interface of actors: what a reconcile gets and what it returns.
//!
//! [`Actor::reconcile`] is a pure function of a key, the caches, the time, the faults, and the start
//! times of the actor's waits. It returns writes and a requeue delay. The control loop executes the
//! writes in order, leaves out those that would change nothing, and reconciles again when an object
//! that the actor watches changes.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    Caches, Kind, Speed, Step,
    clock::elapsed,
    faults::{Fault, Faults},
    object::{Key, Object, drop_idle_nulls, name, namespace, text, uid},
};

/// Annotation of a claim: the node that the scheduler chose for its volume.
pub(crate) const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// A controller, as a pure function.
pub trait Actor: Send + Sync {
    /// Field manager of its writes and source of its Events.
    fn name(&self) -> &'static str;

    /// Kinds whose watch events it needs.
    fn watches(&self) -> &[Kind];

    /// Keys that a changed object affects. Called with the object before and after the change.
    fn keys(&self, kind: Kind, object: &Value, caches: &Caches) -> Vec<Key>;

    /// Keys to reconcile once at the start, whether or not their objects exist.
    fn initial_keys(&self) -> Vec<Key> {
        Vec::new()
    }

    /// Whether keys are reconciled one after another, so that each reconcile observes the writes of
    /// the one before.
    fn is_serial(&self) -> bool {
        false
    }

    fn reconcile(&self, ctx: &mut Context<'_>);
}

#[derive(Clone, Debug, PartialEq)]
pub enum Write {
    /// Creates an object, unless it exists.
    Create {
        kind: Kind,
        /// Without `apiVersion` and `kind`.
        object: Value,
    },
    /// Merge patch with the observed resource version, so that it conflicts with other changes.
    Patch {
        kind: Kind,
        observed: Object,
        /// `status`, or none for the object itself.
        subresource: Option<&'static str>,
        patch: Value,
    },
    Bind {
        pod: Object,
        node: String,
    },
    /// Deletes the object with the observed UID.
    Delete {
        kind: Kind,
        observed: Object,
        /// Grace period in seconds; the object's own if absent.
        grace: Option<u32>,
    },
    /// Records a Kubernetes Event.
    Event {
        kind: Kind,
        regarding: Object,
        /// `Normal` or `Warning`.
        of_type: &'static str,
        reason: String,
        message: String,
    },
}

/// Start times of an actor's waits for one key, by name of the wait.
pub type Waits = BTreeMap<String, Timestamp>;

/// One reconcile of one key: its inputs, and the writes so far.
#[derive(Debug)]
pub struct Context<'a> {
    pub key: &'a Key,
    pub caches: &'a Caches,
    pub now: Timestamp,
    pub speed: Speed,
    faults: &'a Faults,
    seed: u64,
    waited: &'a Waits,
    refusal: Option<&'a str>,
    result: ReconcileResult,
}

#[derive(Debug, Default)]
pub struct ReconcileResult {
    /// In the order in which they are executed.
    pub writes: Vec<Write>,
    pub requeue_after: Option<Duration>,
    /// Waits that this reconcile asked for; all others have ended.
    pub waits: Waits,
}

impl<'a> Context<'a> {
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
            result: ReconcileResult::default(),
        }
    }

    /// Sets the API server's message if it refused a write of the previous reconcile.
    #[must_use]
    pub fn after_refusal(mut self, refusal: Option<&'a str>) -> Self {
        self.refusal = refusal;
        self
    }

    /// The API server's message if it refused a write of the previous reconcile of this key.
    pub fn refusal(&self) -> Option<&'a str> {
        self.refusal
    }

    pub fn finish(self) -> ReconcileResult {
        self.result
    }

    /// The object of a kind under the reconciled key.
    pub fn observed(&self, kind: Kind) -> Option<Object> {
        self.caches.get(kind, self.key).map(Arc::clone)
    }

    /// Now, in the format of `metav1.Time`.
    pub fn timestamp(&self) -> String {
        crate::object::seconds(self.now)
    }

    /// Whether a step's time has passed since the actor began to wait for `what`. If not, the key is
    /// requeued for that time.
    ///
    /// A wait begins with the first reconcile that asks for it and ends with the first that does not,
    /// so `what` must name everything that the wait depends on.
    pub fn waited(&mut self, what: impl Into<String>, step: Step) -> bool {
        let time = self.speed.of(step);
        self.waited_for(what, time)
    }

    /// As [`Self::waited`], for a time that does not depend on the speed.
    pub fn waited_for(&mut self, what: impl Into<String>, time: Duration) -> bool {
        let what = what.into();
        let since = *self.waited.get(&what).unwrap_or(&self.now);
        self.result.waits.insert(what, since);
        self.has_elapsed(since, time)
    }

    /// Whether `time` has passed since an instant. If not, the key is requeued for that time.
    pub fn has_elapsed(&mut self, since: Timestamp, time: Duration) -> bool {
        let passed = elapsed(since, self.now);
        if passed >= time {
            return true;
        }
        self.requeue_after(time.saturating_sub(passed));
        false
    }

    /// Requeues the key after this time, or sooner if it is already to be requeued sooner.
    pub fn requeue_after(&mut self, time: Duration) {
        let earlier = self.result.requeue_after.unwrap_or(time);
        self.result.requeue_after = Some(earlier.min(time));
    }

    /// A fault of this object, once it is due. If it is not, the key is requeued for that time.
    pub fn fault(&mut self, kind: Kind, object: &Value, what: &str) -> Option<Fault> {
        self.fault_where(kind, object, |fault| fault.what == what)
    }

    /// As [`Self::fault`], for the first fault that satisfies a predicate.
    pub fn fault_where(
        &mut self,
        kind: Kind,
        object: &Value,
        predicate: impl Fn(&Fault) -> bool,
    ) -> Option<Fault> {
        let fault = self.faults.find_where(kind, object, predicate)?;
        let created =
            crate::object::time(object, "/metadata/creationTimestamp").unwrap_or(self.now);
        self.has_elapsed(created, fault.after).then_some(fault)
    }

    /// Pseudo-random number: a function of the seed, the key and `what`.
    pub fn random(&self, what: &str) -> u64 {
        let mut state = self.seed ^ apimachinery::random::GAMMA;
        for part in [&self.key.namespace, &self.key.name, what] {
            for byte in part.bytes().chain([0xff]) {
                state = apimachinery::random::mix(state ^ u64::from(byte));
            }
        }
        state
    }

    pub fn create(&mut self, kind: Kind, object: Value) {
        self.result.writes.push(Write::Create { kind, object });
    }

    /// Merge-patches the status.
    pub fn status(&mut self, kind: Kind, observed: &Object, status: Value) {
        self.push_patch(
            kind,
            observed,
            Some("status"),
            Value::Object([("status".to_owned(), status)].into_iter().collect()),
        );
    }

    /// Merge-patches an object without its status.
    pub fn patch(&mut self, kind: Kind, observed: &Object, patch: Value) {
        self.push_patch(kind, observed, None, patch);
    }

    /// Merge-patches a subresource; the patch is one of the whole object.
    pub fn push_patch(
        &mut self,
        kind: Kind,
        observed: &Object,
        subresource: Option<&'static str>,
        mut patch: Value,
    ) {
        drop_idle_nulls(&mut patch, Some(observed));
        self.result.writes.push(Write::Patch {
            kind,
            observed: Arc::clone(observed),
            subresource,
            patch,
        });
    }

    /// Adds the finalizer if `wanted`, otherwise removes it.
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

    pub fn delete(&mut self, kind: Kind, observed: &Object) {
        self.result.writes.push(Write::Delete {
            kind,
            observed: Arc::clone(observed),
            grace: None,
        });
    }

    /// Deletes an object with this grace period in seconds instead of its own.
    pub fn delete_within(&mut self, kind: Kind, observed: &Object, grace: u32) {
        self.result.writes.push(Write::Delete {
            kind,
            observed: Arc::clone(observed),
            grace: Some(grace),
        });
    }

    pub fn bind(&mut self, pod: &Object, node: &str) {
        self.result.writes.push(Write::Bind {
            pod: Arc::clone(pod),
            node: node.to_owned(),
        });
    }

    /// Records an Event of type `Normal`.
    pub fn normal(
        &mut self,
        kind: Kind,
        regarding: &Object,
        reason: &str,
        message: impl Into<String>,
    ) {
        self.push_event(kind, regarding, "Normal", reason, message.into());
    }

    /// Records an Event of type `Warning`.
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
        self.result.writes.push(Write::Event {
            kind,
            regarding: Arc::clone(regarding),
            of_type,
            reason: reason.to_owned(),
            message,
        });
    }
}

/// Object reference, as in an Event's `involvedObject`.
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
