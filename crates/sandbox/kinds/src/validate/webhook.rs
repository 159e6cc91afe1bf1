//! Validation of webhook configurations.

use std::collections::BTreeSet;

use schema::names;
use serde_json::Value;

use super::check::{Check, PORT_RANGE};
use crate::value::{at, has, int, list, text};

pub(super) fn check(check: &mut Check, new: &Value) {
    let mut names = BTreeSet::new();
    for (index, webhook) in list(new, "webhooks").iter().enumerate() {
        let path = format!("webhooks[{index}]");
        let name = text(webhook, "name");
        qualified(check, &format!("{path}.name"), name);
        for (index, rule) in list(webhook, "rules").iter().enumerate() {
            rule_rules(check, &format!("{path}.rules[{index}]"), rule);
        }
        enums(check, &path, webhook);
        check.label_selector(
            &format!("{path}.namespaceSelector"),
            at(webhook, "namespaceSelector"),
        );
        check.label_selector(
            &format!("{path}.objectSelector"),
            at(webhook, "objectSelector"),
        );
        client(
            check,
            &format!("{path}.clientConfig"),
            at(webhook, "clientConfig"),
        );
        review_versions(
            check,
            &format!("{path}.admissionReviewVersions"),
            list(webhook, "admissionReviewVersions"),
        );
        if !name.is_empty() && !names.insert(name) {
            check.duplicate(format!("{path}.name"), name);
        }
    }
}

/// Fully qualified DNS name with at least three parts.
fn qualified(check: &mut Check, path: &str, name: &str) {
    if name.is_empty() {
        check.required(path);
        return;
    }
    let messages = names::dns_subdomain(name);
    if messages.is_empty() && name.split('.').count() < 3 {
        check.invalid(
            path,
            name,
            "should be a domain with at least three segments separated by dots",
        );
    }
    if !messages.is_empty() {
        check.invalid(path, name, messages.join(","));
    }
}

fn enums(check: &mut Check, path: &str, webhook: &Value) {
    for (field, supported) in [
        ("failurePolicy", ["Fail", "Ignore"]),
        ("matchPolicy", ["Equivalent", "Exact"]),
        ("sideEffects", ["None", "NoneOnDryRun"]),
    ] {
        match text(webhook, field) {
            "" if field == "sideEffects" => {
                check.required_because(
                    format!("{path}.{field}"),
                    "must specify one of None, NoneOnDryRun",
                );
            }
            word if supported.contains(&word) => {}
            word => check.unsupported(format!("{path}.{field}"), word, &supported),
        }
    }
    let timeout = int(webhook, "timeoutSeconds");
    if has(webhook, "timeoutSeconds") && !(1..=30).contains(&timeout) {
        let why = "the timeout value must be between 1 and 30 seconds";
        check.invalid(format!("{path}.timeoutSeconds"), timeout, why);
    }
    if has(webhook, "reinvocationPolicy") {
        let policy = text(webhook, "reinvocationPolicy");
        check.one_of(
            format!("{path}.reinvocationPolicy"),
            policy,
            &["IfNeeded", "Never"],
        );
    }
}

fn client(check: &mut Check, path: &str, client: &Value) {
    match (client.get("url"), client.get("service")) {
        (Some(url), None) => client_url(
            check,
            &format!("{path}.url"),
            url.as_str().unwrap_or_default(),
        ),
        (None, Some(service)) => {
            let path = format!("{path}.service");
            for field in ["name", "namespace"] {
                if text(service, field).is_empty() {
                    check.required(format!("{path}.{field}"));
                }
            }
            let port = int(service, "port");
            if !(1..=65535).contains(&port) {
                check.invalid(
                    format!("{path}.port"),
                    port,
                    format!("port is not valid: {PORT_RANGE}"),
                );
            }
            service_path(check, &format!("{path}.path"), text(service, "path"));
        }
        _ => check.required_because(path, "exactly one of url or service is required"),
    }
}

