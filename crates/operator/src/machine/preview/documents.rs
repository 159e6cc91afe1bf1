//! Classification of the documents that a preview is computed for.

use std::collections::BTreeMap;

use runtime::cache::Key;
use serde_json::Value;

use super::Kind;
use crate::{
    documents::{Document, Origin},
    manifests::{self, Resource, UnknownKind},
};

/// Classified documents.
#[derive(Debug, Default)]
pub struct Documents {
    /// Machines, MachineClasses and NetworkConfigurations to apply.
    pub given: Vec<GivenDocument>,
    /// StorageClasses and Secrets that Machines can refer to; the preview assumes that they exist.
    pub others: Vec<Resource>,
    /// Documents of other kinds, with a note.
    pub ignored: Vec<(Origin, String)>,
    pub errors: Vec<String>,
}

/// Document to apply.
#[derive(Debug)]
pub struct GivenDocument {
    pub kind: Kind,
    pub key: Key,
    /// Content, with the namespace set.
    pub value: Value,
    pub origin: Origin,
}

impl Documents {
    /// Classifies documents. `namespace` is the default for those without one.
    pub fn classify(documents: Vec<Document>, namespace: &str) -> Self {
        let mut classified = Self::default();
        let mut origins = BTreeMap::new();
        for document in documents {
            let origin = document.origin.clone();
            match classified.add(document, namespace, &mut origins) {
                Ok(()) => {}
                Err(message) => classified.errors.push(format!("{origin}: {message}")),
            }
        }
        classified
    }

    fn add(
        &mut self,
        document: Document,
        namespace: &str,
        origins: &mut BTreeMap<(Kind, Key), Origin>,
    ) -> Result<(), String> {
        let Document { origin, mut value } = document;
        let kind = match manifests::kind(&value) {
            Ok(manifests::Kind::Machine) => Kind::Machine,
            Ok(manifests::Kind::MachineClass) => Kind::MachineClass,
            Ok(manifests::Kind::NetworkConfiguration) => Kind::NetworkConfiguration,
            Ok(kind @ (manifests::Kind::StorageClass | manifests::Kind::Secret)) => {
                match manifests::resource(kind, &value, Some(namespace)) {
                    Ok(resource) => self.others.push(resource),
                    Err(message) => self.ignored.push((origin, message)),
                }
                return Ok(());
            }
            Err(UnknownKind::Foreign(what)) => {
                let message = format!("{what} is ignored");
                self.ignored.push((origin, message));
                return Ok(());
            }
            Err(UnknownKind::Invalid { path: "", message }) => return Err(message),
            Err(UnknownKind::Invalid { path, message }) => {
                return Err(format!("{path}: {message}"));
            }
        };
        let name = value["metadata"]["name"].as_str().unwrap_or_default();
        if name.is_empty() {
            return Err("metadata.name: is missing: give the object a name".to_owned());
        }
        let name = name.to_owned();
        let key = if kind == Kind::MachineClass {
            Key::new("", &name)
        } else {
            let metadata = &mut value["metadata"];
            let given = metadata["namespace"].as_str().filter(|it| !it.is_empty());
            let namespace = given.unwrap_or(namespace).to_owned();
            metadata["namespace"] = Value::String(namespace.clone());
            Key::new(&namespace, &name)
        };
        if let Some(first) = origins.get(&(kind, key.clone())) {
            let kind = kind.as_str();
            return Err(format!(
                "{kind} {name:?} is already defined in {first}: remove one of them"
            ));
        }
        origins.insert((kind, key.clone()), origin.clone());
        self.given.push(GivenDocument {
            kind,
            key,
            value,
            origin,
        });
        Ok(())
    }
}
