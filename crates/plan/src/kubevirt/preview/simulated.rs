//! Copy of the observed state on which writes are executed.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use api::{Time, kubevirt::install::KubeVirt};
use k8s_openapi::jiff::SignedDuration;
use serde_json::{Value, json};

use super::{
    Verb,
    journal::{Journal, ObjectWrite},
};
use crate::{
    certificates::{self, BundleCertificate, Issue, Pair},
    kubevirt::{
        action::{Action, Plan, Step},
        certificates::BUNDLE,
        object::{Id, Live, Object},
        observed::{Count, Memory, Node, Observed, OtherKubeVirt, Pod, Served},
        stages::{is_definition, later},
        strategy::Strategy,
        target::Operator,
        tree,
    },
    preview::{Change, overlay},
};

/// Finalizers that the API server and its controllers remove.
const OWN_FINALIZERS: [&str; 3] = [
    "customresourcecleanup.apiextensions.k8s.io",
    "foregroundDeletion",
    "orphan",
];

pub(super) struct Simulated<'a> {
    pub(super) kubevirt: KubeVirt,
    /// Whether the KubeVirt resource exists.
    pub(super) exists: bool,
    pub(super) objects: BTreeMap<Id, Live>,
    pub(super) pods: Vec<Pod>,
    pub(super) nodes: Vec<Node>,
    pub(super) served: Served,
    /// Components whose pods do not match their template.
    pub(super) changed: BTreeSet<Id>,
    /// Definitions without a known count of objects.
    pub(super) uncounted: BTreeSet<String>,
    pairs: BTreeMap<String, Pair>,
    bundles: BTreeMap<String, Vec<BundleCertificate>>,
    /// All certificates that may be in a bundle.
    known: Vec<BundleCertificate>,
    counts: BTreeMap<String, Count>,
    /// Definitions whose objects were deleted.
    emptied: BTreeSet<String>,
    memory: Memory,
    writes: u32,
    now: &'a Time,
    others: &'a [OtherKubeVirt],
    operator: &'a Operator,
    strategies: &'a BTreeMap<String, Arc<Strategy>>,
    unreadable: &'a BTreeMap<String, String>,
    counted: &'a BTreeMap<String, Count>,
}

impl<'a> Simulated<'a> {
    pub(super) fn of(observed: &Observed<'a>, now: &'a Time) -> Self {
        let pairs = observed.pairs.values().flat_map(|pair| {
            let next = pair.next.as_deref();
            [Some(pair), next].into_iter().flatten().map(known)
        });
        let known = observed.bundles.values().flatten().cloned();
        Self {
            kubevirt: observed.kubevirt.clone(),
            exists: true,
            objects: observed.objects.clone(),
            pods: observed.pods.to_vec(),
            nodes: observed.nodes.to_vec(),
            served: observed.served.clone(),
            changed: BTreeSet::new(),
            uncounted: BTreeSet::new(),
            known: known.chain(pairs).collect(),
            pairs: observed.pairs.clone(),
            bundles: observed.bundles.clone(),
            counts: observed.counts.clone(),
            emptied: BTreeSet::new(),
            memory: observed.memory.clone(),
            writes: 0,
            now,
            others: observed.others,
            operator: observed.operator,
            strategies: observed.strategies,
            unreadable: observed.unreadable,
            counted: observed.counts,
        }
    }

