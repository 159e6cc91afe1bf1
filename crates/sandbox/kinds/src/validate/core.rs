//! Validation of Services, Secrets, ConfigMaps and Events.

use std::collections::BTreeSet;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use super::{check::Check, names};
use crate::{
    Kind,
    value::{at, flag, has, int, list, map, text},
};

pub(super) fn service(check: &mut Check, new: &Value, old: Option<&Value>) {
    let kind = text(new, "spec.type");
    let headless = text(new, "spec.clusterIP") == "None";
    let ports = list(new, "spec.ports");
    if ports.is_empty() && !headless && kind != "ExternalName" {
        check.required("spec.ports");
    }
    match kind {
        "ExternalName" => {
            if has(new, "spec.clusterIP") || has(new, "spec.clusterIPs") {
                check.forbidden(
                    "spec.clusterIPs",
                    "may not be set for ExternalName services",
                );
            }
            let name = text(new, "spec.externalName").trim_end_matches('.');
            match name {
                "" => check.required("spec.externalName"),
                name => check.dns_name("spec.externalName", name),
            }
        }
        "LoadBalancer" if headless => {
            check.invalid(
                "spec.clusterIPs[0]",
                "None",
                "may not be set to 'None' for LoadBalancer services",
            );
        }
        "NodePort" if headless => {
            check.invalid(
                "spec.clusterIPs[0]",
                "None",
                "may not be set to 'None' for NodePort services",
            );
        }
        "ClusterIP" | "NodePort" | "LoadBalancer" => {}
        other => {
            let words = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
            check.one_of("spec.type", other, &words);
        }
    }
    service_ports(check, ports);
    check.labels("spec.selector", at(new, "spec.selector"));
    let affinity = text(new, "spec.sessionAffinity");
    check.one_of("spec.sessionAffinity", affinity, &["ClientIP", "None"]);
    if let Some(old) = old
        && kind != "ExternalName"
        && text(old, "spec.type") != "ExternalName"
        && !text(old, "spec.clusterIP").is_empty()
        && text(new, "spec.clusterIP") != text(old, "spec.clusterIP")
    {
        let address = at(new, "spec.clusterIPs").clone();
        check.invalid("spec.clusterIPs[0]", address, "may not change once set");
    }
}

fn service_ports(check: &mut Check, ports: &[Value]) {
    let mut names = BTreeSet::new();
    let mut ports_in_use = BTreeSet::new();
    for (index, port) in ports.iter().enumerate() {
        let path = format!("spec.ports[{index}]");
        let name = text(port, "name");
        if name.is_empty() {
            if ports.len() > 1 {
                check.required(format!("{path}.name"));
            }
        } else {
            check.dns_label(format!("{path}.name"), name);
            if !names.insert(name) {
                check.duplicate(format!("{path}.name"), name);
            }
        }
        check.port_number(format!("{path}.port"), int(port, "port"));
        check.one_of(
            format!("{path}.protocol"),
            text(port, "protocol"),
            &["SCTP", "TCP", "UDP"],
        );
        check.port(&format!("{path}.targetPort"), at(port, "targetPort"));
        if !ports_in_use.insert((text(port, "protocol"), int(port, "port"))) {
            let key = json!({
                "Name": "",
                "Protocol": text(port, "protocol"),
                "AppProtocol": null,
                "Port": int(port, "port"),
                "TargetPort": 0,
                "NodePort": 0,
            });
            check.duplicate(path, key);
        }
    }
}

/// Total size of the data of a ConfigMap or Secret.
const MAX_BYTES: usize = 1024 * 1024;

