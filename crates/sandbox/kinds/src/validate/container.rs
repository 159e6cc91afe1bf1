//! Validation of containers.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    check::{Check, NOT_NEGATIVE, amount},
    names,
};
use crate::value::{at, has, int, list, map, text};

/// Validates containers and init containers of a pod spec at `path`.
pub(super) fn all(check: &mut Check, path: &str, spec: &Value, volumes: &BTreeSet<&str>) {
    let containers = list(spec, "containers");
    if containers.is_empty() {
        check.required(format!("{path}.containers"));
    }
    let mut names = BTreeSet::new();
    for (index, container) in containers.iter().enumerate() {
        let path = format!("{path}.containers[{index}]");
        common(check, &path, container, volumes);
        if !names.insert(text(container, "name")) {
            check.duplicate(format!("{path}.name"), text(container, "name"));
        }
        lifecycle(check, &path, container);
        probes(check, &path, container);
    }
    for (index, container) in list(spec, "initContainers").iter().enumerate() {
        let path = format!("{path}.initContainers[{index}]");
        common(check, &path, container, volumes);
        let name = text(container, "name");
        if !name.is_empty() && !names.insert(name) {
            check.duplicate(format!("{path}.name"), name);
        }
        if text(container, "restartPolicy") == "Always" {
            lifecycle(check, &path, container);
            probes(check, &path, container);
        } else {
            for field in [
                "lifecycle",
                "livenessProbe",
                "readinessProbe",
                "startupProbe",
            ] {
                if has(container, field) {
                    let why = "may not be set for init containers without restartPolicy=Always";
                    check.forbidden(format!("{path}.{field}"), why);
                }
            }
        }
    }
}

fn common(check: &mut Check, path: &str, container: &Value, volumes: &BTreeSet<&str>) {
    match text(container, "name") {
        "" => check.required(format!("{path}.name")),
        name => check.dns_label(format!("{path}.name"), name),
    }
    match text(container, "image") {
        "" => check.required(format!("{path}.image")),
        image if image.trim() != image => {
            check.invalid(
                format!("{path}.image"),
                image,
                "must not have leading or trailing whitespace",
            );
        }
        _ => {}
    }
    check.one_of(
        format!("{path}.terminationMessagePolicy"),
        text(container, "terminationMessagePolicy"),
        &["File", "FallbackToLogsOnError"],
    );
    check.one_of(
        format!("{path}.imagePullPolicy"),
        text(container, "imagePullPolicy"),
        &["Always", "IfNotPresent", "Never"],
    );
    ports(check, path, container);
    environment(check, path, container);
    mounts(check, path, container, volumes);
    resources(
        check,
        &format!("{path}.resources"),
        at(container, "resources"),
    );
}

fn ports(check: &mut Check, path: &str, container: &Value) {
    let mut names = BTreeSet::new();
    for (index, port) in list(container, "ports").iter().enumerate() {
        let path = format!("{path}.ports[{index}]");
        let name = text(port, "name");
        if !name.is_empty() {
            let messages = names::port_name(name);
            if messages.is_empty() && !names.insert(name) {
                check.duplicate(format!("{path}.name"), name);
            }
            for message in messages {
                check.invalid(format!("{path}.name"), name, message);
            }
        }
        match int(port, "containerPort") {
            0 => check.required(format!("{path}.containerPort")),
            number => check.port_number(format!("{path}.containerPort"), number),
        }
        match int(port, "hostPort") {
            0 => {}
            number => check.port_number(format!("{path}.hostPort"), number),
        }
        check.one_of(
            format!("{path}.protocol"),
            text(port, "protocol"),
            &["SCTP", "TCP", "UDP"],
        );
    }
}

