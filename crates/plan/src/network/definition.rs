//! How the attachment definition that there is compares with the one that there should be.

use api::{ObjectMeta, multus::NetworkAttachmentDefinition};
use serde_json::Value;

use super::Observed;
use crate::{machine::build::attachment_definition, managed};

/// What there is of the attachment definition.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Definition<'a> {
    /// Nothing, as far as can be seen.
    Missing,
    /// Ours, and what it should be.
    AsWanted {
        found: &'a NetworkAttachmentDefinition,
        uid: &'a str,
    },
    /// Ours, and not what it should be.
    Differs {
        found: &'a NetworkAttachmentDefinition,
        uid: &'a str,
    },
    /// Ours, and being deleted.
    Going,
    /// Somebody else's.
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
            return Self::Going;
        }
        if has(found, &attachment_definition(observed.network)) {
            Self::AsWanted { found, uid }
        } else {
            Self::Differs { found, uid }
        }
    }
}

/// Whether a definition has all that is wanted of it; others may have added to its metadata.
fn has(found: &NetworkAttachmentDefinition, wanted: &NetworkAttachmentDefinition) -> bool {
    differing(found, wanted).is_empty()
}

/// The fields of a definition that are not as wanted.
pub(super) fn differing(
    found: &NetworkAttachmentDefinition,
    wanted: &NetworkAttachmentDefinition,
) -> Vec<String> {
    let mut fields = Vec::new();
    if !same_json(&found.spec.config, &wanted.spec.config) {
        fields.push("spec.config".to_owned());
    }
    let labels = wanted.metadata.labels.iter().flatten();
    let has = |name: &str| found.metadata.labels.as_ref().and_then(|all| all.get(name));
    let labels = labels.filter(|(name, value)| has(name) != Some(*value));
    fields.extend(labels.map(|(name, _)| format!("metadata.labels.{name}")));
    if !has_owners(&found.metadata, &wanted.metadata) {
        fields.push("metadata.ownerReferences".to_owned());
    }
    fields
}

fn same_json(found: &str, wanted: &str) -> bool {
    let parsed = |text: &str| serde_json::from_str::<Value>(text).ok();
    found == wanted || parsed(found).is_some_and(|found| Some(found) == parsed(wanted))
}

fn has_owners(found: &ObjectMeta, wanted: &ObjectMeta) -> bool {
    let found = found.owner_references.as_deref().unwrap_or_default();
    let mut wanted = wanted.owner_references.iter().flatten();
    wanted.all(|owner| found.contains(owner))
}
