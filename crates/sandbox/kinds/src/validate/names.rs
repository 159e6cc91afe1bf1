//! The forms of names, keys and values, and what the server says to those that do not have them.

/// What is wrong with one part of a DNS name.
pub(super) fn dns_label(text: &str) -> Vec<String> {
    let mut messages = Vec::new();
    if text.len() > 63 {
        messages.push("must be no more than 63 bytes".to_owned());
    }
    if !is_dns_part(text) {
        messages.push("a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')".to_owned());
    }
    messages
}

/// What is wrong with a DNS name.
pub(super) fn dns_name(text: &str) -> Vec<String> {
    let mut messages = Vec::new();
    if text.len() > 253 {
        messages.push("must be no more than 253 bytes".to_owned());
    }
    if !text.split('.').all(is_dns_part) {
        messages.push("a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')".to_owned());
    }
    messages
}

/// What is wrong with the name of an object that is one part of a DNS name.
pub(super) fn label_name(text: &str) -> Vec<String> {
    match text.contains('.') {
        true => vec!["must not contain dots".to_owned()],
        false => dns_label(text),
    }
}

/// What is wrong with a part of a path.
pub(super) fn path_segment(text: &str) -> Vec<String> {
    if matches!(text, "." | "..") {
        return vec![format!("may not be '{text}'")];
    }
    let found = ['/', '%'].into_iter().filter(|&c| text.contains(c));
    found.map(|c| format!("may not contain '{c}'")).collect()
}

const NAME_PART: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";

/// What is wrong with the key of a label, an annotation or a resource.
pub(super) fn qualified_name(text: &str) -> Vec<String> {
    let mut messages = Vec::new();
    let parts: Vec<&str> = text.split('/').collect();
    let name = match parts.as_slice() {
        [name] => name,
        [prefix, name] => {
            if prefix.is_empty() {
                messages.push("prefix part must be non-empty".to_owned());
            } else {
                messages.extend(
                    dns_name(prefix)
                        .into_iter()
                        .map(|message| format!("prefix part {message}")),
                );
            }
            name
        }
        _ => {
            return vec!["a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')".to_owned()];
        }
    };
    if name.is_empty() {
        messages.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        messages.push("name part must be no more than 63 bytes".to_owned());
    }
    if name.is_empty() || !is_word(name) {
        messages.push(NAME_PART.to_owned());
    }
    messages
}

/// What is wrong with the value of a label.
pub(super) fn label_value(text: &str) -> Vec<String> {
    let mut messages = Vec::new();
    if text.len() > 63 {
        messages.push("must be no more than 63 bytes".to_owned());
    }
    if !is_word(text) {
        messages.push("a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')".to_owned());
    }
    messages
}

/// What is wrong with a key of a config map or a secret.
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

/// What is wrong with the name of a port.
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

/// What is wrong with the name of an environment variable.
pub(super) fn env_name(text: &str) -> Vec<String> {
    let fine = |byte: u8| byte.is_ascii() && !byte.is_ascii_control() && byte != b'=';
    match text.bytes().all(fine) {
        true => Vec::new(),
        false => vec!["a valid environment variable name must consist only of printable ASCII characters other than '='".to_owned()],
    }
}

pub(super) const PERCENT: &str = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')";

/// The number before a percent sign.
pub(super) fn percent(text: &str) -> Option<i64> {
    let digits = text.strip_suffix('%')?;
    let numeric = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    numeric.then(|| digits.parse().unwrap_or(i64::MAX))
}

fn is_dns_part(text: &str) -> bool {
    let fine = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !text.is_empty() && text.bytes().all(fine) && !text.starts_with('-') && !text.ends_with('-')
}

/// Letters and digits, with `-`, `_` and `.` between; or nothing.
fn is_word(text: &str) -> bool {
    let fine = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let ends = |byte: Option<u8>| byte.is_none_or(|byte| byte.is_ascii_alphanumeric());
    text.bytes().all(fine) && ends(text.bytes().next()) && ends(text.bytes().last())
}
