//! Simulated cluster with an installation of KubeVirt, on which plans are executed.
//!
//! The preview of a rollout and tests add the controllers of workloads and definitions.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use api::{Time, kubevirt::install::KubeVirt};
use serde_json::{Value, json};

use super::{
    action::{Action, Step},
    certificates::BUNDLE,
    object::{Id, Live, Object, split},
    observed::{Count, Memory, Node, Observed, OtherKubeVirt, Pod, Served},
    stages::is_definition,
    strategy::Strategy,
    target::Operator,
    tree,
};
use crate::{
    certificates::{self, BundleCertificate, Issue, Pair, SecretChange},
    preview::Change,
    simulation::{Server, ServerError, Stored, Written},
};

/// Finalizers that the API server and its controllers remove.
const SERVER_FINALIZERS: [&str; 3] = [
    "customresourcecleanup.apiextensions.k8s.io",
    "foregroundDeletion",
    "orphan",
];

impl Stored for Live {
    fn from_value(id: &Id, value: Value) -> Option<Self> {
        let api_version = value.get("apiVersion").and_then(Value::as_str)?;
        let version = split(api_version).1.to_owned();
        Self::new(&id.group, &version, &id.kind, value).ok()
    }

    fn to_value(&self) -> Value {
        self.value()
    }

    fn uid(&self) -> &str {
        &self.uid
    }
}

/// Everything that a plan depends on, as [`Observed`], and the effects of writes on it.
#[derive(Clone, Debug)]
pub struct Simulation {
    pub kubevirt: KubeVirt,
    /// Whether the KubeVirt resource exists.
    pub exists: bool,
    pub others: Vec<OtherKubeVirt>,
    pub operator: Operator,
    pub strategies: BTreeMap<String, Arc<Strategy>>,
    pub unreadable: BTreeMap<String, String>,
    pub pods: Vec<Pod>,
    pub nodes: Vec<Node>,
    pub served: Served,
    /// Counts that have been made.
    pub counts: BTreeMap<String, Count>,
    pub memory: Memory,
    /// Definitions that were counted without a known number of objects.
    pub uncounted: BTreeSet<String>,
    server: Server<Live>,
    pairs: BTreeMap<String, Pair>,
    bundles: BTreeMap<String, Vec<BundleCertificate>>,
    /// All certificates that may be in a bundle.
    certificates: Vec<BundleCertificate>,
    /// Known objects of definitions.
    instances: BTreeMap<String, Count>,
}

/// Effect of a step.
#[derive(Clone, Debug, PartialEq)]
pub enum Executed {
    Object(Box<Written<Live>>),
    /// Changes of the KubeVirt resource or of a node.
    Fields(Id, Vec<Change>),
    /// A certificate was issued into a Secret.
    Issued(Id),
    /// A Secret with a certificate was changed.
    Secret(Id),
    /// The objects of a definition with these names were deleted.
    Emptied(Id, Vec<String>),
    Counted,
}

impl Simulation {
    pub fn of(observed: &Observed<'_>) -> Self {
        let pairs = observed.pairs.values().flat_map(|pair| {
            let next = pair.next.as_deref();
            [Some(pair), next].into_iter().flatten().map(certificate_of)
        });
        let certificates = observed.bundles.values().flatten().cloned();
        Self {
            kubevirt: observed.kubevirt.clone(),
            exists: true,
            others: observed.others.to_vec(),
            operator: observed.operator.clone(),
            strategies: observed.strategies.clone(),
            unreadable: observed.unreadable.clone(),
            pods: observed.pods.to_vec(),
            nodes: observed.nodes.to_vec(),
            served: observed.served.clone(),
            counts: observed.counts.clone(),
            memory: observed.memory.clone(),
            uncounted: BTreeSet::new(),
            server: Server::new(observed.objects.clone()),
            certificates: certificates.chain(pairs).collect(),
            pairs: observed.pairs.clone(),
            bundles: observed.bundles.clone(),
            instances: observed.counts.clone(),
        }
    }

    /// Sets fields of applied objects that have no value.
    #[must_use]
    pub fn with_defaults(self, set_defaults: fn(&mut Value)) -> Self {
        Self {
            server: self.server.with_defaults(set_defaults),
            ..self
        }
    }

