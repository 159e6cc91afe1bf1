//! Tests of preflight checks.

mod releases;

use std::collections::BTreeMap;

use api::kubevirt::install::KubeVirt;
use rstest::rstest;
use serde_json::{Value, json};

use super::{Cluster, Finding, Permissions, Rule, Severity, preflight, rules::covered};
use crate::kubevirt::{
    desired::{Facts, Handlers, desired},
    observed::{Node, Served},
    strategy::Strategy,
    target::Target,
};

fn kubevirt(spec: Value) -> KubeVirt {
    let mut kubevirt = json!({
        "apiVersion": "kubevirt.io/v1",
        "kind": "KubeVirt",
        "metadata": {"name": "kubevirt", "namespace": "kubevirt"},
    });
    kubevirt["spec"] = spec;
    serde_json::from_value(kubevirt).unwrap()
}

fn target(version: &str) -> Target {
    Target {
        version: version.to_owned(),
        registry: "registry.example/kubevirt".to_owned(),
        ..Target::default()
    }
}

fn strategy() -> Strategy {
    Strategy::parse(include_str!("../desired/tests/strategy.yaml")).unwrap()
}

fn findings(spec: Value, strategy: &Strategy, cluster: &Cluster<'_>) -> Vec<Finding> {
    let kubevirt = kubevirt(spec);
    let target = target("v1.9.0");
    let facts = Facts {
        namespace: "kubevirt",
        served: &Served::default(),
        schedulable_nodes: 2,
        bundles: BTreeMap::new(),
        handlers: Handlers::None,
    };
    let desired = desired(&kubevirt, &target, strategy, &facts).unwrap();
    preflight(&kubevirt, &target, strategy, &desired, cluster)
}

fn texts(findings: &[Finding]) -> Vec<String> {
    findings.iter().map(ToString::to_string).collect()
}

fn node(name: &str, control_plane: bool) -> Node {
    let mut labels = BTreeMap::from([("kubernetes.io/os".to_owned(), "linux".to_owned())]);
    if control_plane {
        labels.insert(
            "node-role.kubernetes.io/control-plane".to_owned(),
            String::new(),
        );
    }
    Node {
        name: name.to_owned(),
        labels,
        ..Node::default()
    }
}

fn everything() -> Permissions {
    let all = Rule {
        api_groups: vec!["*".to_owned()],
        resources: vec!["*".to_owned()],
        verbs: vec!["*".to_owned()],
        ..Rule::default()
    };
    Permissions {
        cluster: vec![all.clone()],
        namespace: vec![all],
    }
}

#[test]
fn a_healthy_cluster_has_no_findings() {
    let nodes = [node("a", true), node("b", false)];
    let labels = BTreeMap::from([(
        "pod-security.kubernetes.io/enforce".to_owned(),
        "privileged".to_owned(),
    )]);
    let stored = BTreeMap::from([(
        "virtualmachineclusterinstancetypes.instancetype.kubevirt.io".to_owned(),
        vec!["v1beta1".to_owned()],
    )]);
    let permissions = everything();
    let cluster = Cluster {
        kubernetes: Some("v1.35.2+k3s1"),
        permissions: Some(&permissions),
        namespace_labels: Some(&labels),
        nodes: Some(&nodes),
        stored_versions: Some(&stored),
    };
    assert_eq!(texts(&findings(json!({}), &strategy(), &cluster)), [""; 0]);
}

#[rstest]
#[case("v1.34.0", None)]
#[case("v1.36.4", None)]
#[case(
    "v1.37.0-alpha.1",
    Some(
        "Kubernetes v1.37.0-alpha.1: KubeVirt v1.9.0 is tested with 1.34 to 1.36. Use one of these, or a KubeVirt for 1.37: from v1.10 to v1.12"
    )
)]
#[case(
    "v1.33.1",
    Some(
        "Kubernetes v1.33.1: KubeVirt v1.9.0 is tested with 1.34 to 1.36. Use one of these, or a KubeVirt for 1.33: from v1.6 to v1.8"
    )
)]
#[case(
    "v1.21.0",
    Some("Kubernetes v1.21.0: it does not have server-side apply. Update it to 1.22 or later")
)]
#[case(
    "unknown",
    Some(
        "Kubernetes unknown: its version cannot be read. Check whether the target version of KubeVirt supports it"
    )
)]
fn reports_an_unsupported_version_of_kubernetes(
    #[case] version: &str,
    #[case] finding: Option<&str>,
) {
    let cluster = Cluster {
        kubernetes: Some(version),
        ..Cluster::default()
    };
    let found = findings(json!({}), &strategy(), &cluster);
    assert_eq!(texts(&found).first().map(String::as_str), finding);
}

