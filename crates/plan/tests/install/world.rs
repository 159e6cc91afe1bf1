//! Simulated cluster that executes steps, with defects of the cluster and of users.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    ops::{Deref, DerefMut},
    rc::Rc,
};

use api::Time;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use plan::kubevirt::{
    Action, Existing, Id, Object, Observed, Operator, Plan, PlanCaches, Step,
    observed::{Count, Memory, Node, Refusal, Served, WriteError},
    plan,
    simulation::Simulation,
};
use serde_json::{Value, json};

use crate::release::{NAMESPACE, REGISTRY};

pub(crate) const START: i64 = 1_767_225_600;

/// An object of one of KubeVirt's own kinds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Custom {
    pub(crate) name: String,
    pub(crate) deleting: bool,
    /// Whether its finalizer is never removed.
    pub(crate) stuck: bool,
}

#[derive(Clone)]
pub(crate) struct World {
    simulation: Simulation,
    pub(crate) customs: BTreeMap<String, Vec<Custom>>,
    caches: Rc<RefCell<PlanCaches>>,
    pub(crate) now: Timestamp,
    /// Versions whose components crash.
    pub(crate) broken: BTreeSet<String>,
    /// Versions whose strategy Job fails.
    pub(crate) unwritable: BTreeSet<String>,
    /// Further objects of all strategies.
    pub(crate) extra: Vec<Object>,
    /// Executed writes in order.
    pub(crate) journal: Vec<String>,
    /// Number of created pods.
    pub(crate) created_pods: u64,
    pub(crate) status_writes: usize,
}

impl Deref for World {
    type Target = Simulation;

    fn deref(&self) -> &Simulation {
        &self.simulation
    }
}

impl DerefMut for World {
    fn deref_mut(&mut self) -> &mut Simulation {
        &mut self.simulation
    }
}

/// Finalizer of a definition whose objects exist.
const CUSTOMS_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

pub(crate) fn time(at: Timestamp) -> Time {
    Time(at)
}

