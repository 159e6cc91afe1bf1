//! Name formats. Each function returns the errors of a string, as kube-apiserver words them.

/// RFC 1123 label, such as the name of a Namespace.
pub fn dns_label(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if text.len() > 63 {
        wrong.push(too_long(63, "characters"));
    }
    if !is_dns_label(text) {
        wrong.push(if is_dns_subdomain(text) {
            "must not contain dots".to_owned()
        } else {
            with_form(
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character",
                "[a-z0-9]([-a-z0-9]*[a-z0-9])?",
                &["my-name", "123-abc"],
            )
        });
    }
    wrong
}

/// RFC 1123 subdomain, the format of most names.
pub fn dns_subdomain(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if text.len() > 253 {
        wrong.push(too_long(253, "characters"));
    }
    if !is_dns_subdomain(text) {
        wrong.push(with_form(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character",
            "[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*",
            &["example.com"],
        ));
    }
    wrong
}

/// RFC 1035 label.
pub fn dns_1035_label(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if text.len() > 63 {
        wrong.push(too_long(63, "characters"));
    }
    if !is_dns_label(text) || !text.starts_with(|c: char| c.is_ascii_lowercase()) {
        wrong.push(with_form(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character",
            "[a-z]([-a-z0-9]*[a-z0-9])?",
            &["my-name", "abc-123"],
        ));
    }
    wrong
}

/// Label or annotation key, or finalizer: a name with an optional DNS subdomain prefix.
pub fn qualified_name(text: &str) -> Vec<String> {
    const FORM: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
    const RULE: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
    const EXAMPLES: [&str; 3] = ["MyName", "my.name", "123-abc"];
    let mut wrong = Vec::new();
    let parts: Vec<&str> = text.split('/').collect();
    let name = match parts.as_slice() {
        [name] => name,
        [prefix, name] => {
            if prefix.is_empty() {
                wrong.push("prefix part must be non-empty".to_owned());
            } else {
                let prefixed = |wrong| format!("prefix part {wrong}");
                wrong.extend(dns_subdomain(prefix).into_iter().map(prefixed));
            }
            name
        }
        _ => {
            let form = with_form(RULE, FORM, &EXAMPLES);
            wrong.push(format!(
                "a valid label key {form} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            ));
            return wrong;
        }
    };
    if name.is_empty() {
        wrong.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        wrong.push(format!("name part {}", too_long(63, "bytes")));
    }
    if !is_label(name) {
        wrong.push(format!("name part {}", with_form(RULE, FORM, &EXAMPLES)));
    }
    wrong
}

pub fn label_value(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if text.len() > 63 {
        wrong.push(too_long(63, "bytes"));
    }
    if !text.is_empty() && !is_label(text) {
        wrong.push(with_form(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
            "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?",
            &["MyValue", "my_value", "12345"],
        ));
    }
    wrong
}

/// Path segment, the format of RBAC names.
pub fn path_segment(text: &str) -> Vec<String> {
    if matches!(text, "." | "..") {
        return vec![format!("may not be '{text}'")];
    }
    ['/', '%']
        .into_iter()
        .filter(|forbidden| text.contains(*forbidden))
        .map(|forbidden| format!("may not contain '{forbidden}'"))
        .collect()
}

fn too_long(most: usize, unit: &str) -> String {
    format!("must be no more than {most} {unit}")
}

fn with_form(rule: &str, form: &str, examples: &[&str]) -> String {
    let examples: Vec<String> = examples
        .iter()
        .map(|example| format!("'{example}'"))
        .collect();
    format!(
        "{rule} (e.g. {}, regex used for validation is '{form}')",
        examples.join(",  or ")
    )
}

fn is_dns_label(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    text.bytes().all(inner) && ends_alphanumeric(text)
}

fn is_dns_subdomain(text: &str) -> bool {
    text.split('.').all(is_dns_label)
}

fn is_label(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    text.bytes().all(inner) && ends_alphanumeric(text)
}

fn ends_alphanumeric(text: &str) -> bool {
    let fine = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
    fine(text.bytes().next()) && fine(text.bytes().last())
}
