//! Customizations of the release's objects by the KubeVirt resource: `spec.customizeComponents`.
//!
//! - A patch matches objects by kind and name; `*` matches any, and case is ignored. Patches are applied
//!   in their order, then flags.
//! - Patches always apply to the object of the release, so the result does not depend on how often they
//!   are applied.
//! - Only kinds in [`CUSTOMIZABLE`] are patched, as in KubeVirt's virt-operator.
//! - A patch that cannot be applied changes nothing; the error names the patch, the object and the
//!   cause.

mod shapes;

use std::{collections::BTreeMap, fmt, fmt::Write as _};

use api::kubevirt::install::{CustomizeComponents, CustomizePatch};
use merge::{json_patch, merge_patch, strategic};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use super::{
    object::{Id, Object},
    tree,
};

/// Kinds that can be patched.
pub const CUSTOMIZABLE: [&str; 6] = [
    "Deployment",
    "DaemonSet",
    "Service",
    "ValidatingWebhookConfiguration",
    "MutatingWebhookConfiguration",
    "APIService",
];

/// Parsed patches and flags of a KubeVirt resource.
#[derive(Debug)]
pub struct Customizer {
    patches: Vec<Patch>,
    identifier: String,
}

#[derive(Debug)]
struct Patch {
    /// Its path in the KubeVirt resource.
    field: String,
    kind: String,
    name: String,
    body: Body,
}

#[derive(Debug)]
enum Body {
    Json(Value),
    Merge(Value),
    Strategic(Value),
    /// The command of the container that has the object's name.
    Command(Vec<String>),
}

/// A patch that cannot be applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CustomizeError {
    /// Path of the patch in the KubeVirt resource.
    pub field: String,
    /// None if the patch cannot be parsed.
    pub object: Option<Id>,
    pub reason: String,
}

impl fmt::Display for CustomizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            field,
            object,
            reason,
        } = self;
        match object {
            Some(object) => write!(f, "{field} cannot be applied to {object}: {reason}"),
            None => write!(f, "{field}: {reason}"),
        }
    }
}

impl std::error::Error for CustomizeError {}

impl Customizer {
    /// Parses the customizations of a KubeVirt resource.
    ///
    /// # Errors
    /// When a patch is not JSON, or of an unknown type.
    pub fn new(components: Option<&CustomizeComponents>) -> Result<Self, CustomizeError> {
        let none = CustomizeComponents::default();
        let components = components.unwrap_or(&none);
        let written = components.patches.iter().flatten().enumerate();
        let mut patches = written
            .map(|(at, patch)| Patch::read(at, patch))
            .collect::<Result<Vec<_>, _>>()?;
        let flags = components.flags.clone().unwrap_or_default();
        let flags = [
            ("api", "Deployment", "virt-api", flags.api),
            (
                "controller",
                "Deployment",
                "virt-controller",
                flags.controller,
            ),
            ("handler", "DaemonSet", "virt-handler", flags.handler),
        ];
        for (field, kind, name, flags) in flags {
            let flags = flags.unwrap_or_default();
            if !flags.is_empty() {
                patches.push(Patch {
                    field: format!("spec.customizeComponents.flags.{field}"),
                    kind: kind.to_owned(),
                    name: name.to_owned(),
                    body: Body::Command(command(name, &flags)),
                });
            }
        }
        Ok(Self {
            patches,
            identifier: identifier(components),
        })
    }

    /// Digest of all customizations.
    pub fn identifier(&self) -> &str {
        &self.identifier
    }

    /// Whether objects of a kind can be customized, and have the digest as annotation.
    pub fn concerns(id: &Id) -> bool {
        CUSTOMIZABLE.contains(&&*id.kind)
    }

    /// Applies all matching patches to an object.
    ///
    /// # Errors
    /// When a patch cannot be applied, or changes the identity of the object, which stays unchanged then.
    pub fn apply(&self, id: &Id, object: &mut Value) -> Result<(), CustomizeError> {
        if !Self::concerns(id) {
            return Ok(());
        }
        let mut patched = None;
        for patch in self.patches.iter().filter(|patch| patch.is_for(id)) {
            let copy = patched.get_or_insert_with(|| object.clone());
            let fail = |reason: String| CustomizeError {
                field: patch.field.clone(),
                object: Some(id.clone()),
                reason,
            };
            patch.body.apply(id, copy).map_err(fail)?;
            if let Some(changed) = changed_identity(object, copy) {
                return Err(fail(format!("{changed} cannot be changed")));
            }
        }
        if let Some(patched) = patched {
            *object = patched;
        }
        Ok(())
    }

    /// Whether a patch sets the replicas of a Deployment.
    pub fn sets_replicas(&self, id: &Id) -> bool {
        let mut patches = self.patches.iter().filter(|patch| patch.is_for(id));
        patches.any(|patch| match &patch.body {
            Body::Json(operations) => tree::items(operations, "")
                .any(|operation| tree::text(operation, "/path") == Some("/spec/replicas")),
            Body::Merge(patch) | Body::Strategic(patch) => {
                patch.pointer("/spec/replicas").is_some()
            }
            Body::Command(_) => false,
        })
    }

