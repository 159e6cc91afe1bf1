//! Public SSH keys in cloud-init user data.
//!
//! The keys are an own cloud-config, for cloud-init's default user. If the Machine gives user data, both become
//! parts of one MIME message, which cloud-init merges: lists of keys are appended to each other.

use std::fmt::Write as _;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::Value;

use super::plan::compare;

/// Types of keys that sshd accepts in `authorized_keys`.
const TYPES: [&str; 7] = [
    "ssh-ed25519",
    "ssh-rsa",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "sk-ssh-ed25519@openssh.com",
    "sk-ecdsa-sha2-nistp256@openssh.com",
];

/// Why a text is not a public key, with the remedy. The text itself is not repeated.
pub(super) fn problem(key: &str) -> Option<&'static str> {
    if key.contains("PRIVATE KEY") {
        return Some(
            "is a private key: give the public key, and replace the pair, because others could read it here",
        );
    }
    let mut words = key.split(' ');
    let (kind, data) = (words.next(), words.next().unwrap_or_default());
    let is_key = kind.is_some_and(|kind| TYPES.contains(&kind))
        && !data.is_empty()
        && STANDARD.decode(data).is_ok()
        && !key.chars().any(char::is_control);
    (!is_key).then_some(
        "is not a public SSH key in one line: give one such as \"ssh-ed25519 AAAA... name\", as in a file id_ed25519.pub",
    )
}

/// Whether keys can be added to user data: it is empty, a cloud-config, a script, or another format that begins
/// with `#`.
pub(super) fn can_be_added_to(user_data: &[u8]) -> bool {
    user_data.trim_ascii().is_empty() || user_data.starts_with(b"#")
}

/// Length of user data with keys.
pub(super) fn length_with(user_data: usize, keys: &[String]) -> usize {
    const MESSAGE: usize = 1024;
    let quoted: usize = keys.iter().map(|key| key.len() + 8).sum();
    user_data.div_ceil(3) * 4 + user_data / 18 + quoted + MESSAGE
}

/// User data with keys; unchanged if they cannot be added.
pub(super) fn with_keys(user_data: &[u8], keys: &[String]) -> Vec<u8> {
    if keys.is_empty() || !can_be_added_to(user_data) {
        return user_data.to_vec();
    }
    let config = cloud_config(keys);
    match user_data.trim_ascii() {
        b"" | b"#cloud-config" => config.into_bytes(),
        _ => message(user_data, &config).into_bytes(),
    }
}

fn cloud_config(keys: &[String]) -> String {
    let mut config = "#cloud-config\nssh_authorized_keys:\n".to_owned();
    for key in keys {
        // Writing to a String does not fail. A JSON string is one of YAML as well.
        let _ = writeln!(config, "  - {}", Value::from(key.as_str()));
    }
    config
}

fn message(user_data: &[u8], config: &str) -> String {
    // The same input gives the same bytes.
    let boundary = compare::digest([user_data, config.as_bytes()]);
    let mut message = format!(
        "Content-Type: multipart/mixed; boundary=\"{boundary}\"\nMIME-Version: 1.0\n\n\
         --{boundary}\nContent-Type: text/plain; charset=\"utf-8\"\nMIME-Version: 1.0\n\
         Content-Transfer-Encoding: base64\n\n"
    );
    let encoded = STANDARD.encode(user_data);
    let mut rest = encoded.as_str();
    while !rest.is_empty() {
        let (line, after) = rest.split_at(rest.len().min(76));
        message.push_str(line);
        message.push('\n');
        rest = after;
    }
    let _ = write!(
        message,
        "--{boundary}\nContent-Type: text/cloud-config; charset=\"utf-8\"\nMIME-Version: 1.0\n\
         Merge-Type: list(append)+dict(no_replace,recurse_list)+str()\n\n{config}--{boundary}--\n"
    );
    message
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKksNuZqJe6Z/4Yvqo6HmHvmx80Tw+5mHEAKRbDx47Ey ops@example.com";

    fn keys() -> Vec<String> {
        vec![KEY.to_owned()]
    }

    #[rstest]
    #[case(KEY, true)]
    #[case(
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKksNuZqJe6Z/4Yvqo6HmHvmx80Tw+5mHEAKRbDx47Ey",
        true
    )]
    #[case("ssh-rsa AAAAB3NzaC1yc2EAAAADAQAB a comment", true)]
    #[case("ssh-rsa", false)]
    #[case("ssh-rsa not-base64", false)]
    #[case(
        "ssh-dss AAAAC3NzaC1lZDI1NTE5AAAAIKksNuZqJe6Z/4Yvqo6HmHvmx80Tw+5mHEAKRbDx47Ey",
        false
    )]
    #[case(
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKksNuZqJe6Z/4Yvqo6HmHvmx80Tw+5mHEAKRbDx47Ey a\\nssh-rsa",
        true
    )]
    #[case(
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKksNuZqJe6Z/4Yvqo6HmHvmx80Tw+5mHEAKRbDx47Ey a\nssh-rsa AAAA",
        false
    )]
    #[case("-----BEGIN OPENSSH PRIVATE KEY-----", false)]
    fn a_public_key_is_recognized(#[case] key: &str, #[case] is_key: bool) {
        assert_eq!(problem(key).is_none(), is_key, "{:?}", problem(key));
    }

    #[test]
    fn without_user_data_the_keys_are_a_cloud_config() {
        let expected = format!("#cloud-config\nssh_authorized_keys:\n  - \"{KEY}\"\n");
        for user_data in ["", "#cloud-config\n"] {
            let data = with_keys(user_data.as_bytes(), &keys());
            assert_eq!(String::from_utf8(data).unwrap(), expected);
        }
    }

    #[test]
    fn with_user_data_both_are_parts_of_a_message() {
        let script = format!("#!/bin/sh\n{}\n", "echo hello\n".repeat(20));
        let data = String::from_utf8(with_keys(script.as_bytes(), &keys())).unwrap();
        let boundary = data.split('"').nth(1).unwrap();
        let parts: Vec<&str> = data.split(&format!("--{boundary}")).collect();
        assert_eq!(parts.len(), 4, "head, two parts, end: {data}");
        let (head, body) = parts[1].split_once("\n\n").unwrap();
        assert!(head.contains("Content-Transfer-Encoding: base64"));
        assert!(body.lines().all(|line| line.len() <= 76));
        let decoded = STANDARD.decode(body.replace('\n', "")).unwrap();
        assert_eq!(decoded, script.as_bytes());
        assert!(parts[2].contains("Merge-Type: list(append)"));
        assert!(parts[2].ends_with(&cloud_config(&keys())));
        assert_eq!(parts[3], "--\n");
        assert!(data.len() <= length_with(script.len(), &keys()));
    }

    #[test]
    fn data_of_other_programs_stays_as_it_is() {
        for data in [
            "version: v1alpha1\n",
            "{\"ignition\": {}}",
            "Content-Type: multipart/mixed",
        ] {
            assert!(!can_be_added_to(data.as_bytes()));
            assert_eq!(with_keys(data.as_bytes(), &keys()), data.as_bytes());
        }
        assert_eq!(with_keys(b"#!/bin/sh", &[]), b"#!/bin/sh");
    }
}
