//! Observed state of the cloud-init Secret, from its metadata: its data is not read.

use std::collections::BTreeSet;

use api::{Machine, ObjectMeta, labels};
use serde_json::Value;

use super::has_inline_user_data;
use crate::naming;

/// Name of the Secret with a Machine's user data, and the key in it.
pub fn secret_ref(machine: &Machine) -> Option<(&str, &str)> {
    let cloud_init = machine.spec.cloud_init.as_ref()?;
    let reference = cloud_init
        .secret_ref
        .as_ref()
        .filter(|_| !has_inline_user_data(machine))?;
    let key = reference.key.as_deref().unwrap_or(naming::USER_DATA_KEY);
    Some((&reference.name, key))
}

/// The cloud-init Secret, as far as it is observed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloudInitSecret<'a> {
    /// Secrets are not watched: only a request shows its state.
    Unobserved {
        /// Whether it was compared with the desired data since the current instance was created.
        is_verified: bool,
    },
    /// A preview read it once, without comparing its data.
    Read {
        digest: Option<&'a str>,
    },
    /// There is none with our labels.
    Missing,
    Present(&'a SecretMetadata),
}

impl<'a> CloudInitSecret<'a> {
    /// The digest in its metadata, if observed.
    pub(super) fn digest(&self) -> Option<&'a str> {
        match self {
            Self::Unobserved { .. } | Self::Missing => None,
            Self::Read { digest } => *digest,
            Self::Present(found) => found.digest.as_deref(),
        }
    }
}

/// What the metadata of a Secret shows about its data: the digest that was written with it, and the field
/// managers that changed it since.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SecretMetadata {
    digest: Option<String>,
    /// Keys whose current value the operator wrote.
    keys: BTreeSet<String>,
    /// Other field managers that own some of the data.
    other_managers: BTreeSet<String>,
}

impl SecretMetadata {
    /// Reads the metadata, including managed fields.
    ///
    /// Whoever changes a value owns its key from then on, and nobody owns a removed key.
    pub fn of(metadata: &ObjectMeta) -> Self {
        let annotations = metadata.annotations.as_ref();
        let mut read = Self {
            digest: annotations.and_then(|all| all.get(labels::CLOUD_INIT).cloned()),
            ..Self::default()
        };
        for entry in metadata.managed_fields.iter().flatten() {
            let Some(fields) = entry.fields_v1.as_ref() else {
                continue;
            };
            let keys = ["f:data", "f:stringData"]
                .into_iter()
                .filter_map(|field| fields.0.get(field).and_then(Value::as_object))
                .flat_map(|keys| keys.keys())
                .filter_map(|key| key.strip_prefix("f:"));
            if entry.manager.as_deref() == Some(labels::MANAGER) {
                read.keys.extend(keys.map(str::to_owned));
            } else if keys.count() > 0 {
                read.other_managers.extend(entry.manager.clone());
            }
        }
        read
    }

    /// Whether the data is the desired one, with these keys and this digest. Secrets from before digests
    /// were recorded are compared by their managed fields only.
    pub fn matches(&self, keys: &BTreeSet<&str>, digest: Option<&str>) -> bool {
        let digest_matches = self.digest.is_none() || self.digest.as_deref() == digest;
        let own = self.keys.iter().map(String::as_str);
        digest_matches && self.other_managers.is_empty() && own.eq(keys.iter().copied())
    }

    pub fn other_managers(&self) -> impl Iterator<Item = &str> {
        self.other_managers.iter().map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn metadata(entries: &Value) -> ObjectMeta {
        serde_json::from_value(json!({
            "annotations": { labels::CLOUD_INIT: "abc" }, "managedFields": entries,
        }))
        .unwrap()
    }

    fn written_by(manager: &str, keys: &Value) -> Value {
        json!({ "manager": manager, "operation": "Update", "fieldsV1": keys })
    }

    fn holds(entries: &Value, digest: &str) -> bool {
        SecretMetadata::of(&metadata(entries)).matches(&["userdata"].into(), Some(digest))
    }

    #[test]
    fn data_of_the_operator_matches_while_its_digest_does() {
        let own = json!({ "f:data": { ".": {}, "f:userdata": {} }, "f:type": {} });
        let labelled = json!({ "f:metadata": { "f:labels": { "f:a": {} } } });
        let entries = json!([
            written_by(labels::MANAGER, &own),
            written_by("kubectl", &labelled)
        ]);
        assert!(holds(&entries, "abc"));
        assert!(!holds(&entries, "abd"));
    }

    #[rstest]
    #[case::changed(json!({ "f:data": { ".": {} } }), json!({ "f:data": { "f:userdata": {} } }))]
    #[case::removed(json!({ "f:data": {} }), json!({}))]
    #[case::added(json!({ "f:data": { "f:userdata": {} } }), json!({ "f:data": { "f:userData": {} } }))]
    #[case::by_apply(json!({ "f:data": { "f:userdata": {} } }), json!({ "f:stringData": { "f:userdata": {} } }))]
    #[case::by_us_before(json!({ "f:data": { "f:userdata": {}, "f:networkdata": {} } }), json!({}))]
    #[case::unaccounted(json!({}), json!({}))]
    fn data_of_other_managers_does_not_match(#[case] own: Value, #[case] foreign: Value) {
        let entries = json!([
            written_by(labels::MANAGER, &own),
            written_by("kubectl-edit", &foreign)
        ]);
        assert!(!holds(&entries, "abc"));
    }
}