    /// Paths of the patches that match none of the objects.
    pub fn unused<'a>(&'a self, objects: &'a [Object]) -> impl Iterator<Item = &'a str> {
        let is_used = |patch: &Patch| {
            let mut ids = objects.iter().map(|object| &object.id);
            ids.any(|id| Self::concerns(id) && patch.is_for(id))
        };
        let unused = self.patches.iter().filter(move |patch| !is_used(patch));
        unused.map(|patch| patch.field.as_str())
    }
}

impl Patch {
    fn read(at: usize, patch: &CustomizePatch) -> Result<Self, CustomizeError> {
        let field = format!("spec.customizeComponents.patches[{at}]");
        let fail = |reason: String| CustomizeError {
            field: field.clone(),
            object: None,
            reason,
        };
        let body = serde_json::from_str(&patch.patch)
            .map_err(|error| fail(format!("patch is not JSON: {error}")))?;
        let body = match patch.type_.as_str() {
            "json" => Body::Json(body),
            "merge" => Body::Merge(body),
            "strategic" => Body::Strategic(body),
            other => {
                let reason = format!("type is {other:?}; it must be json, merge or strategic");
                return Err(fail(reason));
            }
        };
        Ok(Self {
            kind: patch.resource_type.clone(),
            name: patch.resource_name.clone(),
            body,
            field,
        })
    }

    fn is_for(&self, id: &Id) -> bool {
        let matches = |wanted: &str, actual: &str| {
            wanted == "*" || wanted.to_lowercase() == actual.to_lowercase()
        };
        matches(&self.kind, &id.kind) && matches(&self.name, &id.name)
    }
}

impl Body {
    fn apply(&self, id: &Id, object: &mut Value) -> Result<(), String> {
        match self {
            Self::Json(patch) => {
                json_patch::apply(object, patch).map_err(|error| error.to_string())
            }
            Self::Merge(patch @ Value::Object(_)) => {
                merge_patch::apply(object, patch);
                Ok(())
            }
            Self::Merge(_) => Err("a merge patch must be an object".to_owned()),
            Self::Strategic(patch) => {
                let patched = strategic::apply(&shapes::of(&id.kind), object, patch);
                *object = patched.map_err(|error| error.to_string())?;
                Ok(())
            }
            Self::Command(command) => replace_command(object, &id.name, command),
        }
    }
}

fn replace_command(object: &mut Value, name: &str, command: &[String]) -> Result<(), String> {
    let mut containers = tree::items_mut(object, "/spec/template/spec/containers");
    let container = containers.find(|container| tree::text(container, "/name") == Some(name));
    let fields = container.and_then(Value::as_object_mut);
    let fields = fields.ok_or_else(|| format!("it has no container {name}"))?;
    fields.insert("command".to_owned(), json!(command));
    Ok(())
}

/// The changed field of an object's identity.
fn changed_identity(before: &Value, after: &Value) -> Option<&'static str> {
    const FIELDS: [&str; 4] = [
        "/apiVersion",
        "/kind",
        "/metadata/name",
        "/metadata/namespace",
    ];
    let changed = |field: &&&str| before.pointer(field) != after.pointer(field);
    let field = FIELDS.iter().find(changed)?;
    Some(match *field {
        "/apiVersion" => "apiVersion",
        "/kind" => "kind",
        "/metadata/name" => "metadata.name",
        _ => "metadata.namespace",
    })
}

/// The command of a program with flags. Values keep their case: many are file names.
fn command(program: &str, flags: &BTreeMap<String, String>) -> Vec<String> {
    let mut command = vec![program.to_owned()];
    for (name, value) in flags {
        let name = name.to_lowercase();
        match value.to_lowercase().as_str() {
            "" => command.push(format!("--{name}")),
            switch @ ("true" | "false") => command.push(format!("--{name}={switch}")),
            _ => command.extend([format!("--{name}"), value.clone()]),
        }
    }
    command
}

fn identifier(components: &CustomizeComponents) -> String {
    let Ok(Value::Object(fields)) = serde_json::to_value(components) else {
        return String::new();
    };
    let text = Value::Object(sorted(fields)).to_string();
    let mut identifier = String::new();
    for byte in Sha256::digest(text.as_bytes()).iter().take(20) {
        let _ = write!(identifier, "{byte:02x}");
    }
    identifier
}

/// The fields in an order that does not depend on features of the JSON library.
fn sorted(fields: Map<String, Value>) -> Map<String, Value> {
    let sorted: BTreeMap<_, _> = fields.into_iter().collect();
    sorted.into_iter().collect()
}

#[cfg(test)]
mod tests;
