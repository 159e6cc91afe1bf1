//! Simulated cluster with Machines and NetworkConfigurations, on which plans are executed.
//!
//! The preview of documents and tests add KubeVirt and the storage.

mod observe;
mod view;

use std::collections::{BTreeMap, BTreeSet};

use api::{Time, core::StorageClass, labels};
use serde_json::{Map, Value, json};

use self::view::View;
use super::{
    Action, Installed, Kind, Known, MetadataChange, Object, Provider, RemoteCluster,
    cluster_finalizer,
};
use crate::{
    Id,
    simulation::{Server, ServerError, Written},
};

/// Objects of a cluster, as the operator caches them.
#[derive(Clone, Debug)]
pub struct Simulation {
    server: Server<Value>,
    view: View,
    storage_classes: Known<StorageClass>,
    installed: Installed,
    /// UIDs of claims that do not exist, by Machine.
    lost_claims: BTreeMap<Id, BTreeSet<String>>,
    /// The cluster of the virtual machines, if it is another than that of the Machines.
    cluster: Option<RemoteCluster>,
}

/// Identity of a Machine.
pub fn machine(namespace: &str, name: &str) -> Id {
    Id::new(labels::DOMAIN, "Machine", namespace, name)
}

/// Identity of a NetworkConfiguration.
pub fn network(namespace: &str, name: &str) -> Id {
    Id::new(labels::DOMAIN, "NetworkConfiguration", namespace, name)
}

/// Identity of a NetworkNamespace.
pub fn network_namespace(namespace: &str, name: &str) -> Id {
    Id::new(labels::DOMAIN, "NetworkNamespace", namespace, name)
}

/// Identity of a MachineClass.
pub fn machine_class(name: &str) -> Id {
    Id::new(labels::DOMAIN, "MachineClass", "", name)
}

/// Identity of an object of a Machine or NetworkConfiguration.
pub fn child(kind: Kind, namespace: &str, name: &str) -> Id {
    let group = match kind {
        Kind::PersistentVolumeClaim => "",
        Kind::DataVolume => "cdi.kubevirt.io",
        Kind::VirtualMachine | Kind::VirtualMachineInstance => "kubevirt.io",
        Kind::NetworkAttachmentDefinition => "k8s.cni.cncf.io",
        Kind::NetworkConfiguration => labels::DOMAIN,
    };
    Id::new(group, kind.as_str(), namespace, name)
}

/// Identity of the Secret of this name.
pub fn secret(namespace: &str, name: &str) -> Id {
    Id::new("", "Secret", namespace, name)
}

/// Identity of the ConfigMap of this name.
pub(super) fn config_map(namespace: &str, name: &str) -> Id {
    Id::new("", "ConfigMap", namespace, name)
}

pub(super) fn is_machine(id: &Id) -> bool {
    id.is(labels::DOMAIN, "Machine")
}

pub(super) fn is_network(id: &Id) -> bool {
    id.is(labels::DOMAIN, "NetworkConfiguration")
}

impl Simulation {
    pub fn new(
        objects: BTreeMap<Id, Value>,
        storage_classes: Known<StorageClass>,
        installed: Installed,
        provider: Provider,
    ) -> Self {
        let mut view = View::new(provider);
        for (id, object) in &objects {
            view.update(id, None, Some(object));
        }
        Self {
            server: Server::new(objects),
            view,
            storage_classes,
            installed,
            lost_claims: BTreeMap::new(),
            cluster: None,
        }
    }

    /// Simulates Machines with virtual machines in another cluster.
    #[must_use]
    pub fn in_cluster(self, cluster: Option<RemoteCluster>) -> Self {
        Self { cluster, ..self }
    }

    pub fn objects(&self) -> &BTreeMap<Id, Value> {
        self.server.objects()
    }

    pub fn get(&self, id: &Id) -> Option<&Value> {
        self.server.get(id)
    }

    /// Creates or replaces an object, as others do.
    pub fn put(
        &mut self,
        id: &Id,
        value: Value,
        now: &Time,
    ) -> Result<Written<Value>, ServerError> {
        let written = match self.server.get(id) {
            Some(_) => self.server.update(id, |found| *found = value),
            None => self.server.create(id, value, now),
        };
        self.after(written)
    }

    /// Changes an object, as others do.
    pub fn update(
        &mut self,
        id: &Id,
        change: impl FnOnce(&mut Value),
    ) -> Result<Written<Value>, ServerError> {
        let written = self.server.update(id, change);
        self.after(written)
    }

    /// Deletes an object. `is_removed` selects finalizers that are removed at once.
    pub fn delete(
        &mut self,
        id: &Id,
        uid: Option<&str>,
        now: &Time,
        is_removed: impl Fn(&str) -> bool,
    ) -> Result<Written<Value>, ServerError> {
        let written = self.server.delete(id, uid, now, is_removed);
        self.after(written)
    }

    /// Assumes that the operator's last apply to an object had these fields.
    pub(super) fn assume_applied(&mut self, id: Id, fields: Value) {
        self.server.assume_applied(id, fields);
    }

