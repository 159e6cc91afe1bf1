//! Name formats of built-in kinds.

/// Errors in a key of a ConfigMap or Secret.
pub(super) fn data_key(text: &str) -> Vec<String> {
    let mut messages = Vec::new();
    if text.len() > 253 {
        messages.push("must be no more than 253 bytes".to_owned());
    }
    let fine = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if text.is_empty() || !text.bytes().all(fine) {
        messages.push("a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')".to_owned());
    }
    if text == "." {
        messages.push("must not be '.'".to_owned());
    } else if text == ".." {
        messages.push("must not be '..'".to_owned());
    } else if text.starts_with("..") {
        messages.push("must not start with '..'".to_owned());
    }
    messages
}

/// Errors in a port name.
pub(super) fn port_name(text: &str) -> Vec<String> {
    let mut messages = Vec::new();
    if text.len() > 15 {
        messages.push("must be no more than 15 characters".to_owned());
    }
    let fine = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if !text.bytes().all(fine) {
        messages.push(
            "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned(),
        );
    }
    if !text.bytes().any(|byte| byte.is_ascii_lowercase()) {
        messages.push("must contain at least one letter (a-z)".to_owned());
    }
    if text.contains("--") {
        messages.push("must not contain consecutive hyphens".to_owned());
    }
    if !text.is_empty() && (text.starts_with('-') || text.ends_with('-')) {
        messages.push("must not begin or end with a hyphen".to_owned());
    }
    messages
}

/// Errors in the name of an environment variable.
pub(super) fn env_name(text: &str) -> Vec<String> {
    let fine = |byte: u8| byte.is_ascii() && !byte.is_ascii_control() && byte != b'=';
    if text.bytes().all(fine) {
        Vec::new()
    } else {
        vec!["a valid environment variable name must consist only of printable ASCII characters other than '='".to_owned()]
    }
}

pub(super) const PERCENT: &str = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')";

pub(super) fn percent(text: &str) -> Option<i64> {
    let digits = text.strip_suffix('%')?;
    let numeric = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    numeric.then(|| digits.parse().unwrap_or(i64::MAX))
}