pub(super) fn secret(check: &mut Check, new: &Value, old: Option<&Value>) {
    let data = map(new, "data");
    let mut bytes = 0;
    for (key, value) in data {
        for message in names::data_key(key) {
            check.invalid(format!("data[{key}]"), key.as_str(), message);
        }
        bytes += value.as_str().map_or(0, |text| text.len() / 4 * 3);
    }
    if bytes > MAX_BYTES {
        check.too_long("data", MAX_BYTES as u64);
    }
    let content = |key: &str| STANDARD.decode(data.get(key)?.as_str()?).ok();
    let mut needs = |key: &str| {
        if !data.contains_key(key) {
            check.required(format!("data[{key}]"));
        }
    };
    match text(new, "type") {
        "kubernetes.io/tls" => ["tls.crt", "tls.key"].into_iter().for_each(needs),
        "kubernetes.io/ssh-auth" => needs("ssh-privatekey"),
        "kubernetes.io/basic-auth"
            if !data.contains_key("username") && !data.contains_key("password") =>
        {
            ["username", "password"].into_iter().for_each(needs);
        }
        "kubernetes.io/service-account-token" => {
            let account =
                map(new, "metadata.annotations").get("kubernetes.io/service-account.name");
            if account.is_none_or(|account| account == "") {
                check.required("metadata.annotations[kubernetes.io/service-account.name]");
            }
        }
        kind @ ("kubernetes.io/dockerconfigjson" | "kubernetes.io/dockercfg") => {
            let key = match kind {
                "kubernetes.io/dockercfg" => ".dockercfg",
                _ => ".dockerconfigjson",
            };
            needs(key);
            if let Some(content) = content(key)
                && let Err(error) = serde_json::from_slice::<serde::de::IgnoredAny>(&content)
            {
                let why = match error.classify() {
                    serde_json::error::Category::Eof => "unexpected end of JSON input".to_owned(),
                    _ => error.to_string(),
                };
                check.invalid(format!("data[{key}]"), "<secret contents redacted>", why);
            }
        }
        _ => {}
    }
    check.immutable(new, old, "type");
    immutable_data(check, new, old, &["data"]);
}

pub(super) fn config_map(check: &mut Check, new: &Value, old: Option<&Value>) {
    let mut bytes = 0;
    for field in ["data", "binaryData"] {
        for (key, value) in map(new, field) {
            for message in names::data_key(key) {
                check.invalid(format!("{field}[{key}]"), key.as_str(), message);
            }
            if field == "data" && map(new, "binaryData").contains_key(key) {
                check.invalid(
                    format!("data[{key}]"),
                    key.as_str(),
                    "duplicate of key present in binaryData",
                );
            }
            bytes += value.as_str().map_or(0, str::len);
        }
    }
    if bytes > MAX_BYTES {
        check.too_long("[]", MAX_BYTES as u64);
    }
    immutable_data(check, new, old, &["data", "binaryData"]);
}

/// Data marked `immutable` must not change.
fn immutable_data(check: &mut Check, new: &Value, old: Option<&Value>, fields: &[&str]) {
    const WHY: &str = "field is immutable when `immutable` is set";
    let Some(old) = old.filter(|old| flag(old, "immutable")) else {
        return;
    };
    if !flag(new, "immutable") {
        check.forbidden("immutable", WHY);
    }
    for field in fields {
        if at(new, field) != at(old, field) {
            check.forbidden(*field, WHY);
        }
    }
}

pub(super) fn event(check: &mut Check, kind: &Kind, new: &Value, old: Option<&Value>) {
    let is_core = kind.group.is_empty();
    let object = if is_core {
        "involvedObject"
    } else {
        "regarding"
    };
    let place = text(at(new, object), "namespace");
    let namespace = text(new, "metadata.namespace");
    let in_cluster = place.is_empty() && matches!(namespace, "default" | "kube-system");
    if place != namespace && !in_cluster {
        check.invalid(
            "involvedObject.namespace",
            place,
            "does not match event.namespace",
        );
    }
    if is_core || old.is_some() {
        return;
    }
    // Legacy clients write core Events without these fields.
    if !has(new, "eventTime") {
        check.required("eventTime");
    }
    let kind = text(new, "type");
    if !matches!(kind, "Normal" | "Warning") {
        check.invalid("type", "", format!("has invalid value: {kind}"));
    }
    if !has(new, "eventTime") {
        return;
    }
    match text(new, "reportingController") {
        "" => check.required("reportingController"),
        controller => {
            for message in schema::names::qualified_name(controller) {
                check.invalid("reportingController", controller, message);
            }
        }
    }
    for (field, max) in [("reportingInstance", 128), ("action", 128), ("reason", 128)] {
        match text(new, field) {
            "" => check.required(field),
            long if long.len() > max => {
                check.invalid(field, "", format!("can have at most {max} characters"));
            }
            _ => {}
        }
    }
    if text(new, "note").len() > 1024 {
        check.invalid("message", "", "can have at most 1024 characters");
    }
}