    pub(super) fn observed<T>(&self, observe: impl FnOnce(&Observed<'_>) -> T) -> T {
        observe(&Observed {
            kubevirt: &self.kubevirt,
            others: self.others,
            operator: self.operator,
            strategies: self.strategies,
            unreadable: self.unreadable,
            objects: &self.objects,
            pods: &self.pods,
            nodes: &self.nodes,
            served: &self.served,
            pairs: &self.pairs,
            bundles: &self.bundles,
            counts: &self.counts,
            memory: &self.memory,
        })
    }

    /// Why a plan is stuck.
    pub(super) fn causes(&self, plan: &Plan) -> Vec<String> {
        let waits = plan.waits.iter();
        let mut causes: Vec<String> = waits
            .map(|wait| format!("{} {}", wait.id, wait.message))
            .collect();
        let status = plan.status.as_ref().or(self.kubevirt.status.as_ref());
        let conditions = status.and_then(|status| status.conditions.as_ref());
        let conditions = conditions.into_iter().flatten();
        let mut wrong = conditions.filter(|condition| {
            let wrong = match condition.type_.as_str() {
                "Synchronized" => "False",
                "Degraded" => "True",
                _ => return false,
            };
            condition.status == wrong
        });
        if causes.is_empty() {
            causes.extend(wrong.find_map(|condition| condition.message.clone()));
        }
        causes
    }

    /// A time later than all returned before.
    pub(super) fn tick(&mut self) -> Time {
        self.writes = self.writes.saturating_add(1);
        later(self.now, SignedDuration::from_nanos(self.writes.into()))
    }

    pub(super) fn execute(&mut self, step: &Step, journal: &mut Journal) {
        let reason = &step.reason;
        match &step.action {
            Action::Finalizers(finalizers) => self.set_finalizers(finalizers, reason, journal),
            Action::Annotate(annotations) => self.annotate(annotations, reason, journal),
            Action::Create(object) => {
                let mut value = object.value();
                self.store(&object.id, &object.version, &mut value);
                self.record(&object.id, reason, None, Some(object), journal);
            }
            Action::Apply { object, .. } => self.apply(object, reason, journal),
            Action::Issue {
                issue,
                labels,
                annotations,
                ..
            } => self.issue(issue, labels, annotations, journal),
            Action::Patch { id, patch, .. } if id.is("", "Node") => {
                self.unlabel(id, patch, reason, journal);
            }
            Action::Patch { id, version, patch } => {
                let Some(before) = self.objects.get(id).cloned() else {
                    return;
                };
                let mut value = before.value();
                merge::merge_patch::apply(&mut value, patch);
                self.store(id, version, &mut value);
                self.collect(id);
                self.record(id, reason, Some(before), None, journal);
            }
            Action::Delete { id, .. } => {
                let Some(before) = self.objects.get(id).cloned() else {
                    return;
                };
                self.delete(&before);
                self.record(id, reason, Some(before), None, journal);
            }
            Action::DeleteAll { definition } => {
                let count = self.counts.remove(definition);
                self.emptied.insert(definition.clone());
                let names = count.map(|count| count.names).unwrap_or_default();
                let reason = format!("{}: {reason}", names.join(", "));
                journal.record(Verb::Empty, definition_of(definition), &reason, Vec::new());
            }
            Action::Count { definition } => self.count(definition),
        }
    }

    fn record(
        &self,
        id: &Id,
        reason: &str,
        before: Option<Live>,
        wanted: Option<&Object>,
        journal: &mut Journal,
    ) {
        journal.record_write(ObjectWrite {
            id: id.clone(),
            reason: reason.to_owned(),
            before,
            after: self.objects.get(id).cloned(),
            wanted: wanted.cloned(),
        });
    }

    fn set_finalizers(&mut self, finalizers: &[String], reason: &str, journal: &mut Journal) {
        let metadata = &mut self.kubevirt.metadata;
        let before = metadata.finalizers.replace(finalizers.to_vec());
        let field = Change {
            path: "metadata.finalizers".to_owned(),
            from: before.filter(|it| !it.is_empty()).map(Value::from),
            to: Some(Value::from(finalizers)).filter(|_| !finalizers.is_empty()),
        };
        self.exists = metadata.deletion_timestamp.is_none() || !finalizers.is_empty();
        journal.record(Verb::Change, self.id(), reason, vec![field]);
    }

    fn annotate(
        &mut self,
        annotations: &[(&'static str, Option<String>)],
        reason: &str,
        journal: &mut Journal,
    ) {
        let all = self.kubevirt.metadata.annotations.get_or_insert_default();
        let mut fields = Vec::new();
        for (name, value) in annotations {
            let before = match value {
                Some(value) => all.insert((*name).to_owned(), value.clone()),
                None => all.remove(*name),
            };
            fields.push(Change {
                path: format!("metadata.annotations[{name}]"),
                from: before.map(Value::from),
                to: value.clone().map(Value::from),
            });
        }
        journal.record(Verb::Change, self.id(), reason, fields);
    }

    fn id(&self) -> Id {
        let metadata = &self.kubevirt.metadata;
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let (namespace, name) = (text(&metadata.namespace), text(&metadata.name));
        Id::new("kubevirt.io", "KubeVirt", &namespace, &name)
    }

    fn apply(&mut self, object: &Object, reason: &str, journal: &mut Journal) {
        let before = self.objects.get(&object.id).cloned();
        let found = before.as_ref().map(Live::value).unwrap_or_default();
        let template = |value: &Value| value.pointer("/spec/template").cloned();
        let old = template(&found);
        let mut value = overlay(found, None, &object.value());
        if old != template(&value) {
            self.changed.insert(object.id.clone());
        }
        self.store(&object.id, &object.version, &mut value);
        if let Some(live) = self.objects.get(&object.id) {
            let settled = (object.fingerprint, live.fingerprint);
            self.memory.applied.insert(object.id.clone(), settled);
        }
        self.record(&object.id, reason, before, Some(object), journal);
    }

    /// Stores an object, as the API server does.
    pub(super) fn store(&mut self, id: &Id, version: &str, value: &mut Value) {
        self.writes = self.writes.saturating_add(1);
        let before = self.objects.get(id);
        let spec = |value: &Value| value.get("spec").cloned();
        let generation = before.and_then(|live| live.generation).unwrap_or_default();
        let is_other = before.is_none_or(|live| spec(&live.value()) != spec(value));
        if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
            let uid = format!("simulated-{}", self.writes);
            metadata.entry("uid").or_insert_with(|| uid.into());
            metadata.insert("resourceVersion".into(), self.writes.to_string().into());
            let generation = generation.saturating_add(i64::from(is_other));
            metadata.insert("generation".into(), generation.into());
        }
        if let Ok(live) = Live::new(&id.group, version, &id.kind, value.take()) {
            if id.is("", "ConfigMap") {
                self.read_bundle(&live);
            }
            self.objects.insert(id.clone(), live);
        }
    }

    fn read_bundle(&mut self, live: &Live) {
        let value = live.value();
        let text = value.pointer(&format!("/data/{BUNDLE}"));
        let text = text.and_then(Value::as_str).unwrap_or_default();
        let known = self.known.iter();
        let known = known.filter(|known| certificates::bundle_contains(text, &known.certificate));
        let known = known.cloned().collect();
        self.bundles.insert(live.id.name.to_string(), known);
    }

    fn issue(
        &mut self,
        issue: &Issue,
        labels: &BTreeMap<String, String>,
        annotations: &BTreeMap<String, String>,
        journal: &mut Journal,
    ) {
        self.writes = self.writes.saturating_add(1);
        let name = &issue.secret;
        let certificate = format!("(the certificate of {name} that is write {})", self.writes);
        let (verb, signer) = match &issue.change {
            certificates::SecretChange::New(new) => (Verb::Issue, new.signer.as_ref()),
            _ => (Verb::Change, None),
        };
        let signer = signer.and_then(|signer| self.pairs.get(signer));
        let pair = issue.simulate(self.pairs.get(name), signer, &certificate);
        if let Some(pair) = pair {
            self.known.push(known(pair.newest()));
            self.pairs.insert(name.clone(), pair);
        }
        let id = Id::new("", "Secret", &self.operator.namespace, name);
        journal.record(verb, id.clone(), &issue.reason, Vec::new());
        let mut secret = json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {
                "name": name, "namespace": self.operator.namespace,
                "labels": labels, "annotations": annotations,
            },
        });
        self.store(&id, "v1", &mut secret);
    }

