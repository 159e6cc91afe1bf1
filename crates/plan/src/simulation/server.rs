//! Store of a simulated API server, and its verbs.

use std::collections::BTreeMap;

use api::Time;
use serde_json::{Value, json};

use crate::{Id, preview::overlay};

/// Form in which a [`Server`] stores objects.
pub trait Stored: Clone {
    /// None if the value is not an object of this identity.
    fn from_value(id: &Id, value: Value) -> Option<Self>;

    fn to_value(&self) -> Value;

    fn uid(&self) -> &str;
}

impl Stored for Value {
    fn from_value(_: &Id, value: Value) -> Option<Self> {
        Some(value)
    }

    fn to_value(&self) -> Value {
        self.clone()
    }

    fn uid(&self) -> &str {
        self["metadata"]["uid"].as_str().unwrap_or_default()
    }
}

/// Refusal of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerError {
    AlreadyExists,
    NotFound,
    /// The object has another UID or resourceVersion than the write asks for.
    Conflict,
    /// The result is not an object.
    Invalid,
}

/// State of an object before and after a write; None while it does not exist.
#[derive(Clone, Debug, PartialEq)]
pub struct Written<T> {
    pub id: Id,
    pub before: Option<T>,
    pub after: Option<T>,
}

/// Objects of any kind by identity.
#[derive(Clone, Debug)]
pub struct Server<T> {
    objects: BTreeMap<Id, T>,
    /// Fields of the last apply.
    applied: BTreeMap<Id, Value>,
    set_defaults: fn(&mut Value),
    revision: u64,
}

impl<T: Stored> Server<T> {
    pub fn new(objects: BTreeMap<Id, T>) -> Self {
        Self {
            objects,
            applied: BTreeMap::new(),
            set_defaults: |_| {},
            revision: 0,
        }
    }

    /// Sets fields of applied objects that have no value.
    #[must_use]
    pub fn with_defaults(self, set_defaults: fn(&mut Value)) -> Self {
        Self {
            set_defaults,
            ..self
        }
    }

    pub fn objects(&self) -> &BTreeMap<Id, T> {
        &self.objects
    }

    pub fn get(&self, id: &Id) -> Option<&T> {
        self.objects.get(id)
    }

    /// Fields of the last apply to each object.
    pub fn applied(&self) -> &BTreeMap<Id, Value> {
        &self.applied
    }

    /// Assumes that the last apply to an object had these fields.
    pub fn assume_applied(&mut self, id: Id, fields: Value) {
        self.applied.insert(id, fields);
    }

    /// A number greater than all before, as that of a write.
    pub fn next_revision(&mut self) -> u64 {
        self.revision = self.revision.saturating_add(1);
        self.revision
    }

    pub fn create(&mut self, id: &Id, value: Value, now: &Time) -> Result<Written<T>, ServerError> {
        if self.objects.contains_key(id) {
            return Err(ServerError::AlreadyExists);
        }
        self.store_new(id, value, now)
    }

    /// Server-side apply; creates the object if it does not exist and no UID is required.
    pub fn apply(
        &mut self,
        id: &Id,
        fields: &Value,
        uid: Option<&str>,
        now: &Time,
    ) -> Result<Written<T>, ServerError> {
        let found = match self.checked(id, uid) {
            Ok(found) => Some(found.to_value()),
            Err(ServerError::NotFound) if uid.is_none() => None,
            Err(error) => return Err(error),
        };
        let exists = found.is_some();
        let owned = self.applied.get(id);
        let mut value = overlay(found.unwrap_or_default(), owned, fields);
        (self.set_defaults)(&mut value);
        let written = if exists {
            self.store(id, value)
        } else {
            self.store_new(id, value, now)
        }?;
        if written.after.is_some() {
            self.applied.insert(id.clone(), fields.clone());
        }
        Ok(written)
    }

    /// Changes an object.
    pub fn update(
        &mut self,
        id: &Id,
        change: impl FnOnce(&mut Value),
    ) -> Result<Written<T>, ServerError> {
        let mut value = self.checked(id, None)?.to_value();
        change(&mut value);
        self.store(id, value)
    }

