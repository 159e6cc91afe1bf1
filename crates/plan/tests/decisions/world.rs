//! A Machine and its observed state. No plan is executed on it.

use std::sync::Arc;

use api::{Machine, ObjectMeta, Time, core::StorageClass, labels};
use plan::machine::{
    self, Action, Age, CloudInitSecret, Installed, Kind, Known, LiveReferences, Observed, Plan,
    References, SecretMetadata, Surroundings,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

pub(crate) const NOW: &str = "2026-01-02T03:04:05Z";
pub(crate) const BEFORE: &str = "2026-01-01T00:00:00Z";

pub(crate) fn read<T: DeserializeOwned>(value: &Value) -> T {
    serde_json::from_value(value.clone()).unwrap()
}

/// A running Machine `web` with a disk `data`.
pub(crate) struct World {
    pub(crate) machine: Value,
    pub(crate) vm: Value,
    pub(crate) instance: Value,
    pub(crate) claims: Vec<Value>,
    pub(crate) data_volumes: Vec<Value>,
    pub(crate) storage_class: Value,
    pub(crate) installed: Installed,
    pub(crate) age: Option<Age>,
    /// VirtualMachines of others, by the claim that they mount.
    pub(crate) users: Vec<&'static str>,
    /// Its VirtualMachine without labels, which a cache does not show and a live read does.
    pub(crate) hidden_vm: Value,
    pub(crate) networks: Vec<Value>,
    pub(crate) attachments: Vec<Value>,
    pub(crate) network_namespaces: Vec<Value>,
    /// The NetworkConfiguration with the name of the Machine; null if there is none.
    pub(crate) ledger: Value,
    /// Whether its cloud-init Secret was compared, where Secrets are not watched.
    pub(crate) secret_is_verified: bool,
    /// Metadata of its cloud-init Secret, where Secrets are watched; null if there is none.
    pub(crate) secret: Option<Value>,
    pub(crate) unconfirmed: Vec<(Kind, &'static str)>,
    /// UIDs of claims that a live read did not find.
    pub(crate) lost: Vec<&'static str>,
    pub(crate) is_orphaned: bool,
}

pub(crate) fn metadata(name: &str) -> Value {
    json!({
        "name": name, "namespace": "default", "uid": format!("uid-{name}"), "resourceVersion": "7",
        "creationTimestamp": BEFORE,
        "labels": { labels::MANAGED_BY: labels::MANAGER, labels::MACHINE: "web" },
        "annotations": { labels::MACHINE_UID: "uid-machine" },
    })
}

pub(crate) fn owned(name: &str) -> Value {
    let mut metadata = metadata(name);
    metadata["ownerReferences"] = json!([{
        "apiVersion": "vitistack.io/v1alpha1", "kind": "Machine", "name": "web",
        "uid": "uid-machine", "controller": true, "blockOwnerDeletion": true,
    }]);
    metadata
}

pub(crate) fn claim(disk: &str, size: &str) -> Value {
    let mut metadata = metadata(&format!("web-{disk}"));
    if disk == "data" {
        metadata["annotations"][labels::LISTED_DISK] = "true".into();
    }
    json!({
        "metadata": metadata,
        "spec": { "storageClassName": "fast", "accessModes": ["ReadWriteOnce"],
            "volumeMode": "Filesystem", "resources": { "requests": { "storage": size } } },
        "status": { "phase": "Bound" },
    })
}

/// An attachment definition that belongs to no one.
pub(crate) fn attachment(name: &str) -> Value {
    json!({
        "apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition",
        "metadata": { "name": name, "namespace": "default" },
        "spec": { "config": "{}" },
    })
}

impl World {
    pub(crate) fn running() -> Self {
        let volume = |disk: &str| {
            json!({ "name": disk,
                "persistentVolumeClaim": { "claimName": format!("web-{disk}") } })
        };
        Self {
            machine: json!({
                "apiVersion": "vitistack.io/v1alpha1", "kind": "Machine",
                "metadata": { "name": "web", "namespace": "default", "uid": "uid-machine",
                    "generation": 1, "finalizers": [labels::FINALIZER] },
                "spec": { "template": "small", "disks": [{ "name": "data", "size": "1Gi" }] },
            }),
            vm: json!({
                "metadata": owned("web"),
                "spec": { "runStrategy": "Always", "template": { "spec": {
                    "domain": {}, "volumes": [volume("root"), volume("data")] } } },
                "status": { "printableStatus": "Running" },
            }),
            instance: json!({
                "metadata": { "name": "web", "namespace": "default", "uid": "uid-instance",
                    "creationTimestamp": BEFORE,
                    "labels": { labels::MANAGED_BY: labels::MANAGER, labels::MACHINE: "web" },
                    "ownerReferences": [{ "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine",
                        "name": "web", "uid": "uid-web", "controller": true }] },
                "status": { "phase": "Running", "nodeName": "node-1" },
            }),
            claims: vec![claim("data", "1Gi"), claim("root", "20Gi")],
            data_volumes: Vec::new(),
            storage_class: json!({
                "metadata": { "name": "fast",
                    "annotations": { "storageclass.kubernetes.io/is-default-class": "true" } },
                "allowVolumeExpansion": true,
            }),
            installed: Installed {
                kubevirt: true,
                kubevirt_is_removed: false,
                cdi: true,
                multus: true,
            },
            age: None,
            users: Vec::new(),
            hidden_vm: Value::Null,
            networks: Vec::new(),
            attachments: Vec::new(),
            network_namespaces: Vec::new(),
            ledger: Value::Null,
            secret_is_verified: true,
            secret: None,
            unconfirmed: Vec::new(),
            lost: Vec::new(),
            is_orphaned: false,
        }
    }

    /// The Machine is deleted, its guest is gone, and references to claims were read.
    pub(crate) fn ending() -> Self {
        let mut world = Self::running();
        world.machine["metadata"]["deletionTimestamp"] = NOW.into();
        (world.vm, world.instance) = (Value::Null, Value::Null);
        world.age = Some(Age::Fresh);
        world
    }

    /// Makes the VirtualMachine the one that the plan writes.
    pub(crate) fn adopt_written_vm(&mut self) {
        let steps = self.plan().steps.into_iter();
        let mut objects = steps.filter_map(|step| match step.action {
            Action::Apply { object, .. } | Action::Create(object) => Some(json!(object)),
            _ => None,
        });
        let Some(written) = objects.find(|object| object["kind"] == "VirtualMachine") else {
            return;
        };
        for field in ["annotations", "labels"] {
            self.vm["metadata"][field] = written["metadata"][field].clone();
        }
        self.vm["spec"] = written["spec"].clone();
    }

    /// Adds a NetworkConfiguration with its attachment definition.
    pub(crate) fn add_network(&mut self, name: &str) {
        let uid = format!("uid-network-{name}");
        self.networks.push(json!({
            "apiVersion": "vitistack.io/v1alpha1", "kind": "NetworkConfiguration",
            "metadata": { "name": name, "namespace": "default", "uid": uid },
            "spec": { "bridge": "br0" },
        }));
        let mut attachment = attachment(name);
        attachment["metadata"]["ownerReferences"] = json!([{
            "apiVersion": "vitistack.io/v1alpha1", "kind": "NetworkConfiguration",
            "name": name, "uid": uid, "controller": true,
        }]);
        self.attachments.push(attachment);
    }

    pub(crate) fn plan(&self) -> Plan {
        let machine: Machine = read(&self.machine);
        let networks = self.networks.iter().map(|network| {
            let name = network["metadata"]["name"].as_str().unwrap();
            (name.to_owned(), Arc::new(read(network)))
        });
        let networks = Known::all(networks);
        let namespaces = self.network_namespaces.iter().map(|namespace| {
            let name = namespace["metadata"]["name"].as_str().unwrap();
            (name.to_owned(), Arc::new(read(namespace)))
        });
        let network_namespaces = Known::all(namespaces);
        let ledger = read(&self.ledger);
        let attachments: Vec<_> = self.attachments.iter().map(read).collect();
        let (vm, instance) = (read(&self.vm), read(&self.instance));
        let claims: Vec<_> = self.claims.iter().map(read).collect();
        let data_volumes: Vec<_> = self.data_volumes.iter().map(read).collect();
        let class: StorageClass = read(&self.storage_class);
        let mut references = References::default();
        for object in [&self.vm, &self.hidden_vm] {
            if object.is_null() {
                continue;
            }
            references.add(Kind::VirtualMachine, read(object));
        }
        for object in [&self.instance].into_iter().filter(|it| !it.is_null()) {
            references.add(Kind::VirtualMachineInstance, read(object));
        }
        for claim in &self.users {
            let volume = json!({ "persistentVolumeClaim": { "claimName": claim } });
            let vm = json!({ "metadata": { "name": "rescue", "uid": "uid-rescue" },
                "spec": { "template": { "spec": { "volumes": [volume] } } } });
            references.add(Kind::VirtualMachine, read(&vm));
        }
        let secret = self.secret.as_ref().map(|metadata| {
            let metadata: Option<ObjectMeta> = read(metadata);
            metadata.as_ref().map(SecretMetadata::of)
        });
        let observed = Observed {
            machine: &machine,
            surroundings: Surroundings {
                storage_classes: Known::all([("fast".to_owned(), Arc::new(class))]),
                networks,
                network_namespaces,
                ..Surroundings::default()
            },
            installed: self.installed,
            virtual_machine: Option::as_ref(&vm),
            instance: Option::as_ref(&instance),
            claims: claims.iter().collect(),
            data_volumes: data_volumes.iter().collect(),
            cloud_init_secret: match &secret {
                None => CloudInitSecret::Unobserved {
                    is_verified: self.secret_is_verified,
                },
                Some(None) => CloudInitSecret::Missing,
                Some(Some(metadata)) => CloudInitSecret::Present(metadata),
            },
            digest_key: None,
            mac_address_rivals: Vec::new(),
            attachments: attachments.iter().collect(),
            ledger: Option::as_ref(&ledger),
            references: self.age.map(|age| LiveReferences {
                found: &references,
                age,
            }),
            lost_claims: self.lost.clone(),
            unconfirmed_disks: self.unconfirmed.clone(),
            orphaned: self.is_orphaned,
            refusal: None,
        };
        machine::plan(&observed, &read::<Time>(&NOW.into()))
    }

    pub(crate) fn deleted(&self) -> Vec<String> {
        let steps = self.plan().steps.into_iter();
        steps
            .filter_map(|step| match step.action {
                Action::Delete { kind, name, .. } => Some(format!("{} {name}", kind.as_str())),
                _ => None,
            })
            .collect()
    }

    /// The disks that are labelled as retained.
    pub(crate) fn retained(&self) -> Vec<String> {
        let steps = self.plan().steps.into_iter();
        steps
            .filter_map(|step| match step.action {
                Action::ChangeMetadata { name, change, .. } => {
                    let value = change.labels.get(labels::RETAINED)?.as_deref();
                    (value == Some("true")).then_some(name)
                }
                _ => None,
            })
            .collect()
    }
}

pub(crate) fn has(plan: &Plan, is: impl Fn(&Action) -> bool) -> bool {
    plan.steps.iter().any(|step| is(&step.action))
}