    fn unlabel(&mut self, id: &Id, patch: &Value, reason: &str, journal: &mut Journal) {
        let node = self.nodes.iter_mut().find(|node| *node.name == *id.name);
        let labels = patch.pointer("/metadata/labels").and_then(Value::as_object);
        let (Some(node), Some(labels)) = (node, labels) else {
            return;
        };
        let mut fields = Vec::new();
        for label in labels.keys() {
            fields.extend(node.labels.remove(label).map(|value| Change {
                path: format!("metadata.labels[{label}]"),
                from: Some(value.into()),
                to: None,
            }));
        }
        journal.record(Verb::Change, id.clone(), reason, fields);
    }

    fn delete(&mut self, before: &Live) {
        let mut value = before.value();
        if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
            let at = self.now.0.to_string();
            metadata.insert("deletionTimestamp".into(), at.into());
            let others = before.finalizers.iter();
            let others = others.filter(|name| !OWN_FINALIZERS.contains(&name.as_str()));
            let others: Vec<&String> = others.collect();
            metadata.insert("finalizers".into(), json!(others));
        }
        self.store(&before.id, &before.version, &mut value);
        self.collect(&before.id);
    }

    /// Removes an object that is being deleted and has no finalizers.
    fn collect(&mut self, id: &Id) {
        let Some(live) = self.objects.get(id) else {
            return;
        };
        if !live.deleting || !live.finalizers.is_empty() {
            return;
        }
        if id.is("", "Secret") {
            self.pairs.remove(&*id.name);
        } else if id.is("", "ConfigMap") {
            self.bundles.remove(&*id.name);
        } else if is_definition(id) {
            let value = live.value();
            let text = |field: &str| tree::text(&value, field).unwrap_or_default().to_owned();
            let kind = (text("/spec/group"), text("/spec/names/kind"));
            self.served.kinds.remove(&kind);
        }
        self.objects.remove(id);
        self.changed.remove(id);
    }

    fn count(&mut self, definition: &str) {
        let none = Count {
            objects: 0,
            names: Vec::new(),
            deleting: false,
            finalizers: BTreeSet::new(),
            at: self.now.clone(),
        };
        let known = self.counted.get(definition).cloned();
        if known.is_none() {
            self.uncounted.insert(definition.to_owned());
        }
        let known = known.filter(|_| !self.emptied.contains(definition));
        let count = known.map_or(none, |count| Count {
            at: self.now.clone(),
            ..count
        });
        self.counts.insert(definition.to_owned(), count);
    }
}

fn known(pair: &Pair) -> BundleCertificate {
    BundleCertificate {
        certificate: pair.certificate.clone(),
        not_before: pair.not_before.clone(),
        not_after: pair.not_after.clone(),
    }
}

fn definition_of(name: &str) -> Id {
    Id::new("apiextensions.k8s.io", "CustomResourceDefinition", "", name)
}
