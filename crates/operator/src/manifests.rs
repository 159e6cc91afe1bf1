//! Documents as the resources they are, and what Machines among them can refer to.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use api::{
    API_VERSION, Machine, MachineClass, NetworkConfiguration, ObjectMeta,
    core::{Secret, StorageClass},
};
use plan::machine::{Known, Surroundings};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// A document of a kind that we know.
#[derive(Clone, Debug)]
pub enum Resource {
    /// A virtual machine.
    Machine(Box<Machine>),
    /// A size.
    MachineClass(Arc<MachineClass>),
    /// A network.
    NetworkConfiguration(Arc<NetworkConfiguration>),
    /// A class of storage that Machines can name.
    StorageClass(Arc<StorageClass>),
    /// A Secret that Machines can take cloud-init from.
    Secret(Arc<Secret>),
}

/// What a document is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `vitistack.io/v1alpha1` Machine.
    Machine,
    /// `vitistack.io/v1alpha1` MachineClass.
    MachineClass,
    /// `vitistack.io/v1alpha1` NetworkConfiguration.
    NetworkConfiguration,
    /// `storage.k8s.io/v1` StorageClass.
    StorageClass,
    /// `v1` Secret.
    Secret,
}

impl Kind {
    /// Whether it is one of the resources that users write for us.
    pub fn is_ours(self) -> bool {
        matches!(
            self,
            Self::Machine | Self::MachineClass | Self::NetworkConfiguration
        )
    }
}

/// Why a document is not one of the kinds that we know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotOurs {
    /// Somebody else's: passed over.
    Foreign(String),
    /// Meant for us, or for nobody.
    Wrong {
        /// The field.
        path: &'static str,
        /// What is wrong, and what to do.
        message: String,
    },
}

/// What a document is, by its apiVersion and kind.
pub fn kind(value: &Value) -> Result<Kind, NotOurs> {
    let wrong = |path, message: String| Err(NotOurs::Wrong { path, message });
    if !value.is_object() {
        return wrong(
            "",
            "is not a Kubernetes object: give a mapping with apiVersion, kind and metadata"
                .to_owned(),
        );
    }
    let Some(api_version) = value.get("apiVersion").and_then(Value::as_str) else {
        return wrong(
            "apiVersion",
            format!("is missing: for a Machine it is {API_VERSION}"),
        );
    };
    let Some(kind) = value.get("kind").and_then(Value::as_str) else {
        return wrong("kind", "is missing: for a Machine it is Machine".to_owned());
    };
    match (api_version, kind) {
        (API_VERSION, "Machine") => Ok(Kind::Machine),
        (API_VERSION, "MachineClass") => Ok(Kind::MachineClass),
        (API_VERSION, "NetworkConfiguration") => Ok(Kind::NetworkConfiguration),
        ("storage.k8s.io/v1", "StorageClass") => Ok(Kind::StorageClass),
        ("v1", "Secret") => Ok(Kind::Secret),
        (API_VERSION, _) if looks_like_ours(kind) => wrong(
            "kind",
            format!("{kind:?} is not known: use Machine, MachineClass or NetworkConfiguration"),
        ),
        (API_VERSION, _) => Err(NotOurs::Foreign(format!("{kind} ({api_version})"))),
        (_, "Machine" | "MachineClass" | "NetworkConfiguration")
            if api_version.starts_with("vitistack.io/") =>
        {
            wrong(
                "apiVersion",
                format!("{api_version:?} is not served: use {API_VERSION}"),
            )
        }
        (_, "Machine" | "MachineClass" | "NetworkConfiguration") if !api_version.contains('/') => {
            wrong(
                "apiVersion",
                format!("{api_version:?} has no {kind}: use {API_VERSION}"),
            )
        }
        _ => Err(NotOurs::Foreign(format!("{kind} ({api_version})"))),
    }
}

/// Whether a kind is one of ours but for one slip; other operators of the same group have their own.
fn looks_like_ours(kind: &str) -> bool {
    let is_slip = |ours: &str| {
        let kind = kind.to_lowercase();
        let same = ours
            .chars()
            .zip(kind.chars())
            .take_while(|(a, b)| a == b)
            .count();
        let rest = |text: &str| text.chars().skip(same).collect::<Vec<_>>();
        let (ours, kind) = (rest(ours), rest(&kind));
        let same_end = ours
            .iter()
            .rev()
            .zip(kind.iter().rev())
            .take_while(|(a, b)| a == b)
            .count();
        ours.len().max(kind.len()) - same_end <= 1
    };
    ["machine", "machineclass", "networkconfiguration"]
        .into_iter()
        .any(is_slip)
}