    /// JSON merge patch. A UID or resourceVersion in the patch must be that of the object.
    pub fn patch(&mut self, id: &Id, patch: &Value) -> Result<Written<T>, ServerError> {
        let mut value = self.checked(id, None)?.to_value();
        for field in ["/metadata/uid", "/metadata/resourceVersion"] {
            let required = patch.pointer(field);
            if required.is_some() && required != value.pointer(field) {
                return Err(ServerError::Conflict);
            }
        }
        merge::merge_patch::apply(&mut value, patch);
        self.store(id, value)
    }

    /// Deletes an object. It exists until its finalizers are removed, except those that others remove
    /// at once.
    pub fn delete(
        &mut self,
        id: &Id,
        uid: Option<&str>,
        now: &Time,
        is_removed: impl Fn(&str) -> bool,
    ) -> Result<Written<T>, ServerError> {
        let mut value = self.checked(id, uid)?.to_value();
        if let Some(metadata) = metadata(&mut value) {
            let at = || now.0.to_string().into();
            metadata.entry("deletionTimestamp").or_insert_with(at);
            if let Some(Value::Array(finalizers)) = metadata.get_mut("finalizers") {
                finalizers.retain(|name| !name.as_str().is_some_and(&is_removed));
            }
        }
        self.store(id, value)
    }

    fn checked(&self, id: &Id, uid: Option<&str>) -> Result<&T, ServerError> {
        let found = self.objects.get(id).ok_or(ServerError::NotFound)?;
        if uid.is_some_and(|uid| uid != found.uid()) {
            return Err(ServerError::Conflict);
        }
        Ok(found)
    }

    fn store_new(
        &mut self,
        id: &Id,
        mut value: Value,
        now: &Time,
    ) -> Result<Written<T>, ServerError> {
        let revision = self.next_revision();
        if let Some(metadata) = metadata(&mut value) {
            let uid = || format!("simulated-{revision}").into();
            metadata.entry("uid").or_insert_with(uid);
            let at = || now.0.to_string().into();
            metadata.entry("creationTimestamp").or_insert_with(at);
            metadata.entry("generation").or_insert_with(|| 1.into());
            metadata.insert("resourceVersion".into(), revision.to_string().into());
        }
        self.insert(id, None, value)
    }

    /// Replaces an existing object.
    fn store(&mut self, id: &Id, mut value: Value) -> Result<Written<T>, ServerError> {
        let before = self.objects.get(id).cloned();
        let found = before.as_ref().map(T::to_value).unwrap_or_default();
        if is_released(&value) {
            self.objects.remove(id);
            self.applied.remove(id);
            return Ok(Written {
                id: id.clone(),
                before,
                after: None,
            });
        }
        if value == found {
            return Ok(Written {
                id: id.clone(),
                after: before.clone(),
                before,
            });
        }
        let revision = self.next_revision();
        let has_new_spec = value.get("spec") != found.get("spec");
        let generation = found
            .pointer("/metadata/generation")
            .and_then(Value::as_i64);
        if let Some(metadata) = metadata(&mut value) {
            metadata.insert("resourceVersion".into(), revision.to_string().into());
            if has_new_spec {
                let generation = generation.unwrap_or_default().saturating_add(1);
                metadata.insert("generation".into(), generation.into());
            }
        }
        self.insert(id, before, value)
    }

    fn insert(
        &mut self,
        id: &Id,
        before: Option<T>,
        value: Value,
    ) -> Result<Written<T>, ServerError> {
        let after = T::from_value(id, value).ok_or(ServerError::Invalid)?;
        self.objects.insert(id.clone(), after.clone());
        Ok(Written {
            id: id.clone(),
            before,
            after: Some(after),
        })
    }
}

fn metadata(value: &mut Value) -> Option<&mut serde_json::Map<String, Value>> {
    let fields = value.as_object_mut()?;
    let metadata = fields.entry("metadata").or_insert_with(|| json!({}));
    metadata.as_object_mut()
}

/// Whether a terminating object has no finalizer left.
fn is_released(value: &Value) -> bool {
    let metadata = &value["metadata"];
    let finalizers = metadata["finalizers"].as_array();
    !metadata["deletionTimestamp"].is_null() && finalizers.is_none_or(Vec::is_empty)
}