impl World {
    /// A cluster with that many nodes and a KubeVirt resource of a version.
    pub(crate) fn new(version: &str, nodes: usize) -> Self {
        let now = Timestamp::from_second(START).unwrap();
        let kubevirt = serde_json::from_value(json!({
            "apiVersion": "kubevirt.io/v1", "kind": "KubeVirt",
            "metadata": {
                "name": "kubevirt", "namespace": NAMESPACE, "uid": "kubevirt-1", "generation": 1,
                "creationTimestamp": now.to_string(),
            },
            "spec": {"imageTag": version, "imageRegistry": REGISTRY},
        }))
        .unwrap();
        let node = |number: usize| Node {
            name: format!("node-{number:02}"),
            labels: BTreeMap::from([
                ("kubevirt.io/schedulable".to_owned(), "true".to_owned()),
                ("kubernetes.io/os".to_owned(), "linux".to_owned()),
            ]),
            ready: true,
            architecture: "amd64".to_owned(),
            ..Node::default()
        };
        let operator = Operator {
            namespace: NAMESPACE.to_owned(),
            version: "1.0.0".to_owned(),
            ..Operator::default()
        };
        let nodes: Vec<Node> = (0..nodes).map(node).collect();
        let simulation = Simulation::of(&Observed {
            kubevirt: &kubevirt,
            others: &[],
            operator: &operator,
            strategies: &BTreeMap::new(),
            unreadable: &BTreeMap::new(),
            objects: &BTreeMap::new(),
            pods: &[],
            nodes: &nodes,
            served: &Served::default(),
            pairs: &BTreeMap::new(),
            bundles: &BTreeMap::new(),
            counts: &BTreeMap::new(),
            memory: &Memory::default(),
        });
        let mut world = Self {
            simulation: simulation.with_defaults(default),
            customs: BTreeMap::new(),
            caches: Rc::default(),
            now,
            broken: BTreeSet::new(),
            unwritable: BTreeSet::new(),
            extra: Vec::new(),
            journal: Vec::new(),
            created_pods: 0,
            status_writes: 0,
        };
        world.store(json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE},
        }));
        world
    }

    /// Changes the requested version.
    pub(crate) fn request(&mut self, version: &str) {
        self.kubevirt.spec.image_tag = Some(version.to_owned());
        self.increment_generation();
    }

    pub(crate) fn increment_generation(&mut self) {
        let generation = self.kubevirt.metadata.generation.get_or_insert_default();
        *generation += 1;
    }

    pub(crate) fn annotate(&mut self, name: &str, value: &str) {
        let annotations = self.kubevirt.metadata.annotations.get_or_insert_default();
        annotations.insert(name.to_owned(), value.to_owned());
    }

    pub(crate) fn annotation(&self, name: &str) -> Option<&str> {
        let annotations = self.kubevirt.metadata.annotations.as_ref()?;
        annotations.get(name).map(String::as_str)
    }

    /// Someone deletes the resource.
    pub(crate) fn delete_resource(&mut self) {
        self.kubevirt.metadata.deletion_timestamp = Some(time(self.now));
        self.collect_resource();
    }

    fn collect_resource(&mut self) {
        let metadata = &self.kubevirt.metadata;
        let has_finalizers = metadata
            .finalizers
            .as_ref()
            .is_some_and(|all| !all.is_empty());
        self.simulation.exists = metadata.deletion_timestamp.is_none() || has_finalizers;
    }

    pub(crate) fn advance_time(&mut self, seconds: i64) {
        self.now += SignedDuration::from_secs(seconds);
    }

    pub(crate) fn plan(&self) -> Plan {
        let mut caches = self.caches.borrow_mut();
        self.observed(|observed| plan(observed, &time(self.now), &mut caches))
    }

    /// Creates an object, as others do.
    pub(crate) fn store(&mut self, value: Value) -> Id {
        self.simulation.create(value, &time(self.now)).unwrap().id
    }

    /// Changes an object, as others do; its generation follows its spec.
    pub(crate) fn change(&mut self, id: &Id, change: impl FnOnce(&mut Value)) {
        self.simulation.update(id, change).unwrap();
    }

    /// Deletes an object, as others do.
    pub(crate) fn remove(&mut self, id: &Id) {
        if !self.objects().contains_key(id) {
            return;
        }
        if id.is("apiextensions.k8s.io", "CustomResourceDefinition") {
            let customs = self.customs.entry(id.name.to_string()).or_default();
            for custom in customs.iter_mut() {
                custom.deleting = true;
            }
            if !customs.is_empty() {
                self.change(id, |definition| {
                    add_finalizer(definition, CUSTOMS_FINALIZER);
                });
            }
        }
        let now = time(self.now);
        self.simulation.delete(id, None, &now, |_| false).unwrap();
    }

    /// Removes the finalizer of a definition without objects.
    pub(crate) fn release(&mut self, id: &Id) {
        self.change(id, |definition| {
            if let Some(finalizers) = definition["metadata"]["finalizers"].as_array_mut() {
                finalizers.retain(|name| name != CUSTOMS_FINALIZER);
            }
        });
    }

    pub(crate) fn value(&self, id: &Id) -> Value {
        self.objects()[id].value()
    }

    fn check_existing(&self, id: &Id, existing: Option<&Existing>) {
        let uid = self.objects().get(id).map(|found| &*found.uid);
        assert_eq!(uid, existing.map(|existing| &*existing.uid), "{id}");
    }

    pub(crate) fn execute(&mut self, step: &Step) {
        self.journal.push(describe(step));
        match &step.action {
            Action::Apply { object, existing } => {
                self.check_existing(&object.id, existing.as_ref());
            }
            Action::Issue {
                issue, existing, ..
            } => {
                let id = Id::new("", "Secret", NAMESPACE, &issue.secret);
                self.check_existing(&id, existing.as_ref());
            }
            Action::Delete { id, uid, .. } => {
                assert_eq!(*self.objects()[id].uid, **uid, "{id}");
                self.remove(id);
                return;
            }
            Action::DeleteAll { definition } => {
                self.counts.remove(definition);
                for custom in self.customs.entry(definition.clone()).or_default() {
                    custom.deleting = true;
                }
                return;
            }
            Action::Count { definition } => {
                let customs = self.customs.get(definition).cloned().unwrap_or_default();
                let count = Count {
                    objects: customs.len(),
                    names: customs.iter().map(|custom| custom.name.clone()).collect(),
                    deleting: customs.iter().all(|custom| custom.deleting),
                    finalizers: BTreeSet::from(["kubevirt.io/holds".to_owned()]),
                    at: time(self.now),
                };
                self.counts.insert(definition.clone(), count);
                return;
            }
            _ => {}
        }
        let executed = self.simulation.execute(step, &time(self.now));
        executed.unwrap_or_else(|error| panic!("{}: {error:?}", describe(step)));
    }

    /// Makes the API server refuse writes of an object.
    pub(crate) fn refuse(&mut self, id: &Id, message: &str) {
        let refusal = Refusal {
            message: message.to_owned(),
            error: WriteError::Status(403),
            since: time(self.now),
            fingerprint: None,
        };
        let retry_at = time(self.now + SignedDuration::from_secs(60));
        let refusals = &mut self.memory.refusals;
        refusals.fail(id.clone(), refusal, |_| retry_at);
    }

    /// Makes the API server refuse a step.
    pub(crate) fn refuse_step(&mut self, step: &Step, message: &str) {
        let kubevirt = Id::new("kubevirt.io", "KubeVirt", NAMESPACE, "kubevirt");
        let subject = step.action.subject(&kubevirt);
        self.refuse(&subject, message);
        if let Some(refusal) = self.memory.refusals.get_mut(&subject) {
            refusal.reason.fingerprint = step.action.fingerprint();
        }
    }

    /// Plans, executes the plan and runs the controllers once. Returns whether anything changed.
    pub(crate) fn round(&mut self) -> bool {
        self.round_with(|_, _| {})
    }

    pub(crate) fn round_with(&mut self, mut before: impl FnMut(&Self, &Plan)) -> bool {
        if !self.exists {
            return false;
        }
        let plan = self.plan();
        before(self, &plan);
        for step in &plan.steps {
            self.execute(step);
        }
        let has_written = !plan.steps.is_empty() || plan.status.is_some();
        if let Some(status) = plan.status {
            self.kubevirt.status = Some(status);
            self.status_writes += 1;
        }
        let has_changed = self.run_controllers();
        self.advance_time(1);
        has_written || has_changed
    }

    /// Runs rounds until nothing changes. Time advances while a stage waits.
    pub(crate) fn run(&mut self) -> Option<usize> {
        self.run_with(|_, _| {})
    }

    pub(crate) fn run_with(&mut self, mut before: impl FnMut(&Self, &Plan)) -> Option<usize> {
        for round in 0..ROUNDS {
            if !self.round_with(&mut before) {
                if !self.exists {
                    return Some(round);
                }
                let plan = self.plan();
                match plan.requeue_at {
                    Some(requeue_at)
                        if !plan.waits.is_empty() && !plan.stalled && requeue_at.0 > self.now =>
                    {
                        self.now = requeue_at.0;
                    }
                    _ => return Some(round),
                }
            }
        }
        None
    }

    pub(crate) fn live_object(&self, kind: &str, name: &str) -> Option<Value> {
        let mut objects = self.objects().iter();
        let found = objects.find(|(id, _)| &*id.kind == kind && &*id.name == name);
        found.map(|(_, live)| live.value())
    }

    pub(crate) fn id(&self, kind: &str, name: &str) -> Id {
        let found = self
            .objects()
            .keys()
            .find(|id| &*id.kind == kind && &*id.name == name);
        found.unwrap_or_else(|| panic!("no {kind} {name}")).clone()
    }

    pub(crate) fn condition(&self, type_: &str) -> (String, String, String) {
        let conditions = self
            .kubevirt
            .status
            .as_ref()
            .and_then(|status| status.conditions.clone());
        let condition = conditions
            .into_iter()
            .flatten()
            .find(|condition| condition.type_ == type_);
        condition.map_or_else(Default::default, |condition| {
            let text = |text: Option<String>| text.unwrap_or_default();
            (
                condition.status,
                text(condition.reason),
                text(condition.message),
            )
        })
    }

    /// Index of a write in the journal.
    pub(crate) fn index_of(&self, what: &str) -> Option<usize> {
        self.journal
            .iter()
            .position(|entry| entry.starts_with(what))
    }

    /// The end state, without fields that differ in each run.
    pub(crate) fn end_state(&self) -> Value {
        let objects = self.objects().iter().map(|(id, live)| {
            let mut value = live.value();
            for field in ["uid", "resourceVersion", "creationTimestamp", "generation"] {
                value["metadata"].as_object_mut().unwrap().remove(field);
            }
            let fields = value.as_object_mut().unwrap();
            fields.remove("status");
            // Certificates differ in each run.
            fields.remove("data");
            if id.is("apiregistration.k8s.io", "APIService") {
                value["spec"].as_object_mut().unwrap().remove("caBundle");
            }
            if let Some(webhooks) = value.get_mut("webhooks").and_then(Value::as_array_mut) {
                for webhook in webhooks {
                    webhook["clientConfig"]
                        .as_object_mut()
                        .unwrap()
                        .remove("caBundle");
                }
            }
            (id.to_string(), value)
        });
        let objects: serde_json::Map<String, Value> = objects.collect();
        let status = self.kubevirt.status.as_ref();
        json!({
            "exists": self.exists,
            "phase": status.and_then(|status| status.phase),
            "observed": status.and_then(|status| status.observed_deployment_id.clone()),
            "objects": objects,
            "finalizers": self.kubevirt.metadata.finalizers,
        })
    }
}