/// A document as the resource that it is. `namespace` is that of documents that name none.
pub fn resource(kind: Kind, value: &Value, namespace: Option<&str>) -> Result<Resource, String> {
    fn typed<T: DeserializeOwned>(value: &Value) -> Result<T, String> {
        T::deserialize(value).map_err(|error| format!("cannot be understood: {error}"))
    }
    let value = &without_nulls(value);
    let default_namespace = |metadata: &mut ObjectMeta| {
        if metadata.namespace.is_none() {
            metadata.namespace = namespace.map(str::to_owned);
        }
    };
    Ok(match kind {
        Kind::Machine => {
            let mut machine: Machine = typed(value)?;
            default_namespace(&mut machine.metadata);
            Resource::Machine(Box::new(machine))
        }
        Kind::MachineClass => Resource::MachineClass(Arc::new(typed(value)?)),
        Kind::NetworkConfiguration => {
            let mut network: NetworkConfiguration = typed(value)?;
            default_namespace(&mut network.metadata);
            Resource::NetworkConfiguration(Arc::new(network))
        }
        Kind::StorageClass => Resource::StorageClass(Arc::new(typed(value)?)),
        Kind::Secret => {
            // What is wrong with a Secret is not told in detail: it could quote the content.
            let secret: Result<Secret, _> = typed(&without_line_breaks(value));
            let mut secret =
                secret.map_err(|_| "a Secret that cannot be read is not used".to_owned())?;
            default_namespace(&mut secret.metadata);
            Resource::Secret(Arc::new(secret))
        }
    })
}

/// A document whose labels and annotations are texts: the API server takes a null for an empty one.
fn without_nulls(value: &Value) -> Cow<'_, Value> {
    let fields = ["labels", "annotations"];
    let entries = |field| value.get("metadata")?.get(field)?.as_object();
    let mut found = fields
        .iter()
        .filter_map(entries)
        .flat_map(|entries| entries.values());
    if !found.any(Value::is_null) {
        return Cow::Borrowed(value);
    }
    let mut value = value.clone();
    for field in fields {
        let entries = value["metadata"]
            .get_mut(field)
            .and_then(Value::as_object_mut);
        for text in entries.into_iter().flat_map(|entries| entries.values_mut()) {
            if text.is_null() {
                *text = Value::String(String::new());
            }
        }
    }
    Cow::Owned(value)
}

/// A Secret whose base64 is on one line; people wrap it, and the API server does not mind.
fn without_line_breaks(secret: &Value) -> Value {
    let mut secret = secret.clone();
    for field in ["data", "stringData"] {
        let is_null = secret.get(field).is_some_and(Value::is_null);
        if let Some(fields) = secret.as_object_mut().filter(|_| is_null) {
            fields.remove(field);
        }
    }
    let data = secret.get_mut("data").and_then(Value::as_object_mut);
    for value in data.into_iter().flat_map(|data| data.values_mut()) {
        if let Value::String(text) = value {
            text.retain(|character| !matches!(character, '\n' | '\r'));
        }
    }
    secret
}

/// What Machines among some documents can refer to.
#[derive(Debug, Default)]
pub struct Inventory {
    cluster: Surroundings,
    namespaces: BTreeMap<Option<String>, Surroundings>,
}

impl Inventory {
    /// Collects what can be referred to. There may be more of it in the cluster.
    pub fn of<'a>(resources: impl IntoIterator<Item = &'a Resource>) -> Self {
        let mut classes = Vec::new();
        let mut storage_classes = Vec::new();
        let mut networks: BTreeMap<_, Vec<_>> = BTreeMap::new();
        let mut secrets: BTreeMap<_, Vec<_>> = BTreeMap::new();
        let name = |metadata: &ObjectMeta| metadata.name.clone().unwrap_or_default();
        for resource in resources {
            match resource {
                Resource::Machine(_) => {}
                Resource::MachineClass(class) => {
                    classes.push((name(&class.metadata), Arc::clone(class)));
                }
                Resource::StorageClass(class) => {
                    storage_classes.push((name(&class.metadata), Arc::clone(class)));
                }
                Resource::NetworkConfiguration(network) => {
                    let entry = (name(&network.metadata), Arc::clone(network));
                    networks
                        .entry(network.metadata.namespace.clone())
                        .or_default()
                        .push(entry);
                }
                Resource::Secret(secret) => {
                    let entry = (name(&secret.metadata), Arc::clone(secret));
                    secrets
                        .entry(secret.metadata.namespace.clone())
                        .or_default()
                        .push(entry);
                }
            }
        }
        let cluster = Surroundings {
            machine_classes: Known::some(classes),
            storage_classes: Known::some(storage_classes),
            ..Surroundings::default()
        };
        let mut namespaces: BTreeMap<Option<String>, Surroundings> = BTreeMap::new();
        for (namespace, networks) in networks {
            let of = namespaces
                .entry(namespace)
                .or_insert_with(|| cluster.clone());
            of.networks = Known::some(networks);
        }
        for (namespace, secrets) in secrets {
            let of = namespaces
                .entry(namespace)
                .or_insert_with(|| cluster.clone());
            of.secrets = Known::some(secrets);
        }
        Self {
            cluster,
            namespaces,
        }
    }

    /// What a Machine of a namespace can refer to.
    pub fn surroundings(&self, namespace: Option<&String>) -> &Surroundings {
        self.namespaces
            .get(&namespace.cloned())
            .unwrap_or(&self.cluster)
    }
}
