//! Documents, by what is to be done with them.

use std::collections::BTreeMap;

use runtime::cache::Key;
use serde_json::Value;

use super::Kind;
use crate::{
    documents::{Document, Origin},
    manifests::{self, NotOurs, Resource},
};

/// Documents that are to be applied, and what is to be known of the others.
#[derive(Debug, Default)]
pub struct Documents {
    /// Those that are ours.
    pub given: Vec<Given>,
    /// Those that Machines can refer to: taken for applied.
    pub others: Vec<Resource>,
    /// Those that are not looked at, and what they are.
    pub passed_over: Vec<(Origin, String)>,
    /// What is wrong with the rest.
    pub wrong: Vec<String>,
}

/// A document that is to be applied.
#[derive(Debug)]
pub struct Given {
    /// What it is of.
    pub kind: Kind,
    /// Its name.
    pub key: Key,
    /// What it says, with its namespace.
    pub value: Value,
    /// Where it was found.
    pub origin: Origin,
}

impl Documents {
    /// Sorts documents. `namespace` is that of those that name none.
    pub fn sort(documents: Vec<Document>, namespace: &str) -> Self {
        let mut sorted = Self::default();
        let mut seen = BTreeMap::new();
        for document in documents {
            let origin = document.origin.clone();
            match sorted.take(document, namespace, &mut seen) {
                Ok(()) => {}
                Err(message) => sorted.wrong.push(format!("{origin}: {message}")),
            }
        }
        sorted
    }

    fn take(
        &mut self,
        document: Document,
        namespace: &str,
        seen: &mut BTreeMap<(Kind, Key), Origin>,
    ) -> Result<(), String> {
        let Document { origin, mut value } = document;
        let kind = match manifests::kind(&value) {
            Ok(manifests::Kind::Machine) => Kind::Machine,
            Ok(manifests::Kind::MachineClass) => Kind::MachineClass,
            Ok(manifests::Kind::NetworkConfiguration) => Kind::NetworkConfiguration,
            Ok(kind @ (manifests::Kind::StorageClass | manifests::Kind::Secret)) => {
                match manifests::resource(kind, &value, Some(namespace)) {
                    Ok(resource) => self.others.push(resource),
                    Err(message) => self.passed_over.push((origin, message)),
                }
                return Ok(());
            }
            Err(NotOurs::Foreign(what)) => {
                let message = format!("{what} is passed over");
                self.passed_over.push((origin, message));
                return Ok(());
            }
            Err(NotOurs::Wrong { path: "", message }) => return Err(message),
            Err(NotOurs::Wrong { path, message }) => return Err(format!("{path}: {message}")),
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
        if let Some(first) = seen.get(&(kind, key.clone())) {
            let kind = kind.as_str();
            return Err(format!(
                "{kind} {name:?} is already given by {first}: remove one of them"
            ));
        }
        seen.insert((kind, key.clone()), origin.clone());
        self.given.push(Given {
            kind,
            key,
            value,
            origin,
        });
        Ok(())
    }
}
