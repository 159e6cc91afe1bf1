//! Checks of `validate --strict`: what the API server accepts, and what does not work nevertheless.

use api::Machine;
use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::Value;

use crate::documents;

/// API groups of Kubernetes itself, whose documents other tools validate.
const BUILT_IN: [&str; 5] = ["apps", "autoscaling", "batch", "policy", "extensions"];
/// Groups of the projects that Machines work with.
const NEIGHBOURS: [&str; 10] = [
    "apiextensions.k8s.io",
    "cdi.kubevirt.io",
    "cert-manager.io",
    "helm.toolkit.fluxcd.io",
    "instancetype.kubevirt.io",
    "k8s.cni.cncf.io",
    "kubevirt.io",
    "kustomize.config.k8s.io",
    "monitoring.coreos.com",
    "snapshot.kubevirt.io",
];

/// First lines that cloud-init understands, besides `#cloud-config`.
const FORMATS: [&str; 8] = [
    "#!",
    "#include",
    "#cloud-boothook",
    "#cloud-config-archive",
    "#part-handler",
    "#upstart-job",
    "Content-Type:",
    "MIME-Version:",
];

/// Problem with the apiVersion of a document that `validate` otherwise ignores.
pub(super) fn unknown_group(document: &Value) -> Option<String> {
    let api_version = document["apiVersion"].as_str()?;
    let kind = document["kind"].as_str().unwrap_or_default();
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    let is_known = group.is_empty()
        || group.ends_with(".k8s.io")
        || BUILT_IN.contains(&group)
        || NEIGHBOURS.contains(&group);
    if is_known {
        return None;
    }
    let expected = api::API_VERSION;
    Some(match kind {
        "Machine" | "MachineClass" | "NetworkConfiguration" => {
            format!(
                "{api_version:?} is unknown, so the {kind} is not validated: for this operator it is {expected}"
            )
        }
        _ => format!(
            "{api_version:?} is unknown, so the {kind} is not validated: correct it, or leave out --strict"
        ),
    })
}

/// Problems with inline cloud-init data: path and message. Messages never quote the data.
pub(super) fn cloud_init(machine: &Machine) -> Vec<(String, String)> {
    let Some(cloud_init) = &machine.spec.cloud_init else {
        return Vec::new();
    };
    let checks: [(&str, Option<&String>, bool, Check); 4] = [
        ("userData", cloud_init.user_data.as_ref(), false, user_data),
        (
            "userDataBase64",
            cloud_init.user_data_base64.as_ref(),
            true,
            user_data,
        ),
        (
            "networkData",
            cloud_init.network_data.as_ref(),
            false,
            network_data,
        ),
        (
            "networkDataBase64",
            cloud_init.network_data_base64.as_ref(),
            true,
            network_data,
        ),
    ];
    let problems = checks
        .into_iter()
        .filter_map(|(field, text, is_encoded, check)| {
            let text = text.filter(|text| !text.is_empty())?;
            let decoded = if is_encoded {
                BASE64_STANDARD
                    .decode(text.split_whitespace().collect::<String>())
                    .ok()?
            } else {
                text.clone().into_bytes()
            };
            let problem = check(&decoded)?;
            Some((format!("spec.cloudInit.{field}"), problem))
        });
    problems.collect()
}

type Check = fn(&[u8]) -> Option<String>;

fn user_data(data: &[u8]) -> Option<String> {
    // Compressed data is cloud-init's own business.
    let text = std::str::from_utf8(data).ok()?;
    let first = text.lines().next().unwrap_or_default().trim_end();
    if first == "## template: jinja" || FORMATS.iter().any(|format| first.starts_with(format)) {
        return None;
    }
    if first != "#cloud-config" {
        return Some(
            "cloud-init ignores it: the first line must be #cloud-config, or #! for a script"
                .to_owned(),
        );
    }
    mapping(data)
}

fn network_data(data: &[u8]) -> Option<String> {
    mapping(data)
}

/// Problem with data that must be one YAML mapping.
fn mapping(data: &[u8]) -> Option<String> {
    let documents = match documents::parse(&"cloud-init".into(), data) {
        Ok(documents) => documents,
        Err(error) => return Some(error.to_string()),
    };
    let mut values = Vec::new();
    for document in documents {
        match document {
            Ok(document) => values.push(document.value),
            Err(documents::ReadError::NotYaml { line, message, .. }) => {
                return Some(format!("line {line}: {message}"));
            }
            Err(error) => return Some(error.to_string()),
        }
    }
    match values.as_slice() {
        [] | [Value::Object(_)] => None,
        [_] => Some("is not a mapping: cloud-init needs keys with values".to_owned()),
        _ => Some("has several documents: cloud-init reads only the first".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case("#cloud-config\nusers: [default]\n", None)]
    #[case("#cloud-config\n", None)]
    #[case("#!/bin/sh\necho a: [\n", None)]
    #[case("## template: jinja\n#cloud-config\na: {{ b }}\n", None)]
    #[case("Content-Type: multipart/mixed\n", None)]
    #[case("users: [default]\n", Some("the first line must be #cloud-config"))]
    #[case("#cloud-config\nusers: [default\n", Some("line "))]
    #[case("#cloud-config\n- a\n", Some("is not a mapping"))]
    #[case("#cloud-config\na: 1\n---\nb: 1\n", Some("has several documents"))]
    fn user_data_is_what_cloud_init_reads(#[case] data: &str, #[case] problem: Option<&str>) {
        for (field, text) in [
            ("userData", data.to_owned()),
            ("userDataBase64", BASE64_STANDARD.encode(data)),
        ] {
            let machine: Machine = serde_json::from_value(json!({
                "metadata": {}, "spec": { "cloudInit": { field: text } },
            }))
            .unwrap();
            let found = cloud_init(&machine);
            match problem {
                None => assert_eq!(found, []),
                Some(words) => {
                    assert_eq!(found.len(), 1, "{data}");
                    assert_eq!(found[0].0, format!("spec.cloudInit.{field}"));
                    assert!(found[0].1.contains(words), "{found:?}");
                }
            }
        }
    }

    #[test]
    fn a_message_does_not_quote_the_data() {
        let machine: Machine = serde_json::from_value(json!({
            "metadata": {},
            "spec": { "cloudInit": { "userData": "#cloud-config\npassword: [hunter2\n" } },
        }))
        .unwrap();
        let found = cloud_init(&machine);
        assert!(
            !found.is_empty() && !found[0].1.contains("hunter2"),
            "{found:?}"
        );
    }

    #[test]
    fn a_misspelled_group_is_unknown() {
        let of = |api_version: &str, kind: &str| {
            unknown_group(&json!({ "apiVersion": api_version, "kind": kind }))
        };
        assert!(
            of("vitistak.io/v1alpha1", "Machine")
                .unwrap()
                .contains("vitistack.io/v1alpha1")
        );
        assert!(
            of("example.org/v1", "Thing")
                .unwrap()
                .contains("leave out --strict")
        );
        for known in [
            "v1",
            "apps/v1",
            "rbac.authorization.k8s.io/v1",
            "kubevirt.io/v1",
        ] {
            assert_eq!(of(known, "Thing"), None, "{known}");
        }
    }
}
