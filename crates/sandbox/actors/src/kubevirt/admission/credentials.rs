//! Validation of access credentials.

use serde_json::Value;

use super::Cause;
use crate::object::list;

/// Methods by which keys reach a guest, with the volume that each needs.
const METHODS: [(&str, Option<&str>); 3] = [
    ("noCloud", Some("cloudInitNoCloud")),
    ("configDrive", Some("cloudInitConfigDrive")),
    ("qemuGuestAgent", None),
];

pub(super) fn credential_causes(field: &str, spec: &Value) -> Vec<Cause> {
    let credentials = list(spec, "/accessCredentials").iter().enumerate();
    let keys = credentials.filter_map(|(index, credential)| {
        let key = credential.get("sshPublicKey").filter(|it| !it.is_null())?;
        Some((format!("{field}[{index}]"), key))
    });
    keys.flat_map(|(path, key)| key_causes(&path, key, spec))
        .collect()
}

fn key_causes(path: &str, key: &Value, spec: &Value) -> Vec<Cause> {
    let given = |pointer: &str| key.pointer(pointer).is_some_and(|it| !it.is_null());
    let has_volume = |source: &str| {
        let mut volumes = list(spec, "/volumes").iter();
        volumes.any(|volume| volume.get(source).is_some_and(|it| !it.is_null()))
    };
    let used = METHODS.into_iter();
    let used: Vec<_> = used
        .filter(|(method, _)| given(&format!("/propagationMethod/{method}")))
        .collect();
    let mut causes = Vec::new();
    for (method, volume) in &used {
        if volume.is_some_and(|volume| !has_volume(volume)) {
            causes.push(Cause::invalid(
                format!("{path}.sshPublicKey.propagationMethod"),
                format!(
                    "{path} requires a {method} volume to exist when the {method} \
                     propagationMethod is in use."
                ),
            ));
        }
    }
    let users = list(key, "/propagationMethod/qemuGuestAgent/users");
    if given("/propagationMethod/qemuGuestAgent") && users.is_empty() {
        causes.push(Cause::invalid(
            format!("{path}.sshPublicKey.propagationMethod.qemuGuestAgent.users"),
            format!("{path} requires at least one user to be present in the users list"),
        ));
    }
    if !given("/source/secret") {
        causes.push(Cause::invalid(
            format!("{path}.sshPublicKey.source"),
            format!("{path} must have exactly one source set"),
        ));
    }
    if used.len() != 1 {
        causes.push(Cause::invalid(
            format!("{path}.sshPublicKey.propagationMethod"),
            format!("{path} must have exactly one propagationMethod set"),
        ));
    }
    causes
}
