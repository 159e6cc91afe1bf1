use std::collections::BTreeSet;

use api::{ObjectMeta, labels};
use serde_json::Value;

/// The Secret with cloud-init's data, as far as it is observed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloudInitSecret<'a> {
    /// Secrets are not watched: nothing is known of it without a request.
    Unobserved {
        /// Whether it was compared with what is wanted since the current instance came to be.
        is_verified: bool,
    },
    /// It was read once, by a preview, which does not compare its data.
    Read {
        /// The digest in its metadata.
        digest: Option<&'a str>,
    },
    /// There is none with our labels.
    Missing,
    /// What its metadata shows.
    Present(&'a SecretMetadata),
}

impl<'a> CloudInitSecret<'a> {
    /// The digest in its metadata, as far as that was observed.
    pub(super) fn digest(&self) -> Option<&'a str> {
        match self {
            Self::Unobserved { .. } | Self::Missing => None,
            Self::Read { digest } => *digest,
            Self::Present(found) => found.digest.as_deref(),
        }
    }
}

/// What the metadata of a Secret shows of its data, which is not read: the digest that was written
/// with it, and who has written to it since.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SecretMetadata {
    digest: Option<String>,
    /// Keys of its data whose value is the one that we wrote.
    keys: BTreeSet<String>,
    /// The field managers besides us that own some of its data.
    other_managers: BTreeSet<String>,
}

impl SecretMetadata {
    /// Reads the metadata, managed fields included.
    ///
    /// The API server keeps account of who wrote each key: whoever changes a value owns it from then
    /// on, and a key that is removed is owned by nobody.
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

    /// Whether the data is the wanted one, which has these keys and this digest. A Secret that was
    /// written before digests were noted is judged by who wrote it alone.
    pub fn matches(&self, keys: &BTreeSet<&str>, digest: Option<&str>) -> bool {
        let is_noted = self.digest.is_none() || self.digest.as_deref() == digest;
        let ours = self.keys.iter().map(String::as_str);
        is_noted && self.other_managers.is_empty() && ours.eq(keys.iter().copied())
    }

    /// The field managers besides us that own some of the data.
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
    fn data_that_only_we_wrote_is_as_wanted_while_its_digest_is() {
        let ours = json!({ "f:data": { ".": {}, "f:userdata": {} }, "f:type": {} });
        let labelled = json!({ "f:metadata": { "f:labels": { "f:a": {} } } });
        let entries = json!([
            written_by(labels::MANAGER, &ours),
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
    fn data_that_somebody_else_wrote_is_not(#[case] ours: Value, #[case] theirs: Value) {
        let entries = json!([
            written_by(labels::MANAGER, &ours),
            written_by("kubectl-edit", &theirs)
        ]);
        assert!(!holds(&entries, "abc"));
    }
}