#[rstest]
#[case("baseline", true)]
#[case("restricted", true)]
#[case("privileged", false)]
fn reports_a_namespace_that_forbids_privileged_pods(
    #[case] level: &str,
    #[case] is_reported: bool,
) {
    let label = (
        "pod-security.kubernetes.io/enforce".to_owned(),
        level.to_owned(),
    );
    let labels = BTreeMap::from([label]);
    let cluster = Cluster {
        namespace_labels: Some(&labels),
        ..Cluster::default()
    };
    let found = findings(json!({}), &strategy(), &cluster);
    assert_eq!(!found.is_empty(), is_reported);
    if let [finding] = &found[..] {
        assert_eq!(finding.subject, "Namespace kubevirt");
        assert!(
            finding.message.contains("DaemonSet kubevirt/virt-handler"),
            "{finding}"
        );
        assert_eq!(
            finding.remedy,
            "kubectl label --overwrite namespace kubevirt pod-security.kubernetes.io/enforce=privileged"
        );
    }
}

/// KubeVirt issue 12390: pods stay pending if no node has the label of the control plane.
#[test]
fn reports_a_placement_that_no_node_matches() {
    let nodes = [node("a", false), node("b", false)];
    let cluster = Cluster {
        nodes: Some(&nodes),
        ..Cluster::default()
    };
    let found = findings(json!({}), &strategy(), &cluster);
    assert_eq!(
        texts(&found),
        [
            "Deployment kubevirt/virt-api, Deployment kubevirt/virt-controller, Deployment \
          kubevirt/virt-template-apiserver: no node can run its pods: a matches no term of the \
          required node affinity, as do 1 more. Without spec.infra.nodePlacement these run only on the \
          control plane: set it, for example to {} for any node"
        ],
    );
    let anywhere = json!({"infra": {"nodePlacement": {}}});
    assert_eq!(texts(&findings(anywhere, &strategy(), &cluster)), [""; 0]);
    let nowhere = json!({
        "infra": {"nodePlacement": {"nodeSelector": {"role": "infra"}}},
        "workloads": {"nodePlacement": {"nodeSelector": {"role": "vms"}}},
    });
    let found = findings(nowhere, &strategy(), &cluster);
    assert_eq!(found.len(), 2);
    assert!(
        found[0]
            .message
            .ends_with("a does not have the label role=infra, as do 1 more"),
        "{}",
        found[0]
    );
    assert!(
        found[1].remedy.contains("spec.workloads.nodePlacement"),
        "{}",
        found[1]
    );
}

#[test]
fn the_handler_runs_on_cordoned_nodes_and_nothing_runs_without_nodes() {
    let cordoned = Node {
        unschedulable: true,
        ..node("a", true)
    };
    let nodes = [cordoned];
    let mut cluster = Cluster {
        nodes: Some(&nodes),
        ..Cluster::default()
    };
    let found = findings(json!({}), &strategy(), &cluster);
    assert_eq!(found.len(), 1);
    assert!(found[0].message.ends_with("a is cordoned"), "{}", found[0]);
    cluster.nodes = Some(&[]);
    let found = findings(json!({}), &strategy(), &cluster);
    assert_eq!(found.len(), 2);
    assert!(
        found[1].message.ends_with("there are no nodes"),
        "{}",
        found[1]
    );
}

#[test]
fn reports_stored_versions_that_the_release_does_not_have() {
    let name = "virtualmachineclusterinstancetypes.instancetype.kubevirt.io";
    let stored = ["v1alpha1", "v1beta1"].map(str::to_owned).to_vec();
    let stored = BTreeMap::from([
        (name.to_owned(), stored),
        ("others.example.org".to_owned(), vec!["v1".to_owned()]),
    ]);
    let cluster = Cluster {
        stored_versions: Some(&stored),
        ..Cluster::default()
    };
    let found = findings(json!({}), &strategy(), &cluster);
    let [finding] = &found[..] else {
        panic!("{found:?}");
    };
    assert_eq!(finding.subject, format!("CustomResourceDefinition {name}"));
    assert!(
        finding
            .message
            .starts_with("status.storedVersions has v1alpha1"),
        "{finding}"
    );
}

#[rstest]
#[case("registry.example/kubevirt/virt-api:v1.9.0", "other.example/virt-api:v1.9.0", &["image other.example/virt-api:v1.9.0 is not from registry.example/kubevirt"])]
#[case("virt-api:v1.9.0", "virt-api:v1.8.4", &["image registry.example/kubevirt/virt-api:v1.8.4 is not of v1.9.0"])]
#[case(
    "virt-api:v1.9.0", "virt-api@sha256:0123",
    &[
        "image registry.example/kubevirt/virt-controller:v1.9.0 is named by tag, and 1 others by digest",
        "image registry.example/kubevirt/virt-handler:v1.9.0 is named by tag, and 1 others by digest",
        "image registry.example/kubevirt/virt-launcher:v1.9.0 is named by tag, and 1 others by digest",
        "image registry.example/kubevirt/virt-template-apiserver:v1.9.0 is named by tag, and 1 others by digest",
    ]
)]
fn reports_images_of_different_releases(
    #[case] from: &str,
    #[case] to: &str,
    #[case] messages: &[&str],
) {
    let text = include_str!("../desired/tests/strategy.yaml").replace(from, to);
    let strategy = Strategy::parse(&text).unwrap();
    let found = findings(json!({}), &strategy, &Cluster::default());
    let found: Vec<_> = found
        .iter()
        .map(|finding| finding.message.as_str())
        .collect();
    assert_eq!(found, messages);
}

