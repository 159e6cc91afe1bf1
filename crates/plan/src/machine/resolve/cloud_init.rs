//! Cloud-init data: inline, else from a Secret, else from a ConfigMap.

use std::borrow::Cow;

use base64::{Engine as _, engine::general_purpose::STANDARD};

use super::Findings;
use crate::{
    machine::{
        CloudInit, CloudInitSource, Lookup, NetworkData, SourceKind, Surroundings, UserData,
        cloud_init_secret::{network_data_source, user_data_source},
        elided::Elided,
    },
    naming,
};

/// User data of a Machine that gives none: KubeVirt needs some, and the guest starts without changes.
const NO_USER_DATA: &str = "#cloud-config\n";

/// The API server's limit for a Secret.
const MAX_BYTES: usize = 1024 * 1024;

pub(super) fn resolve(
    cloud_init: Option<&api::CloudInit>,
    elided: Option<Elided>,
    machine: &str,
    surroundings: &Surroundings,
    findings: &mut Findings,
) -> Option<CloudInit> {
    let cloud_init = cloud_init?;
    let api::CloudInit {
        type_,
        user_data,
        user_data_base64,
        secret_ref,
        user_data_secret_ref,
        // The sources below choose among the other references.
        user_data_config_map_ref: _,
        network_data,
        network_data_base64,
        network_data_secret_ref: _,
        network_data_config_map_ref: _,
    } = cloud_init;
    if secret_ref.is_some() && user_data_secret_ref.is_some() {
        findings.invalid(
            "spec.cloudInit.userDataSecretRef",
            "secretRef and userDataSecretRef say the same thing: give one or the other",
        );
    }
    let elided_length = elided.as_ref().map_or(0, |elided| elided.length);
    let elided = elided.and_then(|elided| elided.digest);
    let mut read =
        |inline: &Option<String>, base64: Inline<'_>, source: Option<CloudInitSource<'_>>| {
            if let Some(inline) = given(inline.as_ref()) {
                return Some(Data::Content(inline.clone().into_bytes()));
            }
            if let Some(encoded) = given(base64.encoded) {
                return base64.decoded(encoded, findings).map(Data::Content);
            }
            from_source(&source?, machine, surroundings, findings)
        };
    let network_data = read(
        network_data,
        Inline::new(
            "spec.cloudInit.networkDataBase64",
            network_data_base64.as_ref(),
        ),
        network_data_source(cloud_init),
    );
    let user_data = match elided {
        Some(digest) => Some(UserData::Elided(digest)),
        None => read(
            user_data,
            Inline::new("spec.cloudInit.userDataBase64", user_data_base64.as_ref()),
            user_data_source(cloud_init),
        )
        .map(|data| match data {
            Data::Content(content) => UserData::Content(content),
            Data::Unread => UserData::Unread,
        }),
    };
    let network_data = network_data.and_then(|data| match data {
        Data::Unread => Some(NetworkData::Unread),
        Data::Content(content) => {
            let text = String::from_utf8(content).ok();
            if text.is_none() {
                findings.invalid("spec.cloudInit", "has network data that is not UTF-8 text");
            }
            text.map(NetworkData::Content)
        }
    });
    let user_data = user_data.or_else(|| {
        network_data
            .is_none()
            .then(|| UserData::Content(NO_USER_DATA.as_bytes().to_vec()))
    });
    let length = match &user_data {
        Some(UserData::Content(content)) => content.len(),
        Some(UserData::Unread | UserData::Elided(_)) | None => 0,
    };
    let network_length = network_data.as_ref().map_or(0, |data| data.content().len());
    check_length(length + elided_length + network_length, findings);
    Some(CloudInit {
        type_: type_.unwrap_or_default(),
        user_data,
        network_data,
        ssh_keys: Vec::new(),
    })
}

enum Data {
    Content(Vec<u8>),
    /// In an object that is not read; only offline.
    Unread,
}

/// KubeVirt treats empty data as missing, and then reports an error.
fn given(data: Option<&String>) -> Option<&String> {
    data.filter(|data| !data.is_empty())
}

/// A field with data in base64.
struct Inline<'a> {
    path: &'static str,
    encoded: Option<&'a String>,
}

impl<'a> Inline<'a> {
    fn new(path: &'static str, encoded: Option<&'a String>) -> Self {
        Self { path, encoded }
    }

    fn decoded(&self, encoded: &str, findings: &mut Findings) -> Option<Vec<u8>> {
        let decoded = decode_base64(encoded);
        if decoded.is_none() {
            findings.invalid(
                self.path,
                "is not valid base64: encode the data, or give it as text in the field without Base64",
            );
        }
        decoded
    }
}

/// Decodes base64, which may have line breaks.
pub(in crate::machine) fn decode_base64(encoded: &str) -> Option<Vec<u8>> {
    let is_break = |letter: char| matches!(letter, '\r' | '\n');
    let encoded = if encoded.contains(is_break) {
        Cow::from(encoded.replace(is_break, ""))
    } else {
        encoded.into()
    };
    STANDARD.decode(encoded.as_bytes()).ok()
}

pub(super) fn check_length(length: usize, findings: &mut Findings) {
    if length > MAX_BYTES {
        findings.invalid(
            "spec.cloudInit",
            "is more than the 1 MiB that fits into a Secret: let the machine fetch the rest itself",
        );
    }
}

fn from_source(
    source: &CloudInitSource<'_>,
    machine: &str,
    surroundings: &Surroundings,
    findings: &mut Findings,
) -> Option<Data> {
    let CloudInitSource {
        kind,
        path,
        name,
        key,
        what,
    } = *source;
    if !naming::is_dns_name(name) {
        findings.invalid(
            format!("{path}.name"),
            format!(
                "must be a DNS name, as the names of {kind}s are: lower case letters, digits, '-' and '.'"
            ),
        );
        return None;
    }
    if kind == SourceKind::Secret && name == naming::cloud_init_secret(machine) {
        findings.invalid(
            format!("{path}.name"),
            "is the name of the Secret that the operator creates: use another",
        );
    }
    let content = match kind {
        SourceKind::Secret => lookup(surroundings.secrets.get(name), |secret| {
            let written = secret.string_data.get(key);
            let written = written.map(|text| text.clone().into_bytes());
            written.or_else(|| Some(secret.data.get(key)?.0.clone()))
        }),
        SourceKind::ConfigMap => lookup(surroundings.config_maps.get(name), |map| {
            let text = map.data.get(key).map(|text| text.clone().into_bytes());
            text.or_else(|| Some(map.binary_data.get(key)?.0.clone()))
        }),
    };
    match content {
        Lookup::Found(Some(content)) => Some(Data::Content(content)),
        Lookup::Found(None) => {
            findings.invalid_reference(
                format!("{path}.key"),
                format!("{kind} {name:?} has no key {key:?}: name one that it has"),
            );
            None
        }
        Lookup::Missing => {
            findings.invalid_reference(
                format!("{path}.name"),
                format!(
                    "no {kind} is named {name:?} in this namespace: create it, or name another"
                ),
            );
            None
        }
        Lookup::Unknown => {
            findings.note(path, format!("{what} is copied from the key {key:?} of {kind} {name:?} in the cluster, and is left out here"));
            Some(Data::Unread)
        }
    }
}

fn lookup<T>(found: Lookup<&T>, read: impl Fn(&T) -> Option<Vec<u8>>) -> Lookup<Option<Vec<u8>>> {
    match found {
        Lookup::Found(object) => Lookup::Found(read(object)),
        Lookup::Missing => Lookup::Missing,
        Lookup::Unknown => Lookup::Unknown,
    }
}
