//! Simulated cluster: an API server that executes steps.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
    sync::Arc,
};

use api::{Time, kubevirt::install::KubeVirt};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use plan::certificates::{BundleCertificate, Issue, Pair, SecretChange};
use plan::kubevirt::{
    Action, Id, Live, Object, Observed, Operator, Plan, PlanCaches, Step, Strategy,
    observed::{Count, Memory, Node, OtherKubeVirt, Pod, Refusal, Served, WriteError},
    plan,
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
    pub(crate) kubevirt: KubeVirt,
    /// Whether the KubeVirt resource exists.
    pub(crate) exists: bool,
    pub(crate) others: Vec<OtherKubeVirt>,
    pub(crate) operator: Operator,
    pub(crate) strategies: BTreeMap<String, Arc<Strategy>>,
    pub(crate) unreadable: BTreeMap<String, String>,
    pub(crate) objects: BTreeMap<Id, Value>,
    /// The last applied value of each object.
    pub(crate) applied: BTreeMap<Id, Value>,
    pub(crate) pods: Vec<Pod>,
    pub(crate) nodes: Vec<Node>,
    pub(crate) served: Served,
    pub(crate) pairs: BTreeMap<String, Pair>,
    pub(crate) certificates: Vec<BundleCertificate>,
    pub(crate) counts: BTreeMap<String, Count>,
    pub(crate) customs: BTreeMap<String, Vec<Custom>>,
    pub(crate) memory: Memory,
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
    pub(crate) writes: u64,
    pub(crate) status_writes: usize,
}

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
        let mut world = Self {
            kubevirt,
            exists: true,
            others: Vec::new(),
            operator: Operator {
                namespace: NAMESPACE.to_owned(),
                version: "1.0.0".to_owned(),
                ..Operator::default()
            },
            strategies: BTreeMap::new(),
            unreadable: BTreeMap::new(),
            objects: BTreeMap::new(),
            applied: BTreeMap::new(),
            pods: Vec::new(),
            nodes: (0..nodes).map(node).collect(),
            served: Served::default(),
            pairs: BTreeMap::new(),
            certificates: Vec::new(),
            counts: BTreeMap::new(),
            customs: BTreeMap::new(),
            memory: Memory::default(),
            caches: Rc::default(),
            now,
            broken: BTreeSet::new(),
            unwritable: BTreeSet::new(),
            extra: Vec::new(),
            journal: Vec::new(),
            writes: 0,
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

    /// Somebody deletes the resource.
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
        self.exists = metadata.deletion_timestamp.is_none() || has_finalizers;
    }

    pub(crate) fn advance_time(&mut self, seconds: i64) {
        self.now += SignedDuration::from_secs(seconds);
    }

    pub(crate) fn plan(&self) -> Plan {
        let mut caches = self.caches.borrow_mut();
        self.observed(|observed| plan(observed, &time(self.now), &mut caches))
    }

    pub(crate) fn observed<T>(&self, observe: impl FnOnce(&Observed<'_>) -> T) -> T {
        let objects: BTreeMap<Id, Live> = self
            .objects
            .iter()
            .map(|(id, value)| {
                let api = value["apiVersion"].as_str().unwrap();
                let version = api.rsplit('/').next().unwrap();
                let live = Live::new(&id.group, version, &id.kind, value.clone()).unwrap();
                (id.clone(), live)
            })
            .collect();
        let bundles: BTreeMap<String, Vec<BundleCertificate>> = self
            .objects
            .iter()
            .filter(|(id, _)| id.is("", "ConfigMap"))
            .map(|(id, value)| {
                let text = value["data"]["ca-bundle"].as_str().unwrap_or_default();
                let known = self.certificates.iter();
                let known = known.filter(|known| text.contains(known.certificate.trim()));
                (id.name.to_string(), known.cloned().collect())
            })
            .collect();
        observe(&Observed {
            kubevirt: &self.kubevirt,
            others: &self.others,
            operator: &self.operator,
            strategies: &self.strategies,
            unreadable: &self.unreadable,
            objects: &objects,
            pods: &self.pods,
            nodes: &self.nodes,
            served: &self.served,
            pairs: &self.pairs,
            bundles: &bundles,
            counts: &self.counts,
            memory: &self.memory,
        })
    }

    /// Creates an object, as others do.
    pub(crate) fn store(&mut self, mut value: Value) -> Id {
        let id = Object::new(&value).unwrap().id;
        self.writes += 1;
        let metadata = &mut value["metadata"];
        if metadata["uid"].is_null() {
            metadata["uid"] = format!("uid-{}", self.writes).into();
        }
        metadata["resourceVersion"] = self.writes.to_string().into();
        metadata["creationTimestamp"] = self.now.to_string().into();
        if metadata["generation"].is_null() {
            metadata["generation"] = 1.into();
        }
        self.objects.insert(id.clone(), value);
        id
    }

    /// Changes an object, as others do; its generation follows its spec.
    pub(crate) fn change(&mut self, id: &Id, change: impl FnOnce(&mut Value)) {
        self.writes += 1;
        let value = self.objects.get_mut(id).unwrap();
        let spec = value["spec"].clone();
        change(value);
        if value["spec"] != spec {
            let generation = value["metadata"]["generation"].as_i64().unwrap_or_default();
            value["metadata"]["generation"] = (generation + 1).into();
        }
        value["metadata"]["resourceVersion"] = self.writes.to_string().into();
        self.collect(id);
    }

    /// Deletes an object, as others do.
    pub(crate) fn remove(&mut self, id: &Id) {
        let now = self.now.to_string();
        if let Some(value) = self.objects.get_mut(id) {
            if value["metadata"]["deletionTimestamp"].is_null() {
                value["metadata"]["deletionTimestamp"] = now.into();
            }
            if id.is("apiextensions.k8s.io", "CustomResourceDefinition") {
                for custom in self.customs.entry(id.name.to_string()).or_default() {
                    custom.deleting = true;
                }
            }
        }
        self.collect(id);
    }

    /// Removes an object that is being deleted and has no finalizers.
    pub(crate) fn collect(&mut self, id: &Id) {
        let Some(value) = self.objects.get(id) else {
            return;
        };
        let finalizers = value["metadata"]["finalizers"].as_array();
        let has_finalizers = finalizers.is_some_and(|all| !all.is_empty());
        let customs = self
            .customs
            .get(&*id.name)
            .is_some_and(|all| !all.is_empty());
        if !value["metadata"]["deletionTimestamp"].is_null() && !has_finalizers && !customs {
            self.objects.remove(id);
            self.applied.remove(id);
            if id.is("", "Secret") {
                self.pairs.remove(&*id.name);
            }
        }
    }

    pub(crate) fn execute(&mut self, step: &Step) {
        self.journal.push(describe(step));
        match &step.action {
            Action::Finalizers(finalizers) => {
                self.kubevirt.metadata.finalizers = Some(finalizers.clone());
                self.collect_resource();
            }
            Action::Annotate(annotations) => {
                let all = self.kubevirt.metadata.annotations.get_or_insert_default();
                for (name, value) in annotations {
                    match value {
                        Some(value) => all.insert((*name).to_owned(), value.clone()),
                        None => all.remove(*name),
                    };
                }
            }
            Action::Create(object) => {
                assert!(
                    !self.objects.contains_key(&object.id),
                    "{} exists",
                    object.id
                );
                self.store(object.value());
            }
            Action::Apply { object, existing } => {
                let found = self.objects.get(&object.id);
                let uid = found.map(|found| found["metadata"]["uid"].as_str().unwrap());
                let expected = existing.as_ref().map(|existing| existing.uid.as_str());
                assert_eq!(uid, expected, "{}", object.id);
                self.apply(object);
            }
            Action::Issue {
                issue,
                existing,
                labels,
                annotations,
            } => {
                let id = Id::new("", "Secret", NAMESPACE, &issue.secret);
                let found = self.objects.get(&id);
                let uid = found.map(|found| found["metadata"]["uid"].as_str().unwrap());
                let expected = existing.as_ref().map(|existing| existing.uid.as_str());
                assert_eq!(uid, expected, "{id}");
                self.issue(issue, labels, annotations);
            }
            Action::Patch { id, patch, .. } => self.patch(id, patch),
            Action::Delete { id, uid, .. } => {
                assert_eq!(self.objects[id]["metadata"]["uid"], **uid, "{id}");
                self.remove(id);
            }
            Action::DeleteAll { definition } => {
                self.counts.remove(definition);
                for custom in self.customs.entry(definition.clone()).or_default() {
                    custom.deleting = true;
                }
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
            }
        }
    }

    fn apply(&mut self, object: &Object) {
        let wanted = object.value();
        let mut value = self.objects.get(&object.id).cloned().unwrap_or_default();
        if let Some(before) = self.applied.get(&object.id) {
            drop_fields(&mut value, before, &wanted);
        }
        merge_fields(&mut value, &wanted);
        default(&mut value);
        if self.objects.contains_key(&object.id) {
            self.change(&object.id, |live| *live = value);
        } else {
            self.store(value);
        }
        self.applied.insert(object.id.clone(), wanted);
        if let Some(value) = self.objects.get(&object.id) {
            let live = Live::new(
                &object.id.group,
                &object.version,
                &object.id.kind,
                value.clone(),
            );
            let applied = (object.fingerprint, live.unwrap().fingerprint);
            self.memory.applied.insert(object.id.clone(), applied);
        }
    }

    fn patch(&mut self, id: &Id, patch: &Value) {
        if id.is("", "Node") {
            let node = self.nodes.iter_mut().find(|node| *node.name == *id.name);
            let labels = patch["metadata"]["labels"].as_object().unwrap();
            node.unwrap()
                .labels
                .retain(|label, _| !labels.contains_key(label));
            return;
        }
        let version = &patch["metadata"]["resourceVersion"];
        if !version.is_null() {
            assert_eq!(
                &self.objects[id]["metadata"]["resourceVersion"], version,
                "{id}"
            );
        }
        self.change(id, |live| merge_fields(live, patch));
    }

    fn issue(
        &mut self,
        issue: &Issue,
        labels: &BTreeMap<String, String>,
        annotations: &BTreeMap<String, String>,
    ) {
        let name = issue.secret.clone();
        self.writes += 1;
        let certificate = format!("-----{name} {}-----", self.writes);
        let signer = match &issue.change {
            SecretChange::New(new) => new.signer.as_ref().map(|signer| &self.pairs[signer]),
            SecretChange::Published(_) | SecretChange::Promote(_) => None,
        };
        let pair = issue.simulate(self.pairs.get(&name), signer, &certificate);
        let pair = pair.unwrap();
        let newest = pair.newest();
        self.certificates.push(BundleCertificate {
            certificate: newest.certificate.clone(),
            not_before: newest.not_before.clone(),
            not_after: newest.not_after.clone(),
        });
        self.pairs.insert(name.clone(), pair);
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {
                "name": name, "namespace": NAMESPACE, "labels": labels, "annotations": annotations,
            },
        });
        self.store(secret);
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

    pub(crate) fn live_object(&self, kind: &str, name: &str) -> Option<&Value> {
        let found = self
            .objects
            .iter()
            .find(|(id, _)| &*id.kind == kind && &*id.name == name);
        found.map(|(_, value)| value)
    }

    pub(crate) fn id(&self, kind: &str, name: &str) -> Id {
        let found = self
            .objects
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
        let objects = self.objects.iter().map(|(id, value)| {
            let mut value = value.clone();
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

/// Removes fields that were applied before and are no longer.
fn drop_fields(value: &mut Value, before: &Value, wanted: &Value) {
    let (Some(fields), Some(before)) = (value.as_object_mut(), before.as_object()) else {
        return;
    };
    for (name, before) in before {
        match wanted.get(name) {
            None => {
                fields.remove(name);
            }
            Some(wanted) => {
                if let Some(value) = fields.get_mut(name) {
                    drop_fields(value, before, wanted);
                }
            }
        }
    }
}

fn merge_fields(value: &mut Value, wanted: &Value) {
    match (value, wanted) {
        (Value::Object(fields), Value::Object(wanted)) => {
            for (name, wanted) in wanted {
                if wanted.is_null() {
                    fields.remove(name);
                } else {
                    merge_fields(fields.entry(name.clone()).or_insert(Value::Null), wanted);
                }
            }
        }
        (value, wanted) => *value = wanted.clone(),
    }
}

/// Adds the API server's defaults.
fn default(value: &mut Value) {
    match value["kind"].as_str().unwrap() {
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
