//! Cloud-init data. Inline user data takes precedence over a Secret.

use api::core::Secret;

use super::Findings;
use crate::{
    machine::{CloudInit, Known, Lookup, UserData, elided::Elided},
    naming,
};

const PATH: &str = "spec.cloudInit.secretRef";

/// The API server's limit for a Secret.
const MAX_BYTES: usize = 1024 * 1024;

pub(super) fn resolve(
    cloud_init: Option<&api::CloudInit>,
    elided: Option<Elided>,
    machine: &str,
    secrets: &Known<Secret>,
    findings: &mut Findings,
) -> Option<CloudInit> {
    let api::CloudInit {
        user_data,
        network_data,
        secret_ref,
    } = cloud_init?;
    // KubeVirt treats empty data as missing, and then reports an error.
    let given = |data: &Option<String>| data.clone().filter(|data| !data.is_empty());
    let network_data = given(network_data);
    let elided_length = elided.as_ref().map_or(0, |elided| elided.length);
    let elided = elided.and_then(|elided| elided.digest);
    let user_data = match (given(user_data), secret_ref) {
        _ if elided.is_some() => elided.map(UserData::Elided),
        (Some(inline), _) => Some(UserData::Content(inline.into_bytes())),
        (None, Some(reference)) => {
            if reference.name == naming::cloud_init_secret(machine) {
                findings.invalid(
                    format!("{PATH}.name"),
                    "is the name of the Secret that the operator creates: use another",
                );
            }
            let key = reference.key.as_deref().unwrap_or(naming::USER_DATA_KEY);
            from_secret(&reference.name, key, secrets, findings)
        }
        (None, None) => None,
    };
    if user_data.is_none() && network_data.is_none() && secret_ref.is_none() {
        findings.invalid(
            "spec.cloudInit",
            "give userData, networkData or secretRef, or leave cloudInit out",
        );
    }
    let length = match &user_data {
        Some(UserData::Content(content)) => content.len(),
        Some(UserData::Unread | UserData::Elided(_)) | None => 0,
    };
    let length = length + elided_length + network_data.as_ref().map_or(0, String::len);
    check_length(length, findings);
    Some(CloudInit {
        user_data,
        network_data,
    })
}

fn check_length(length: usize, findings: &mut Findings) {
    if length > MAX_BYTES {
        findings.invalid(
            "spec.cloudInit",
            "is more than the 1 MiB that fits into a Secret: let the machine fetch the rest itself",
        );
    }
}

fn from_secret(
    name: &str,
    key: &str,
    secrets: &Known<Secret>,
    findings: &mut Findings,
) -> Option<UserData> {
    match secrets.get(name) {
        Lookup::Found(secret) => {
            let written = secret
                .string_data
                .get(key)
                .map(|text| text.clone().into_bytes());
            let content = written.or_else(|| secret.data.get(key).map(|bytes| bytes.0.clone()));
            if content.is_none() {
                findings.invalid_reference(
                    format!("{PATH}.key"),
                    format!("Secret {name:?} has no key {key:?}: name one that it has"),
                );
            }
            content.map(UserData::Content)
        }
        Lookup::Missing => {
            findings.invalid_reference(
                format!("{PATH}.name"),
                format!(
                    "no Secret is named {name:?} in this namespace: create it, or name another"
                ),
            );
            None
        }
        Lookup::Unknown => {
            findings.note(PATH, format!("user data is copied from the key {key:?} of Secret {name:?} in the cluster, and is left out here"));
            Some(UserData::Unread)
        }
    }
}
