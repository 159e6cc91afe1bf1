//! Typed resources of documents, and the surroundings of Machines among them.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use api::{
    API_VERSION, Machine, MachineClass, NetworkConfiguration, ObjectMeta,
    core::{Secret, StorageClass},
};
use plan::machine::{Known, Provider, Surroundings};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Resource of a known kind.
#[derive(Clone, Debug)]
pub enum Resource {
    Machine(Box<Machine>),
    MachineClass(Arc<MachineClass>),
    NetworkConfiguration(Arc<NetworkConfiguration>),
    StorageClass(Arc<StorageClass>),
    Secret(Arc<Secret>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Machine,
    MachineClass,
    NetworkConfiguration,
    StorageClass,
    Secret,
}

impl Kind {
    /// Whether the kind is in the API group vitistack.io.
    pub fn is_vitistack(self) -> bool {
        matches!(
            self,
            Self::Machine | Self::MachineClass | Self::NetworkConfiguration
        )
    }
}

/// Document of an unknown kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnknownKind {
    /// Kind of another project: ignored.
    Foreign(String),
    /// Not a Kubernetes object, or a misspelled kind of vitistack.io.
    Invalid { path: &'static str, message: String },
}

/// Kind of a document, by its apiVersion and kind.
pub fn kind(value: &Value) -> Result<Kind, UnknownKind> {
    let invalid = |path, message: String| Err(UnknownKind::Invalid { path, message });
    if !value.is_object() {
        return invalid(
            "",
            "is not a Kubernetes object: expected a mapping with apiVersion, kind and metadata"
                .to_owned(),
        );
    }
    let Some(api_version) = value.get("apiVersion").and_then(Value::as_str) else {
        return invalid(
            "apiVersion",
            format!("is missing: for a Machine it is {API_VERSION}"),
        );
    };
    let Some(kind) = value.get("kind").and_then(Value::as_str) else {
        return invalid("kind", "is missing: for a Machine it is Machine".to_owned());
    };
    match (api_version, kind) {
        (API_VERSION, "Machine") => Ok(Kind::Machine),
        (API_VERSION, "MachineClass") => Ok(Kind::MachineClass),
        (API_VERSION, "NetworkConfiguration") => Ok(Kind::NetworkConfiguration),
        ("storage.k8s.io/v1", "StorageClass") => Ok(Kind::StorageClass),
        ("v1", "Secret") => Ok(Kind::Secret),
        (API_VERSION, _) if is_misspelled(kind) => invalid(
            "kind",
            format!("{kind:?} is not known: use Machine, MachineClass or NetworkConfiguration"),
        ),
        (API_VERSION, _) => Err(UnknownKind::Foreign(format!("{kind} ({api_version})"))),
        (_, "Machine" | "MachineClass" | "NetworkConfiguration")
            if api_version.starts_with("vitistack.io/") =>
        {
            invalid(
                "apiVersion",
                format!("{api_version:?} is not served: use {API_VERSION}"),
            )
        }
        (_, "Machine" | "MachineClass" | "NetworkConfiguration") if !api_version.contains('/') => {
            invalid(
                "apiVersion",
                format!("{api_version:?} has no {kind}: use {API_VERSION}"),
            )
        }
        _ => Err(UnknownKind::Foreign(format!("{kind} ({api_version})"))),
    }
}

/// Whether a kind differs from one of vitistack.io by one character; other kinds of the group belong to
/// other operators.
fn is_misspelled(kind: &str) -> bool {
    let is_close = |known: &str| {
        let kind = kind.to_lowercase();
        let same = known
            .chars()
            .zip(kind.chars())
            .take_while(|(a, b)| a == b)
            .count();
        let rest = |text: &str| text.chars().skip(same).collect::<Vec<_>>();
        let (known, kind) = (rest(known), rest(&kind));
        let same_end = known
            .iter()
            .rev()
            .zip(kind.iter().rev())
            .take_while(|(a, b)| a == b)
            .count();
        known.len().max(kind.len()) - same_end <= 1
    };
    ["machine", "machineclass", "networkconfiguration"]
        .into_iter()
        .any(is_close)
}

/// Decodes a document. `namespace` is the default for documents without one.
pub fn resource(kind: Kind, value: &Value, namespace: Option<&str>) -> Result<Resource, String> {
    fn typed<T: DeserializeOwned>(value: &Value) -> Result<T, String> {
        T::deserialize(value).map_err(|error| format!("cannot be decoded: {error}"))
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
            // The error could quote the data.
            let secret: Result<Secret, _> = typed(&without_line_breaks(value));
            let mut secret =
                secret.map_err(|_| "the Secret cannot be decoded and is ignored".to_owned())?;
            default_namespace(&mut secret.metadata);
            Resource::Secret(Arc::new(secret))
        }
    })
}

/// Replaces null labels and annotations by empty ones, as the API server does.
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

/// Removes line breaks from base64 data, which the API server accepts.
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

/// Surroundings of the Machines in a set of documents.
#[derive(Debug, Default)]
pub struct Inventory {
    cluster: Surroundings,
    namespaces: BTreeMap<Option<String>, Surroundings>,
}

impl Inventory {
    /// Collects the surroundings; the cluster may contain more.
    pub fn of<'a>(resources: impl IntoIterator<Item = &'a Resource>, provider: Provider) -> Self {
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
            provider,
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

    /// Surroundings of the Machines of a namespace.
    pub fn surroundings(&self, namespace: Option<&String>) -> &Surroundings {
        self.namespaces
            .get(&namespace.cloned())
            .unwrap_or(&self.cluster)
    }
}
