//! Access to the guest.

use api::{MachineSpec, SshKeySecret};

use super::Findings;
use crate::{
    machine::{Access, CloudInit, KeySecret, Lookup, Surroundings, UserData, ssh_keys},
    naming,
};

/// KubeVirt names a volume after the Secret, with 12 more characters.
const MAX_SECRET_NAME: usize = 51;

pub(super) fn resolve(
    spec: &MachineSpec,
    surroundings: &Surroundings,
    findings: &mut Findings,
) -> Access {
    let hostname = spec.hostname.as_ref().filter(|name| !name.is_empty());
    if hostname.is_some_and(|name| !naming::is_dns_label(name)) {
        findings.invalid(
            "spec.hostname",
            "must be a DNS label: at most 63 lower case letters, digits and '-', beginning and ending with a letter or digit",
        );
    }
    let secrets = spec.ssh_key_secrets.iter().flatten().enumerate();
    Access {
        ssh_keys: keys(spec, findings),
        key_secrets: secrets
            .map(|(index, secret)| key_secret(index, secret, surroundings, findings))
            .collect(),
        hostname: hostname.cloned(),
        serial_console_log: spec.serial_console_log,
    }
}

/// Go clients write empty texts.
fn keys(spec: &MachineSpec, findings: &mut Findings) -> Vec<String> {
    let given = spec.ssh_keys.iter().flatten().enumerate();
    let given = given.map(|(index, key)| (index, key.trim()));
    let given = given.filter(|(_, key)| !key.is_empty());
    let mut keys: Vec<String> = Vec::new();
    for (index, key) in given {
        if let Some(problem) = ssh_keys::problem(key) {
            findings.invalid(format!("spec.sshKeys[{index}]"), problem);
        }
        if !keys.iter().any(|known| known == key) {
            keys.push(key.to_owned());
        }
    }
    keys
}

fn key_secret(
    index: usize,
    secret: &SshKeySecret,
    surroundings: &Surroundings,
    findings: &mut Findings,
) -> KeySecret {
    let SshKeySecret { name, users } = secret;
    let path = format!("spec.sshKeySecrets[{index}]");
    if name.len() > MAX_SECRET_NAME || !naming::is_dns_label(name) {
        findings.invalid(
            format!("{path}.name"),
            format!("must be a DNS label of at most {MAX_SECRET_NAME} characters: KubeVirt makes a volume of this name"),
        );
    } else {
        match surroundings.secrets.get(name) {
            Lookup::Found(_) => {}
            Lookup::Missing => findings.invalid_reference(
                format!("{path}.name"),
                format!(
                    "no Secret is named {name:?} in this namespace: create it, or name another"
                ),
            ),
            Lookup::Unknown => findings.note(
                format!("{path}.name"),
                format!("Secret {name:?} is looked up in the cluster"),
            ),
        }
    }
    KeySecret {
        name: name.clone(),
        users: users.clone().unwrap_or_default(),
    }
}

/// Whether the guest needs cloud-init for its keys.
pub(super) fn needs_cloud_init(access: &Access) -> bool {
    let mut secrets = access.key_secrets.iter();
    !access.ssh_keys.is_empty() || secrets.any(|secret| secret.users.is_empty())
}

/// Adds the keys to cloud-init data.
pub(super) fn add_keys(access: &Access, cloud_init: &mut CloudInit, findings: &mut Findings) {
    if access.ssh_keys.is_empty() {
        return;
    }
    let user_data = &mut cloud_init.user_data;
    let user_data = user_data.get_or_insert_with(|| UserData::Content(Vec::new()));
    if let UserData::Content(content) = user_data
        && !ssh_keys::can_be_added_to(content)
    {
        findings.note(
            "spec.sshKeys",
            "has no effect: cloud-init's user data is neither a cloud-config nor a script, so nothing can be added to it",
        );
        return;
    }
    if let UserData::Content(content) = user_data {
        let length = ssh_keys::length_with(content.len(), &access.ssh_keys);
        super::cloud_init::check_length(length, findings);
    }
    cloud_init.ssh_keys.clone_from(&access.ssh_keys);
}