    /// Executes an action for a Machine or NetworkConfiguration. All finalizers of a deleted object are
    /// removed at once. Returns the change of an object; Secrets are not simulated.
    pub fn execute(
        &mut self,
        subject: &Id,
        action: &Action,
        now: &Time,
    ) -> Result<Option<Written<Value>>, ServerError> {
        let namespace = &subject.namespace;
        let written = match action {
            Action::AddFinalizer => self
                .server
                .update(subject, |object| add_finalizer(object, subject)),
            Action::ApplyNetwork {
                with_finalizer,
                with_provider,
            } => self.server.update(subject, |object| {
                if *with_finalizer {
                    add_finalizer(object, subject);
                }
                if *with_provider {
                    object["spec"]["provider"] = api::NETWORK_PROVIDER.into();
                }
            }),
            Action::ReplaceFormerFinalizer => self.server.update(subject, |object| {
                if let Some(finalizers) = object["metadata"]["finalizers"].as_array_mut() {
                    let kept = [labels::FORMER_FINALIZER, labels::FINALIZER];
                    finalizers.retain(|name| name.as_str().is_none_or(|it| !kept.contains(&it)));
                    finalizers.push(labels::FINALIZER.into());
                }
            }),
            Action::Place { cluster, annotate } => self.server.update(subject, |object| {
                add_finalizer(object, subject);
                if let Some(finalizers) = object["metadata"]["finalizers"].as_array_mut() {
                    finalizers.push(cluster_finalizer(cluster).into());
                }
                if *annotate {
                    object["metadata"]["annotations"][labels::KUBEVIRT_CONFIG] =
                        cluster.as_str().into();
                }
            }),
            Action::RemoveFinalizer => self.server.update(subject, |object| {
                if let Some(finalizers) = object["metadata"]["finalizers"].as_array_mut() {
                    finalizers.retain(|name| {
                        let is_cluster = |it: &str| it.starts_with(labels::CLUSTER_FINALIZER);
                        name != finalizer(subject) && !name.as_str().is_some_and(is_cluster)
                    });
                }
            }),
            Action::Create(object) | Action::Recreate(object) => {
                let (id, value) = body(namespace, object);
                self.server.create(&id, value, now)
            }
            Action::Apply { object, uid, .. } | Action::RestoreOwner { object, uid, .. } => {
                let (id, fields) = body(namespace, object);
                self.server.apply(&id, &fields, Some(uid), now)
            }
            Action::ChangeMetadata {
                kind,
                name,
                uid,
                change,
            } => {
                let id = child(*kind, namespace, name);
                self.server.patch(&id, &metadata_patch(uid, change))
            }
            Action::Delete {
                kind, name, uid, ..
            } => {
                let id = child(*kind, namespace, name);
                self.server.delete(&id, Some(uid), now, |_| true)
            }
            Action::Pause { name } => {
                let paused =
                    json!([{ "type": "Paused", "status": "True", "reason": "PausedByUser" }]);
                self.set_conditions(namespace, name, paused)
            }
            Action::Unpause { name } => self.set_conditions(namespace, name, json!([])),
            Action::RecoverClaim { uid, .. } => {
                let lost = self.lost_claims.entry(subject.clone()).or_default();
                lost.insert(uid.clone());
                return Ok(None);
            }
            Action::ObserveReferences
            | Action::ObserveDisk { .. }
            | Action::LabelAdopted { .. }
            | Action::WriteSecret(_)
            | Action::DeleteSecret { .. } => return Ok(None),
        };
        self.after(written).map(Some)
    }

    fn set_conditions(
        &mut self,
        namespace: &str,
        instance: &str,
        conditions: Value,
    ) -> Result<Written<Value>, ServerError> {
        let id = child(Kind::VirtualMachineInstance, namespace, instance);
        self.server
            .update(&id, |object| object["status"]["conditions"] = conditions)
    }

    fn after(
        &mut self,
        written: Result<Written<Value>, ServerError>,
    ) -> Result<Written<Value>, ServerError> {
        let written = written?;
        let Written { id, before, after } = &written;
        self.view.update(id, before.as_ref(), after.as_ref());
        Ok(written)
    }
}

fn add_finalizer(object: &mut Value, subject: &Id) {
    let finalizers = &mut object["metadata"]["finalizers"];
    if finalizers.is_null() {
        *finalizers = json!([]);
    }
    if let Some(finalizers) = finalizers.as_array_mut()
        && !finalizers.iter().any(|found| found == finalizer(subject))
    {
        finalizers.push(finalizer(subject).into());
    }
}

fn finalizer(subject: &Id) -> &'static str {
    if is_machine(subject) {
        labels::FINALIZER
    } else {
        labels::NETWORK_FINALIZER
    }
}

fn body(namespace: &str, object: &Object) -> (Id, Value) {
    let id = child(object.kind(), namespace, object.name());
    let mut value = serde_json::to_value(object).unwrap_or_default();
    value["metadata"]["namespace"] = namespace.into();
    (id, value)
}

fn metadata_patch(uid: &str, change: &MetadataChange) -> Value {
    let mut metadata = Map::from_iter([("uid".to_owned(), uid.into())]);
    let entries = [
        ("labels", &change.labels),
        ("annotations", &change.annotations),
    ];
    for (field, entries) in entries.into_iter().filter(|(_, it)| !it.is_empty()) {
        metadata.insert(field.to_owned(), json!(entries));
    }
    if let Some((owners, _)) = &change.owners {
        let owners = (!owners.is_empty()).then_some(owners);
        metadata.insert("ownerReferences".to_owned(), json!(owners));
    }
    let mut patch = json!({ "metadata": metadata });
    if !change.template_labels.is_empty() {
        let labels = json!({ "metadata": { "labels": change.template_labels } });
        patch["spec"] = json!({ "template": labels });
    }
    patch
}