    pub fn observed<T>(&self, observe: impl FnOnce(&Observed<'_>) -> T) -> T {
        observe(&Observed {
            kubevirt: &self.kubevirt,
            others: &self.others,
            operator: &self.operator,
            strategies: &self.strategies,
            unreadable: &self.unreadable,
            objects: self.server.objects(),
            pods: &self.pods,
            nodes: &self.nodes,
            served: &self.served,
            pairs: &self.pairs,
            bundles: &self.bundles,
            counts: &self.counts,
            memory: &self.memory,
        })
    }

    pub fn objects(&self) -> &BTreeMap<Id, Live> {
        self.server.objects()
    }

    /// Objects that the operator has applied.
    pub fn applied(&self) -> impl Iterator<Item = &Id> {
        self.server.applied().keys()
    }

    /// Creates an object, as others do.
    pub fn create(&mut self, value: Value, now: &Time) -> Result<Written<Live>, ServerError> {
        let object = Object::new(&value).map_err(|_| ServerError::Invalid)?;
        let written = self.server.create(&object.id, value, now);
        self.after(written)
    }

    /// Changes an object, as others do.
    pub fn update(
        &mut self,
        id: &Id,
        change: impl FnOnce(&mut Value),
    ) -> Result<Written<Live>, ServerError> {
        let written = self.server.update(id, change);
        self.after(written)
    }

    /// Deletes an object, as others do. `is_removed` selects finalizers that are removed at once.
    pub fn delete(
        &mut self,
        id: &Id,
        uid: Option<&str>,
        now: &Time,
        is_removed: impl Fn(&str) -> bool,
    ) -> Result<Written<Live>, ServerError> {
        let written = self.server.delete(id, uid, now, is_removed);
        self.after(written)
    }

    /// Merges a status into that of an object. Returns whether it changed.
    pub fn report(&mut self, id: &Id, status: &Value) -> bool {
        let patch = json!({ "status": status });
        self.server
            .patch(id, &patch)
            .is_ok_and(|written| written.before != written.after)
    }

    /// Executes a step; finalizers of the API server's controllers are removed at once.
    pub fn execute(&mut self, step: &Step, now: &Time) -> Result<Executed, ServerError> {
        let written = match &step.action {
            Action::Finalizers(finalizers) => return Ok(self.set_finalizers(finalizers)),
            Action::Annotate(annotations) => return Ok(self.annotate(annotations)),
            Action::Issue {
                issue,
                existing,
                labels,
                annotations,
            } => {
                let metadata = json!({
                    "name": issue.secret, "namespace": self.operator.namespace,
                    "labels": labels, "annotations": annotations,
                });
                let uid = existing.as_ref().map(|existing| existing.uid.as_str());
                return self.issue(issue, &metadata, uid, now);
            }
            Action::Patch { id, patch, .. } if id.is("", "Node") => {
                return self.unlabel(id, patch);
            }
            Action::DeleteAll { definition } => return Ok(self.delete_all(definition, now)),
            Action::Count { definition } => {
                self.count(definition, now);
                return Ok(Executed::Counted);
            }
            Action::Create(object) => self.server.create(&object.id, object.value(), now),
            Action::Apply { object, existing } => {
                let uid = existing.as_ref().map(|existing| existing.uid.as_str());
                let written = self.server.apply(&object.id, &object.value(), uid, now);
                if let Ok(Written {
                    after: Some(live), ..
                }) = &written
                {
                    let settled = (object.fingerprint, live.fingerprint);
                    self.memory.applied.insert(object.id.clone(), settled);
                }
                written
            }
            Action::Patch { id, patch, .. } => self.server.patch(id, patch),
            Action::Delete { id, uid, .. } => self
                .server
                .delete(id, Some(uid), now, |name| SERVER_FINALIZERS.contains(&name)),
        };
        let written = self.after(written)?;
        Ok(Executed::Object(Box::new(written)))
    }

    /// Updates what is derived from an object.
    fn after(
        &mut self,
        written: Result<Written<Live>, ServerError>,
    ) -> Result<Written<Live>, ServerError> {
        let written = written?;
        let Written { id, before, after } = &written;
        let name = &*id.name;
        match after {
            Some(live) if id.is("", "ConfigMap") => {
                self.bundles.insert(name.to_owned(), self.bundle(live));
            }
            None if id.is("", "ConfigMap") => drop(self.bundles.remove(name)),
            None if id.is("", "Secret") => drop(self.pairs.remove(name)),
            None if is_definition(id) => {
                let value = before.as_ref().map(Live::value).unwrap_or_default();
                let text = |field: &str| tree::text(&value, field).unwrap_or_default().to_owned();
                let kind = (text("/spec/group"), text("/spec/names/kind"));
                self.served.kinds.remove(&kind);
            }
            Some(_) | None => {}
        }
        Ok(written)
    }

    fn bundle(&self, live: &Live) -> Vec<BundleCertificate> {
        let value = live.value();
        let text = value.pointer(&format!("/data/{BUNDLE}"));
        let text = text.and_then(Value::as_str).unwrap_or_default();
        let known = self.certificates.iter();
        let known = known.filter(|known| certificates::bundle_contains(text, &known.certificate));
        known.cloned().collect()
    }

    fn set_finalizers(&mut self, finalizers: &[String]) -> Executed {
        let metadata = &mut self.kubevirt.metadata;
        let before = metadata.finalizers.replace(finalizers.to_vec());
        let field = Change {
            path: "metadata.finalizers".to_owned(),
            from: before.filter(|it| !it.is_empty()).map(Value::from),
            to: Some(Value::from(finalizers)).filter(|_| !finalizers.is_empty()),
        };
        self.exists = metadata.deletion_timestamp.is_none() || !finalizers.is_empty();
        Executed::Fields(self.id(), vec![field])
    }

    fn annotate(&mut self, annotations: &[(&'static str, Option<String>)]) -> Executed {
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
        Executed::Fields(self.id(), fields)
    }

    fn id(&self) -> Id {
        let metadata = &self.kubevirt.metadata;
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let (namespace, name) = (text(&metadata.namespace), text(&metadata.name));
        Id::new("kubevirt.io", "KubeVirt", &namespace, &name)
    }

    fn issue(
        &mut self,
        issue: &Issue,
        metadata: &Value,
        uid: Option<&str>,
        now: &Time,
    ) -> Result<Executed, ServerError> {
        let name = &issue.secret;
        let id = Id::new("", "Secret", &self.operator.namespace, name);
        let secret = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": metadata });
        let found = self.server.get(&id);
        let written = match (uid, found) {
            (None, None) => self.server.create(&id, secret, now),
            (Some(_), None) => Err(ServerError::NotFound),
            (Some(uid), Some(found)) if *found.uid != *uid => Err(ServerError::Conflict),
            (_, Some(_)) => self.server.patch(&id, &secret),
        };
        self.after(written)?;
        let number = self.server.next_revision();
        let certificate = format!("(the certificate of {name} that is write {number})");
        let signer = match &issue.change {
            SecretChange::New(new) => new.signer.as_ref(),
            SecretChange::Published(_) | SecretChange::Promote(_) => None,
        };
        let signer = signer.and_then(|signer| self.pairs.get(signer));
        let pair = issue.simulate(self.pairs.get(name), signer, &certificate);
        if let Some(pair) = pair {
            self.certificates.push(certificate_of(pair.newest()));
            self.pairs.insert(name.clone(), pair);
        }
        Ok(match &issue.change {
            SecretChange::New(_) => Executed::Issued(id),
            SecretChange::Published(_) | SecretChange::Promote(_) => Executed::Secret(id),
        })
    }

    fn unlabel(&mut self, id: &Id, patch: &Value) -> Result<Executed, ServerError> {
        let node = self.nodes.iter_mut().find(|node| *node.name == *id.name);
        let node = node.ok_or(ServerError::NotFound)?;
        let labels = patch.pointer("/metadata/labels").and_then(Value::as_object);
        let labels = labels.into_iter().flat_map(|labels| labels.keys());
        let fields = labels.filter_map(|label| {
            Some(Change {
                path: format!("metadata.labels[{label}]"),
                from: Some(node.labels.remove(label)?.into()),
                to: None,
            })
        });
        Ok(Executed::Fields(id.clone(), fields.collect()))
    }

    fn delete_all(&mut self, definition: &str, now: &Time) -> Executed {
        let count = self.counts.remove(definition);
        if let Some(instances) = self.instances.get_mut(definition) {
            *instances = no_objects(now);
        }
        let names = count.map(|count| count.names).unwrap_or_default();
        let id = Id::new(
            "apiextensions.k8s.io",
            "CustomResourceDefinition",
            "",
            definition,
        );
        Executed::Emptied(id, names)
    }

    fn count(&mut self, definition: &str, now: &Time) {
        let known = self.instances.get(definition).cloned();
        if known.is_none() {
            self.uncounted.insert(definition.to_owned());
        }
        let count = Count {
            at: now.clone(),
            ..known.unwrap_or_else(|| no_objects(now))
        };
        self.counts.insert(definition.to_owned(), count);
    }
}

fn no_objects(at: &Time) -> Count {
    Count {
        objects: 0,
        names: Vec::new(),
        deleting: false,
        finalizers: BTreeSet::new(),
        at: at.clone(),
    }
}

fn certificate_of(pair: &Pair) -> BundleCertificate {
    BundleCertificate {
        certificate: pair.certificate.clone(),
        not_before: pair.not_before.clone(),
        not_after: pair.not_after.clone(),
    }
}
