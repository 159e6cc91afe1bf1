//! Desired and live objects of an installation.
//!
//! Both are stored as JSON text: parsed values take several times the memory, and most are rarely read.

mod ownership;

use std::{collections::BTreeMap, fmt, sync::Arc};

use serde::Deserialize;
use serde_json::Value;

use api::kubevirt::install;
use ownership::owns_more;

use crate::null;
pub use crate::{fingerprint::Fingerprint, id::Id};

/// Desired object: exactly the fields that the operator owns.
#[derive(Clone, PartialEq, Eq)]
pub struct Object {
    pub id: Id,
    pub version: Arc<str>,
    pub fingerprint: Fingerprint,
    text: Arc<str>,
}

/// Error: apiVersion, kind or name is missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unnamed;

impl Object {
    /// The object with these fields, without null ones ([`null`]).
    ///
    /// # Errors
    /// When it has no apiVersion, kind or name.
    pub fn new(value: &Value) -> Result<Self, Unnamed> {
        let text = |pointer: &str| value.pointer(pointer).and_then(Value::as_str);
        let (group, version) = split(text("/apiVersion").ok_or(Unnamed)?);
        let name = text("/metadata/name").filter(|name| !name.is_empty());
        let id = Id::new(
            group,
            text("/kind").ok_or(Unnamed)?,
            text("/metadata/namespace").unwrap_or_default(),
            name.ok_or(Unnamed)?,
        );
        let text = match null::find(value) {
            Some(_) if !id.may_contain_null() => {
                let mut value = value.clone();
                null::remove(&mut value);
                value.to_string()
            }
            _ => value.to_string(),
        };
        Ok(Self {
            id,
            version: version.into(),
            fingerprint: Fingerprint::of(&text),
            text: text.into(),
        })
    }

    /// An object whose text is known to match its identity.
    pub(super) fn from_text(id: Id, version: Arc<str>, text: &str) -> Self {
        Self {
            id,
            version,
            fingerprint: Fingerprint::of(text),
            text: text.into(),
        }
    }

    pub fn api_version(&self) -> String {
        joined(&self.id.group, &self.version)
    }

    pub fn text(&self) -> &Arc<str> {
        &self.text
    }

    pub fn value(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_default()
    }
}

/// Without content, which may be secret.
impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Object({})", self.id)
    }
}

/// Live object of the cluster, without its managed fields.
#[derive(Clone, PartialEq, Eq)]
pub struct Live {
    pub id: Id,
    /// The version in which it was read.
    pub version: Arc<str>,
    pub uid: Box<str>,
    pub resource_version: Box<str>,
    pub generation: Option<i64>,
    pub deleting: bool,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    pub finalizers: Vec<String>,
    /// Indices of the managed-fields entries of KubeVirt's virt-operator, which the operator makes its
    /// own before the first apply.
    pub upstream_entries: Vec<usize>,
    /// The fields of those entries, as `FieldsV1`.
    upstream_fields: Vec<Box<str>>,
    /// Of everything but status and resourceVersion.
    pub fingerprint: Fingerprint,
    text: Arc<str>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    name: String,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    uid: Box<str>,
    #[serde(default)]
    resource_version: Box<str>,
    generation: Option<i64>,
    deletion_timestamp: Option<String>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
    #[serde(default)]
    finalizers: Vec<String>,
    #[serde(default)]
    managed_fields: Vec<ManagedFields>,
}

#[derive(Deserialize)]
struct ManagedFields {
    #[serde(default)]
    manager: String,
    #[serde(default)]
    operation: String,
    #[serde(default)]
    subresource: String,
    #[serde(default, rename = "fieldsV1")]
    fields: Value,
}

impl Live {
    /// An object from a list, watch or answer. Items of lists may lack apiVersion and kind, so the caller
    /// passes them.
    ///
    /// # Errors
    /// When it has no name or malformed metadata.
    pub fn new(group: &str, version: &str, kind: &str, mut value: Value) -> Result<Self, Unnamed> {
        let metadata = value.get("metadata").ok_or(Unnamed)?;
        let metadata = decode::from_value_ref::<Metadata>(metadata).map_err(|_| Unnamed)?;
        if let Some(fields) = value.get_mut("metadata").and_then(Value::as_object_mut) {
            fields.remove("managedFields");
        }
        if let Some(fields) = value.as_object_mut() {
            fields.insert("apiVersion".into(), joined(group, version).into());
            fields.insert("kind".into(), kind.into());
        }
        let text: Arc<str> = value.to_string().into();
        if let Some(fields) = value.as_object_mut() {
            fields.remove("status");
        }
        if let Some(fields) = value.get_mut("metadata").and_then(Value::as_object_mut) {
            fields.remove("resourceVersion");
        }
        let entries = metadata.managed_fields.iter().enumerate();
        let upstream = entries.filter(|(_, entry)| {
            entry.manager == install::UPSTREAM_FIELD_MANAGER
                && entry.operation == "Update"
                && entry.subresource.is_empty()
        });
        let fields = |(at, entry): (usize, &ManagedFields)| (at, entry.fields.to_string().into());
        let (upstream_entries, upstream_fields) = upstream.map(fields).unzip();
        Ok(Self {
            id: Id::new(group, kind, &metadata.namespace, &metadata.name),
            version: version.into(),
            uid: metadata.uid,
            resource_version: metadata.resource_version,
            generation: metadata.generation,
            deleting: metadata.deletion_timestamp.is_some(),
            labels: metadata.labels,
            annotations: metadata.annotations,
            finalizers: metadata.finalizers,
            upstream_entries,
            upstream_fields,
            fingerprint: Fingerprint::of(&value.to_string()),
            text,
        })
    }

    /// Whether its managed-by label is that of KubeVirt.
    pub fn is_managed(&self) -> bool {
        let manager = self.labels.get(install::MANAGED_BY).map(String::as_str);
        matches!(manager, Some(install::MANAGER | install::OLD_MANAGER))
    }

    /// [`Live::upstream_entries`], if they own a field that `wanted` does not have and that is not a
    /// default of the API server: an apply removes it only once the operator owns the entries. Without
    /// such a field an apply is enough.
    pub(super) fn upstream_entries_for(&self, wanted: &Object) -> Vec<usize> {
        if self.upstream_entries.is_empty() {
            return Vec::new();
        }
        let (live, wanted) = (self.value(), wanted.value());
        let owns_more = self.upstream_fields.iter().any(|fields| {
            let fields: Value = serde_json::from_str(fields).unwrap_or_default();
            owns_more(&self.id.kind, &fields, Some(&live), Some(&wanted))
        });
        if owns_more {
            self.upstream_entries.clone()
        } else {
            Vec::new()
        }
    }

    pub fn text(&self) -> &Arc<str> {
        &self.text
    }

    pub fn value(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_default()
    }
}

/// Without content, which may be secret.
impl fmt::Debug for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Live({} at {})", self.id, self.resource_version)
    }
}

/// Group and version of an `apiVersion`.
pub(super) fn split(api_version: &str) -> (&str, &str) {
    api_version.split_once('/').unwrap_or(("", api_version))
}

/// The `apiVersion` of a group and a version.
pub(super) fn joined(group: &str, version: &str) -> String {
    if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    }
}
