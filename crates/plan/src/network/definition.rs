//! Comparison of the existing attachment definition with the desired one.

use api::{ObjectMeta, multus::NetworkAttachmentDefinition};
use serde_json::Value;

use super::Observed;
use crate::{machine::build::attachment_definition, managed};

/// The existing attachment definition.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Definition<'a> {
    Missing,
    UpToDate {
        found: &'a NetworkAttachmentDefinition,
        uid: &'a str,
    },
    Differs {
        found: &'a NetworkAttachmentDefinition,
        uid: &'a str,
    },
    Terminating,
    Foreign,
}

impl<'a> Definition<'a> {
    pub(super) fn of(observed: &Observed<'a>) -> Self {
        let Some(found) = observed.attachment else {
            return Self::Missing;
        };
        let owner = observed.network.metadata.uid.as_deref();
        let (true, Some(uid)) = (
            managed::is_owned_by(&found.metadata, owner),
            found.metadata.uid.as_deref(),
        ) else {
            return Self::Foreign;
        };
        if found.metadata.deletion_timestamp.is_some() {
            return Self::Terminating;
        }
        let desired = attachment_definition(observed.network);
        if desired.is_none_or(|desired| has(found, &desired)) {
            Self::UpToDate { found, uid }
        } else {
            Self::Differs { found, uid }
        }
    }
}

/// Whether a definition has all desired fields. Others may have added to its metadata.
fn has(found: &NetworkAttachmentDefinition, desired: &NetworkAttachmentDefinition) -> bool {
    differing(found, desired).is_empty()
}

/// Fields of a definition that differ from the desired ones.
pub(super) fn differing(
    found: &NetworkAttachmentDefinition,
    desired: &NetworkAttachmentDefinition,
) -> Vec<String> {
    let mut fields = Vec::new();
    if !same_json(&found.spec.config, &desired.spec.config) {
        fields.push("spec.config".to_owned());
    }
    let labels = desired.metadata.labels.iter().flatten();
    let has = |name: &str| found.metadata.labels.as_ref().and_then(|all| all.get(name));
    let labels = labels.filter(|(name, value)| has(name) != Some(*value));
    fields.extend(labels.map(|(name, _)| format!("metadata.labels.{name}")));
    if !has_owners(&found.metadata, &desired.metadata) {
        fields.push("metadata.ownerReferences".to_owned());
    }
    fields
}

/// Whether two CNI configurations mean the same.
pub(crate) fn same_json(found: &str, desired: &str) -> bool {
    let parsed = |text: &str| serde_json::from_str::<Value>(text).ok();
    found == desired || parsed(found).is_some_and(|found| Some(found) == parsed(desired))
}

fn has_owners(found: &ObjectMeta, desired: &ObjectMeta) -> bool {
    let found = found.owner_references.as_deref().unwrap_or_default();
    let mut desired = desired.owner_references.iter().flatten();
    desired.all(|owner| found.contains(owner))
}
