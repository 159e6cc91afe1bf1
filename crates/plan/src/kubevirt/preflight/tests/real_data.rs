//! Permissions of KubeVirt's virt-operator, compared with those that releases need.
//!
//! The data are not part of the repository: `KUBEVIRT_OPERATOR_DATA` names the folder that holds
//! `kubevirt/strategy`.
#![allow(
    clippy::disallowed_methods,
    reason = "a test reads a release's strategy"
)]

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    io::Read as _,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use super::{Cluster, Permissions, Rule, findings, rule};
use crate::kubevirt::strategy::Strategy;

fn data() -> PathBuf {
    let data = env::var_os("KUBEVIRT_OPERATOR_DATA");
    PathBuf::from(data.expect("KUBEVIRT_OPERATOR_DATA names the folder with the data of releases"))
        .join("kubevirt")
}

fn released(data: &Path) -> Strategy {
    let packed = fs::read(data.join("strategy/v1.9.0-default.yaml.gz")).unwrap();
    let mut text = String::new();
    flate2::read::GzDecoder::new(packed.as_slice())
        .read_to_string(&mut text)
        .unwrap();
    Strategy::parse(&text).unwrap()
}

fn permissions(text: &str) -> Permissions {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text).unwrap();
    let mut permissions = Permissions::default();
    for document in documents {
        let rules = document["rules"].as_array().into_iter().flatten();
        let rules = rules.map(|value| rule(value.clone()));
        match document["kind"].as_str() {
            Some("ClusterRole") => permissions.cluster.extend(rules),
            Some("Role") => permissions.namespace.extend(rules),
            _ => {}
        }
    }
    permissions.namespace.extend(permissions.cluster.clone());
    permissions
}

/// Permissions that roles grant and the operator does not have, by role.
fn gaps(permissions: &Permissions, strategy: &Strategy) -> BTreeMap<String, BTreeSet<String>> {
    let cluster = Cluster {
        permissions: Some(permissions),
        ..Cluster::default()
    };
    let mut gaps: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for finding in findings(json!({}), strategy, &cluster) {
        let grant = finding
            .message
            .strip_prefix("the operator may not grant permissions that it does not have: ");
        if let Some(grant) = grant {
            gaps.entry(finding.subject)
                .or_default()
                .insert(grant.to_owned());
        }
    }
    gaps
}

#[test]
#[ignore = "needs KUBEVIRT_OPERATOR_DATA"]
fn the_operator_of_a_release_may_grant_what_its_roles_grant() {
    let data = data();
    let permissions =
        permissions(&fs::read_to_string(data.join("v1.9.0/rbac.operator.yaml")).unwrap());
    assert_eq!(gaps(&permissions, &released(&data)), BTreeMap::new());
}

#[test]
#[ignore = "needs KUBEVIRT_OPERATOR_DATA"]
fn the_operator_of_an_older_release_may_not_grant_all_of_a_newer_one() {
    let data = data();
    let text = fs::read_to_string(data.join("fixtures/rbac.operator-v1.8.4.yaml.in")).unwrap();
    let text = text.replace("{{.Namespace}}", "kubevirt");
    let text: Vec<_> = text.lines().filter(|line| !line.contains("{{")).collect();
    let gaps = gaps(&permissions(&text.join("\n")), &released(&data));
    let read = BTreeSet::from(["get, list, watch plugins.plugin.kubevirt.io".to_owned()]);
    let all = BTreeSet::from([
        "create, delete, deletecollection, get, list, patch, update, watch plugins.plugin.kubevirt.io".to_owned(),
    ]);
    let expected = BTreeMap::from([
        ("ClusterRole kubevirt.io:admin".to_owned(), all),
        ("ClusterRole kubevirt.io:view".to_owned(), read.clone()),
        ("ClusterRole kubevirt-handler".to_owned(), read),
    ]);
    assert_eq!(gaps, expected);
}

/// Permissions that the operator needs beyond those of virt-operator: it patches instead of updating.
#[test]
#[ignore = "needs KUBEVIRT_OPERATOR_DATA"]
fn reports_what_the_rbac_of_virt_operator_lacks() {
    let data = data();
    let permissions =
        permissions(&fs::read_to_string(data.join("v1.9.0/rbac.operator.yaml")).unwrap());
    let cluster = Cluster {
        permissions: Some(&permissions),
        ..Cluster::default()
    };
    let found = findings(json!({}), &released(&data), &cluster);
    let found: Vec<_> = found
        .iter()
        .filter(|finding| finding.subject == "the operator")
        .map(|finding| finding.message.as_str())
        .collect();
    assert_eq!(found, [""; 0]);
}

#[test]
fn parses_a_rule_of_a_review() {
    let read: Rule = rule(json!({"nonResourceURLs": ["/metrics"], "verbs": ["get"]}));
    assert_eq!(read.non_resource_urls, ["/metrics"]);
}