fn environment(check: &mut Check, path: &str, container: &Value) {
    for (index, variable) in list(container, "env").iter().enumerate() {
        let path = format!("{path}.env[{index}]");
        match text(variable, "name") {
            "" => check.required(format!("{path}.name")),
            name => {
                for message in names::env_name(name) {
                    check.invalid(format!("{path}.name"), name, message);
                }
            }
        }
        if has(variable, "valueFrom") {
            value_source(check, &format!("{path}.valueFrom"), variable);
        }
    }
    let path = format!("{path}.envFrom");
    for (index, source) in list(container, "envFrom").iter().enumerate() {
        let mut sources = 0;
        for field in ["configMapRef", "secretRef"] {
            if let Some(reference) = source.get(field) {
                sources += 1;
                if text(reference, "name").is_empty() {
                    check.required(format!("{path}[{index}].{field}.name"));
                }
            }
        }
        match sources {
            0 => check.invalid(
                path.clone(),
                "",
                "must specify one of: `configMapRef` or `secretRef`",
            ),
            1 => {}
            _ => check.invalid(
                path.clone(),
                "",
                "may not have more than one field specified at a time",
            ),
        }
    }
}

fn value_source(check: &mut Check, path: &str, variable: &Value) {
    let sources = map(variable, "valueFrom");
    for field in ["configMapKeyRef", "secretKeyRef"] {
        if let Some(reference) = sources.get(field) {
            if text(reference, "name").is_empty() {
                check.required(format!("{path}.{field}.name"));
            }
            match text(reference, "key") {
                "" => check.required(format!("{path}.{field}.key")),
                key => {
                    for message in names::data_key(key) {
                        check.invalid(format!("{path}.{field}.key"), key, message);
                    }
                }
            }
        }
    }
    if sources.is_empty() {
        check.invalid(
            path,
            "",
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`",
        );
    } else if !text(variable, "value").is_empty() {
        check.invalid(path, "", "may not be specified when `value` is not empty");
    } else if sources.len() > 1 {
        check.invalid(
            path,
            "",
            "may not have more than one field specified at a time",
        );
    }
}

fn mounts(check: &mut Check, path: &str, container: &Value, volumes: &BTreeSet<&str>) {
    let mut mount_paths = BTreeSet::new();
    let mounts = format!("{path}.volumeMounts");
    for (index, mount) in list(container, "volumeMounts").iter().enumerate() {
        let path = format!("{mounts}[{index}]");
        let name = text(mount, "name");
        if name.is_empty() {
            check.required(format!("{path}.name"));
        }
        if !volumes.contains(name) {
            check.not_found(format!("{path}.name"), name);
        }
        let mount_path = text(mount, "mountPath");
        if mount_path.is_empty() {
            check.required(format!("{path}.mountPath"));
        }
        // kube-apiserver omits the index here.
        check.descending_path(&format!("{mounts}.subPath"), text(mount, "subPath"));
        if !mount_paths.insert(mount_path) {
            check.invalid(format!("{path}.mountPath"), mount_path, "must be unique");
        }
    }
    for (index, device) in list(container, "volumeDevices").iter().enumerate() {
        let path = format!("{path}.volumeDevices[{index}]");
        match text(device, "name") {
            "" => check.required(format!("{path}.name")),
            name if !volumes.contains(name) => check.not_found(format!("{path}.name"), name),
            _ => {}
        }
        if text(device, "devicePath").is_empty() {
            check.required(format!("{path}.devicePath"));
        }
    }
}

/// Requests must not exceed limits; extended resources and hugepages must be equal.
pub(super) fn resources(check: &mut Check, path: &str, resources: &Value) {
    let limits = map(resources, "limits");
    for (kind, amounts) in [("limits", limits), ("requests", map(resources, "requests"))] {
        for (name, value) in amounts {
            let resource_path = format!("{path}.{kind}[{name}]");
            resource_name(check, &resource_path, name);
            if amount(value).is_some_and(|amount| amount < quantity::Quantity::from_bytes(0)) {
                check.invalid(resource_path, value.clone(), NOT_NEGATIVE);
            }
        }
    }
    let path = format!("{path}.requests");
    for (name, value) in map(resources, "requests") {
        let shareable = !name.contains('/') && !name.starts_with("hugepages-");
        let (Some(request), limit) = (amount(value), limits.get(name).and_then(amount)) else {
            continue;
        };
        match limit {
            Some(limit) if request != limit && !shareable => {
                check.invalid(
                    path.clone(),
                    value.clone(),
                    format!("must be equal to {name} limit of {limit}"),
                );
            }
            Some(limit) if request > limit => check.invalid(
                path.clone(),
                value.clone(),
                format!("must be less than or equal to {name} limit of {limit}"),
            ),
            None if !shareable => check.required_because(
                path.replace(".requests", ".limits"),
                "Limit must be set for non overcommitable resources",
            ),
            _ => {}
        }
    }
}

fn resource_name(check: &mut Check, path: &str, name: &str) {
    let messages = schema::names::qualified_name(name);
    if !messages.is_empty() {
        for message in messages {
            check.invalid(path, name, message);
        }
        return;
    }
    let standard =
        matches!(name, "cpu" | "memory" | "ephemeral-storage") || name.starts_with("hugepages-");
    if !name.contains('/') && !standard {
        check.invalid(
            path,
            name,
            "must be a standard resource type or fully qualified",
        );
        check.invalid(path, name, "must be a standard resource for containers");
    }
}

fn lifecycle(check: &mut Check, path: &str, container: &Value) {
    for hook in ["postStart", "preStop"] {
        if let Some(handler) = at(container, "lifecycle").get(hook) {
            handle(check, &format!("{path}.lifecycle.{hook}"), handler);
        }
    }
}

fn probes(check: &mut Check, path: &str, container: &Value) {
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let Some(probe) = container.get(name) else {
            continue;
        };
        let path = format!("{path}.{name}");
        handle(check, &path, probe);
        for field in [
            "initialDelaySeconds",
            "timeoutSeconds",
            "periodSeconds",
            "successThreshold",
            "failureThreshold",
        ] {
            check.not_negative_at(format!("{path}.{field}"), at(probe, field));
        }
        if name != "readinessProbe" && int(probe, "successThreshold") != 1 {
            check.invalid(
                format!("{path}.successThreshold"),
                int(probe, "successThreshold"),
                "must be 1",
            );
        }
        if has(probe, "terminationGracePeriodSeconds")
            && int(probe, "terminationGracePeriodSeconds") <= 0
        {
            let value = at(probe, "terminationGracePeriodSeconds").clone();
            check.invalid(
                format!("{path}.terminationGracePeriodSeconds"),
                value,
                "must be greater than 0",
            );
        }
    }
}

fn handle(check: &mut Check, path: &str, handler: &Value) {
    let mut first = true;
    for field in ["exec", "httpGet", "tcpSocket", "grpc", "sleep"] {
        let Some(action) = handler.get(field) else {
            continue;
        };
        let path = format!("{path}.{field}");
        if !first {
            check.forbidden(path, "may not specify more than 1 handler type");
            continue;
        }
        first = false;
        match field {
            "exec" if list(action, "command").is_empty() => {
                check.required(format!("{path}.command"));
            }
            "httpGet" => {
                if text(action, "path").is_empty() {
                    check.required(format!("{path}.path"));
                }
                check.port(&format!("{path}.port"), at(action, "port"));
                let scheme = text(action, "scheme");
                if !matches!(scheme, "HTTP" | "HTTPS") {
                    check.unsupported(format!("{path}.scheme"), scheme, &["HTTP", "HTTPS"]);
                }
            }
            "tcpSocket" => check.port(&format!("{path}.port"), at(action, "port")),
            "grpc" => check.port_number(format!("{path}.port"), int(action, "port")),
            _ => {}
        }
    }
    if first {
        check.required_because(path, "must specify a handler type");
    }
}