/// Upper bound of rounds until nothing changes.
pub(crate) const ROUNDS: usize = 400;

/// Short description of a write.
pub(crate) fn describe(step: &Step) -> String {
    match &step.action {
        Action::Finalizers(_) => "finalizers".to_owned(),
        Action::Annotate(_) => "annotate".to_owned(),
        Action::Create(object) => format!("create {}", object.id),
        Action::Apply { object, .. } => format!("apply {}", object.id),
        Action::Issue { issue, .. } => format!("issue {}", issue.secret),
        Action::Patch { id, .. } => format!("patch {id}"),
        Action::Delete { id, .. } => format!("delete {id}"),
        Action::DeleteAll { definition } => format!("delete all {definition}"),
        Action::Count { definition } => format!("count {definition}"),
    }
}

fn add_finalizer(object: &mut Value, finalizer: &str) {
    let finalizers = &mut object["metadata"]["finalizers"];
    if finalizers.is_null() {
        *finalizers = json!([]);
    }
    let finalizers = finalizers.as_array_mut().unwrap();
    if !finalizers.contains(&finalizer.into()) {
        finalizers.push(finalizer.into());
    }
}

/// Adds the API server's defaults.
fn default(value: &mut Value) {
    match value["kind"].as_str().unwrap_or_default() {
        "Deployment" => add_defaults(
            &mut value["spec"],
            &json!({
                "progressDeadlineSeconds": 600, "revisionHistoryLimit": 10,
                "template": {"spec": {"restartPolicy": "Always", "securityContext": {}}},
            }),
        ),
        "Service" => add_defaults(
            &mut value["spec"],
            &json!({
                "clusterIP": "10.0.0.1", "sessionAffinity": "None",
            }),
        ),
        "CustomResourceDefinition" => {
            add_defaults(
                &mut value["spec"],
                &json!({"conversion": {"strategy": "None"}}),
            );
        }
        _ => {}
    }
    if let Some(webhooks) = value.get_mut("webhooks").and_then(Value::as_array_mut) {
        for webhook in webhooks {
            add_defaults(webhook, &json!({"timeoutSeconds": 10}));
            for rule in webhook["rules"].as_array_mut().unwrap() {
                add_defaults(rule, &json!({"scope": "*"}));
            }
        }
    }
}

fn add_defaults(value: &mut Value, defaults: &Value) {
    if let (Value::Object(fields), Value::Object(defaults)) = (value, defaults) {
        for (name, default) in defaults {
            match fields.get_mut(name) {
                Some(field) => add_defaults(field, default),
                None => {
                    fields.insert(name.clone(), default.clone());
                }
            }
        }
    }
}