fn service_path(check: &mut Check, path: &str, place: &str) {
    if matches!(place, "" | "/") {
        return;
    }
    let Some(rest) = place.strip_prefix('/') else {
        check.invalid(path, place, "must start with a '/'");
        return;
    };
    for (index, step) in rest
        .strip_suffix('/')
        .unwrap_or(rest)
        .split('/')
        .enumerate()
    {
        if step.is_empty() {
            check.invalid(path, place, format!("segment[{index}] may not be empty"));
            continue;
        }
        for message in names::dns_subdomain(step) {
            check.invalid(path, place, format!("segment[{index}]: {message}"));
        }
    }
}

fn client_url(check: &mut Check, path: &str, url: &str) {
    const FORM: &str = "; desired format: https://host[/path]";
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    if scheme != "https" {
        check.invalid(
            path,
            scheme,
            format!("'https' is the only allowed URL scheme{FORM}"),
        );
    }
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if scheme.is_empty() || host.is_empty() {
        check.invalid(path, "", format!("host must be specified{FORM}"));
    }
    if let Some((user, _)) = host.split_once('@') {
        check.invalid(path, user, "user information is not permitted in the URL");
    }
    let (before, fragment) = url.split_once('#').unwrap_or((url, ""));
    if !fragment.is_empty() {
        check.invalid(path, fragment, "fragments are not permitted in the URL");
    }
    if let Some((_, query)) = before
        .split_once('?')
        .filter(|(_, query)| !query.is_empty())
    {
        check.invalid(path, query, "query parameters are not permitted in the URL");
    }
}

fn review_versions(check: &mut Check, path: &str, versions: &[Value]) {
    if versions.is_empty() {
        check.required_because(path, "must specify one of v1, v1beta1");
        return;
    }
    if !versions
        .iter()
        .any(|version| version == "v1" || version == "v1beta1")
    {
        let why = "must include at least one of v1, v1beta1";
        check.invalid(path, versions.to_vec(), why);
    }
}

fn rule_rules(check: &mut Check, path: &str, rule: &Value) {
    let operations = list(rule, "operations");
    wildcard_alone(
        check,
        &format!("{path}.operations"),
        operations,
        "operations",
    );
    for (index, operation) in operations.iter().enumerate() {
        let operations = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
        let operation = operation.as_str().unwrap_or_default();
        if !operations.contains(&operation) {
            check.unsupported(
                format!("{path}.operations[{index}]"),
                operation,
                &operations,
            );
        }
    }
    wildcard_alone(
        check,
        &format!("{path}.apiGroups"),
        list(rule, "apiGroups"),
        "API groups",
    );
    wildcard_alone(
        check,
        &format!("{path}.apiVersions"),
        list(rule, "apiVersions"),
        "API versions",
    );
    let resources = list(rule, "resources");
    if resources.is_empty() {
        check.required(format!("{path}.resources"));
    }
    if resources.len() > 1 && resources.iter().any(|resource| resource == "*/*") {
        let why = "if '*/*' is present, must not specify other resources";
        check.invalid(format!("{path}.resources"), resources.to_vec(), why);
    }
    let plain = |resource: &Value| {
        resource
            .as_str()
            .is_some_and(|name| name != "*" && !name.contains('/'))
    };
    if resources.iter().any(|resource| resource == "*") && resources.iter().any(plain) {
        let why = "if '*' is present, must not specify other resources without subresources";
        check.invalid(format!("{path}.resources"), resources.to_vec(), why);
    }
    let scope = text(rule, "scope");
    if !matches!(scope, "" | "*" | "Cluster" | "Namespaced") {
        check.unsupported(
            format!("{path}.scope"),
            scope,
            &["*", "Cluster", "Namespaced"],
        );
    }
}

/// Not empty; a wildcard must be the only item.
fn wildcard_alone(check: &mut Check, path: &str, items: &[Value], what: &str) {
    if items.is_empty() {
        check.required(path);
    }
    if items.len() > 1 && items.iter().any(|item| item == "*") {
        let why = format!("if '*' is present, must not specify other {what}");
        check.invalid(path, items.to_vec(), why);
    }
}
