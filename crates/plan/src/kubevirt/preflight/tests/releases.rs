//! Permissions of KubeVirt's virt-operator, compared with those that releases need.

use std::collections::{BTreeMap, BTreeSet};

use rstest::rstest;
use serde_json::{Value, json};

use super::{Cluster, Permissions, Rule, findings, rule};
use crate::kubevirt::{releases::Source, strategy::Strategy};

fn released(source: Source) -> Strategy {
    Strategy::parse(&source.strategy("v1.9.0", "default")).unwrap()
}

fn permissions(documents: Vec<Value>) -> Permissions {
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

#[rstest]
#[case::fixtures(Source::Fixtures)]
#[ignore = "needs KUBEVIRT_OPERATOR_DATA"]
#[case::real_data(Source::RealData)]
fn the_operator_of_a_release_may_grant_what_its_roles_grant(#[case] source: Source) {
    let permissions = permissions(source.operator_roles("v1.9.0"));
    assert_eq!(gaps(&permissions, &released(source)), BTreeMap::new());
}

#[rstest]
#[case::fixtures(Source::Fixtures)]
#[ignore = "needs KUBEVIRT_OPERATOR_DATA"]
#[case::real_data(Source::RealData)]
fn the_operator_of_an_older_release_may_not_grant_all_of_a_newer_one(#[case] source: Source) {
    let permissions = permissions(source.operator_roles("v1.8.4"));
    let gaps = gaps(&permissions, &released(source));
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
#[rstest]
#[case::fixtures(Source::Fixtures)]
#[ignore = "needs KUBEVIRT_OPERATOR_DATA"]
#[case::real_data(Source::RealData)]
fn reports_what_the_rbac_of_virt_operator_lacks(#[case] source: Source) {
    let permissions = permissions(source.operator_roles("v1.9.0"));
    let cluster = Cluster {
        permissions: Some(&permissions),
        ..Cluster::default()
    };
    let found = findings(json!({}), &released(source), &cluster);
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