fn rule(value: Value) -> Rule {
    serde_json::from_value(value).unwrap()
}

#[test]
fn reports_each_missing_permission_as_a_rule() {
    let mut permissions = everything();
    permissions.cluster = vec![rule(json!({
        "apiGroups": ["*"],
        "resources": ["*"],
        "verbs": ["get", "list", "watch", "create", "patch", "update", "delete"],
    }))];
    permissions.namespace = vec![rule(json!({
        "apiGroups": ["*"], "resources": ["*"],
        "verbs": ["get", "list", "watch", "create", "update", "delete"],
    }))];
    let cluster = Cluster {
        permissions: Some(&permissions),
        ..Cluster::default()
    };
    let found = findings(json!({}), &strategy(), &cluster);
    assert!(
        found
            .iter()
            .all(|finding| finding.severity == Severity::Error)
    );
    let texts = texts(&found);
    assert!(texts.contains(
        &"the operator: it may not patch deployments.apps. Add the rule {apiGroups: [\"apps\"], \
          resources: [\"deployments\"], verbs: [patch]} to the operator's role"
            .to_owned()
    ), "{texts:#?}");
    assert_eq!(
        texts.last().unwrap(),
        "ClusterRole kubevirt.io:admin: the operator may not grant permissions that it does not have: * \
         virtualmachines.kubevirt.io. Add the rule {apiGroups: [\"kubevirt.io\"], resources: \
         [\"virtualmachines\"], verbs: [*]} to the operator's role",
    );
}

#[rstest]
#[case(&["escalate", "bind"], 0)]
#[case(&["escalate"], 1)]
#[case(&[], 1)]
fn an_operator_that_may_escalate_and_bind_may_grant_anything(
    #[case] verbs: &[&str],
    #[case] count: usize,
) {
    let text = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: a}\n\
                rules: [{apiGroups: [example.org], resources: [things], verbs: [use]}]\n---\n\
                apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\n\
                metadata: {name: b}\nroleRef: {kind: ClusterRole, name: a}\n";
    let strategy = Strategy::parse(text).unwrap();
    let mut permissions = everything();
    permissions.cluster = vec![
        rule(
            json!({"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch", "create", "patch", "delete"]}),
        ),
        rule(
            json!({"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"], "verbs": verbs}),
        ),
    ];
    let cluster = Cluster {
        permissions: Some(&permissions),
        ..Cluster::default()
    };
    let found = findings(json!({}), &strategy, &cluster);
    assert_eq!(found.len(), count, "{found:?}");
}

#[rstest]
#[case(json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}), true)]
#[case(json!({"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]}), true)]
#[case(json!({"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["get"]}), false)]
#[case(json!({"apiGroups": [""], "resources": ["nodes/log"], "verbs": ["get"]}), true)]
#[case(json!({"apiGroups": ["apps"], "resources": ["pods"], "verbs": ["get"]}), false)]
#[case(json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["*"]}), false)]
#[case(json!({"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["a"], "verbs": ["get"]}), true)]
#[case(json!({"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["b"], "verbs": ["get"]}), false)]
#[case(json!({"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}), false)]
#[case(json!({"apiGroups": [""], "resources": ["pods"], "resourceNames": ["a"], "verbs": ["get"]}), true)]
#[case(json!({"nonResourceURLs": ["/metrics"], "verbs": ["get"]}), true)]
#[case(json!({"nonResourceURLs": ["/healthz/ready"], "verbs": ["get"]}), true)]
#[case(json!({"nonResourceURLs": ["/logs"], "verbs": ["get"]}), false)]
fn rules_cover_permissions_as_in_the_api_server(#[case] wanted: Value, #[case] is_covered: bool) {
    let permissions = [
        json!({"apiGroups": [""], "resources": ["pods", "*/log"], "verbs": ["get", "list"]}),
        json!({"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["a"], "verbs": ["*"]}),
        json!({"nonResourceURLs": ["/metrics", "/healthz*"], "verbs": ["get"]}),
    ]
    .map(rule);
    let wanted = rule(wanted);
    let grants = wanted.grants();
    assert_eq!(grants.len(), 1);
    assert_eq!(covered(&permissions, grants[0]), is_covered);
}
