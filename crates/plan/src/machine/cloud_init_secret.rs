//! Objects that a Machine's cloud-init data comes from, and the observed state of the Secret that the
//! operator writes it to, from its metadata: its data is not read.

use std::{collections::BTreeSet, fmt};

use api::{CloudInit, Machine, ObjectMeta, labels};
use serde_json::Value;

use super::has_inline_user_data;
use crate::naming;

/// Kind of an object with cloud-init data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SourceKind {
    Secret,
    ConfigMap,
}

impl fmt::Display for SourceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Secret => "Secret",
            Self::ConfigMap => "ConfigMap",
        })
    }
}

/// Key of an object in the Machine's namespace with cloud-init data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CloudInitSource<'a> {
    pub kind: SourceKind,
    pub name: &'a str,
    /// Empty if all values count.
    pub key: &'a str,
    /// Field of the spec.
    pub(super) path: &'static str,
    /// What the key contains, for messages.
    pub(super) what: &'static str,
}

/// The objects with a Machine's cloud-init data. Data in the spec takes precedence.
pub fn cloud_init_sources(machine: &Machine) -> impl Iterator<Item = CloudInitSource<'_>> {
    let cloud_init = machine.spec.cloud_init.as_ref();
    let user_data = cloud_init
        .filter(|_| !has_inline_user_data(machine))
        .and_then(user_data_source);
    let network_data = cloud_init
        .filter(|it| {
            !has_text(it.network_data.as_ref()) && !has_text(it.network_data_base64.as_ref())
        })
        .and_then(network_data_source);
    let keys = machine.spec.ssh_key_secrets.iter().flatten();
    let keys = keys.map(|secret| CloudInitSource {
        kind: SourceKind::Secret,
        name: &secret.name,
        key: "",
        path: "spec.sshKeySecrets",
        what: "SSH keys",
    });
    user_data.into_iter().chain(network_data).chain(keys)
}

pub(super) fn user_data_source(cloud_init: &CloudInit) -> Option<CloudInitSource<'_>> {
    let secrets = [
        ("spec.cloudInit.secretRef", &cloud_init.secret_ref),
        (
            "spec.cloudInit.userDataSecretRef",
            &cloud_init.user_data_secret_ref,
        ),
    ];
    let mut secrets = secrets.into_iter();
    let secret = secrets.find_map(|(path, it)| Some((path, it.as_ref()?)));
    let secret = secret.map(|(path, it)| (SourceKind::Secret, path, &it.name, &it.key));
    let config_map = cloud_init.user_data_config_map_ref.as_ref().map(|it| {
        let path = "spec.cloudInit.userDataConfigMapRef";
        (SourceKind::ConfigMap, path, &it.name, &it.key)
    });
    let (kind, path, name, key) = secret.or(config_map)?;
    Some(CloudInitSource {
        kind,
        name,
        key: key_or(key.as_deref(), naming::USER_DATA_KEY),
        path,
        what: "user data",
    })
}

pub(super) fn network_data_source(cloud_init: &CloudInit) -> Option<CloudInitSource<'_>> {
    let secret = cloud_init.network_data_secret_ref.as_ref().map(|it| {
        let path = "spec.cloudInit.networkDataSecretRef";
        (SourceKind::Secret, path, &it.name, &it.key)
    });
    let config_map = cloud_init.network_data_config_map_ref.as_ref().map(|it| {
        let path = "spec.cloudInit.networkDataConfigMapRef";
        (SourceKind::ConfigMap, path, &it.name, &it.key)
    });
    let (kind, path, name, key) = secret.or(config_map)?;
    Some(CloudInitSource {
        kind,
        name,
        key: key_or(key.as_deref(), naming::NETWORK_DATA_KEY),
        path,
        what: "network data",
    })
}

fn key_or<'a>(key: Option<&'a str>, default: &'a str) -> &'a str {
    key.filter(|key| !key.is_empty()).unwrap_or(default)
}

pub(super) fn has_text(text: Option<&String>) -> bool {
    text.is_some_and(|text| !text.is_empty())
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
    /// Whoever changes a value owns its key from then on, and no one owns a removed key.
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
