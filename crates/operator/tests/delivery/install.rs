//! Installation, upgrade and removal with Helm and kubectl, in the sandbox.

use serde_json::json;

use crate::{
    chart::everything,
    helm::{Helm, NAMESPACE},
    kubectl::{Kubectl, both, is_too_old_for},
    operator_process::{OperatorProcess, kubeconfig_of},
    process::{Sandbox, run},
};

const DEFINITIONS: &str = "crd/machineclasses.vitistack.io crd/machines.vitistack.io \
                           crd/networkconfigurations.vitistack.io";

/// Kinds that an installation can leave behind.
const KINDS: &str = "deployments,services,serviceaccounts,secrets,configmaps,roles,rolebindings,\
                     poddisruptionbudgets,networkpolicies,persistentvolumeclaims,leases";
pub const CLUSTER_KINDS: &str = "crds,clusterroles,clusterrolebindings,priorityclasses,namespaces,\
                             validatingwebhookconfigurations";

/// Starts a sandbox without operator and definitions.
pub fn start_bare() -> (Sandbox, Kubectl) {
    let sandbox = Sandbox::start(&["--no-operator", "--speed", "instant"]);
    let kubectl = Kubectl::of(&sandbox, NAMESPACE);
    kubectl.ok(&format!("delete {DEFINITIONS}"));
    (sandbox, kubectl)
}

/// Names of the objects of these kinds, without those that every cluster has.
pub fn names(kubectl: &Kubectl, kinds: &str) -> Vec<String> {
    let list = kubectl.ok(&format!("get {kinds} -o name"));
    list.lines().map(str::to_owned).collect()
}

const ACCOUNT: &str = "kubevirt-operator-controller-manager";

/// Runs the operator with the installed ServiceAccount, and waits until it has started a Machine.
pub fn assert_a_machine_runs(sandbox: &Sandbox, system: &Kubectl, account: &str) {
    let kubeconfig = kubeconfig_of(system, account);
    let operator = OperatorProcess::start(&["--kubeconfig", &kubeconfig]);
    let kubectl = Kubectl::of(sandbox, "default");
    kubectl.ok("apply -f config/samples/machine.yaml");
    kubectl.ok("wait --for=condition=Ready machine/sample --timeout=60s");
    let log = operator.end();
    assert!(!log.contains("forbidden"), "{log}");
}

#[test]
#[ignore = "needs helm on PATH: .ci/run has it"]
fn the_chart_is_installed_upgraded_rolled_back_and_removed() {
    let (sandbox, kubectl) = start_bare();
    let helm = Helm::of(&kubectl);
    let before = names(&kubectl, CLUSTER_KINDS);
    let printed = helm.ok(&format!(
        "install kubevirt-operator CHART -n {NAMESPACE} --create-namespace --wait --timeout 90s"
    ));
    assert!(printed.contains("STATUS: deployed"), "{printed}");
    assert!(
        printed.contains("leaves the CustomResourceDefinitions"),
        "{printed}"
    );
    let deployment = "deployment/kubevirt-operator-controller-manager";
    assert_eq!(kubectl.value(deployment, ".status.readyReplicas"), "1");
    assert_a_machine_runs(&sandbox, &kubectl, ACCOUNT);

    let release = kubectl.ok("get secret sh.helm.release.v1.kubevirt-operator.v1 -o json");
    assert!(
        release.len() < 500_000,
        "{} of 1048576 bytes",
        release.len()
    );

    let upgrade = format!("upgrade kubevirt-operator CHART -n {NAMESPACE} --wait --timeout 90s");
    // The CA bundle that the operator writes survives upgrades.
    let bundle = r#"[{"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": "YQ=="}]"#;
    let configuration = "validatingwebhookconfiguration/kubevirt-operator";
    kubectl.ok(&format!("patch {configuration} --type json -p '{bundle}'"));
    helm.ok(&format!(
        "{upgrade} --set replicaCount=2 --set webhook.timeoutSeconds=5"
    ));
    assert_eq!(kubectl.value(deployment, ".status.readyReplicas"), "2");
    assert_eq!(
        kubectl.value(configuration, ".webhooks[0].timeoutSeconds"),
        "5"
    );
    assert_eq!(
        kubectl.value(configuration, ".webhooks[0].clientConfig.caBundle"),
        "YQ=="
    );
    helm.ok(&format!(
        "rollback kubevirt-operator 1 -n {NAMESPACE} --wait --timeout 90s"
    ));
    assert_eq!(kubectl.value(deployment, ".spec.replicas"), "1");

    helm.ok(&format!(
        "uninstall kubevirt-operator -n {NAMESPACE} --wait --timeout 90s"
    ));
    let mut left = before.clone();
    left.push(format!("namespace/{NAMESPACE}"));
    for name in DEFINITIONS.split_whitespace() {
        let name = name.trim_start_matches("crd/");
        left.push(format!(
            "customresourcedefinition.apiextensions.k8s.io/{name}"
        ));
    }
    left.sort();
    let mut found = names(&kubectl, CLUSTER_KINDS);
    found.sort();
    assert_eq!(found, left);
    assert_eq!(
        names(&kubectl, KINDS),
        [
            "serviceaccount/default",
            "secret/kubevirt-operator-cloud-init-key",
            "configmap/kube-root-ca.crt",
            "lease.coordination.k8s.io/kubevirt-operator",
        ]
    );
    let default = Kubectl::of(&sandbox, "default");
    assert_eq!(default.value("machine/sample", ".status.phase"), "Running");
    assert!(default.ok("get pvc -o name").contains("sample-root"));

    // The next release of that name adopts the definitions that were kept.
    helm.ok(&format!(
        "install kubevirt-operator CHART -n {NAMESPACE} --wait --timeout 90s"
    ));
}

#[test]
#[ignore = "needs helm on PATH: .ci/run has it"]
fn uninstalling_the_kubevirt_operator_keeps_kubevirt() {
    let (sandbox, kubectl) = start_bare();
    let helm = Helm::of(&kubectl);
    let words = format!("-n {NAMESPACE} --wait --timeout 90s");
    helm.ok(&format!(
        "install vms CHART {words} --create-namespace --set virtOperator.enabled=true"
    ));
    let virt = Kubectl::of(&sandbox, "kubevirt");
    assert_eq!(
        virt.value("deployment/virt-operator", ".status.readyReplicas"),
        "2"
    );
    helm.ok(&format!(
        "upgrade vms CHART {words} --set virtOperator.enabled=false"
    ));
    assert_eq!(virt.ok("get deployments -o name"), "");
    helm.ok(&format!("uninstall vms {words}"));
    virt.ok("get namespace/kubevirt priorityclass/kubevirt-cluster-critical");
}

/// The data loss that NOTES and values.yaml warn about, and the remedy.
#[test]
#[ignore = "needs helm on PATH: .ci/run has it"]
fn without_the_operator_a_machine_blocks_the_deletion_of_definitions() {
    let (sandbox, kubectl) = start_bare();
    let helm = Helm::of(&kubectl);
    let install = format!(
        "install vms CHART -n {NAMESPACE} --create-namespace --wait --timeout 90s \
         --set crds.keep=false"
    );
    let printed = helm.ok(&install);
    assert!(
        printed.contains("crds.keep is false. Delete all Machines before"),
        "{printed}"
    );
    assert_a_machine_runs(&sandbox, &kubectl, ACCOUNT);
    helm.fails(&format!("uninstall vms -n {NAMESPACE} --wait --timeout 2s"));
    let default = Kubectl::of(&sandbox, "default");
    let crd = "crd/machines.vitistack.io";
    default.ok(&format!(
        "wait {crd} --for=condition=Terminating --timeout=60s"
    ));
    default.ok("get machine/sample virtualmachine/sample persistentvolumeclaim/sample-root");

    helm.ok(&install);
    let operator = OperatorProcess::start(&["--kubeconfig", &kubeconfig_of(&kubectl, ACCOUNT)]);
    default.until_deleted(&format!(
        "{crd} virtualmachine/sample persistentvolumeclaim/sample-root"
    ));
    operator.end();
    helm.ok(&format!(
        "upgrade vms CHART -n {NAMESPACE} --set crds.keep=false"
    ));
    default.ok("get machines");
}

#[test]
#[ignore = "needs helm on PATH: .ci/run has it"]
fn foreign_definitions_are_adopted_only_when_asked() {
    let sandbox = Sandbox::start(&["--no-operator", "--speed", "instant"]);
    let kubectl = Kubectl::of(&sandbox, NAMESPACE);
    let helm = Helm::of(&kubectl);
    let install = format!("install vms CHART -n {NAMESPACE} --create-namespace");
    let refused = helm.fails(&install);
    assert!(refused.contains("invalid ownership metadata"), "{refused}");
    helm.ok(&format!("{install} --take-ownership"));
}

#[test]
#[ignore = "needs helm on PATH: .ci/run has it"]
fn a_missing_namespace_is_refused_before_the_first_write() {
    let (_sandbox, kubectl) = start_bare();
    let helm = Helm::of(&kubectl);
    let install = |namespaces: &[&str]| {
        let namespaces = json!({
            "watchNamespaces": namespaces, "virtOperator": { "enabled": true },
        });
        let values = helm.file(&namespaces);
        format!("install vms CHART -n {NAMESPACE} --create-namespace --values {values}")
    };
    let refused = helm.fails(&install(&["default", "nope"]));
    let expected =
        "watchNamespaces: the namespace nope, in which the chart binds rights, does not exist";
    assert!(refused.contains(expected), "{refused}");
    assert_eq!(helm.ok("list --all-namespaces --all --short"), "");
    // Definitions that the release contains need not exist before.
    helm.ok(&install(&["default", NAMESPACE, "kubevirt"]));
}

/// Kinds of the Prometheus Operator and of cert-manager.
const OPTIONAL_KINDS: [&str; 5] = [
    "PodMonitor",
    "ServiceMonitor",
    "PrometheusRule",
    "Certificate",
    "Issuer",
];

#[test]
#[ignore = "needs helm on PATH: .ci/run has it"]
fn the_api_server_accepts_everything_the_chart_renders() {
    let (sandbox, _) = start_bare();
    let kubectl = Kubectl::of(&sandbox, "");
    for namespace in [NAMESPACE, "kubevirt", "team-a", "team-b"] {
        kubectl.ok(&format!("create namespace {namespace}"));
    }
    let mut documents = String::new();
    let mut count = 0;
    for object in Helm::of(&kubectl).template(&everything()).0.values() {
        if !OPTIONAL_KINDS.iter().any(|kind| object["kind"] == *kind) {
            documents += &format!("---\n{object}\n");
            count += 1;
        }
    }
    let dry = "apply --server-side --dry-run=server --force-conflicts -f -";
    let printed = kubectl.ok_with_input(&documents, dry);
    assert_eq!(printed.lines().count(), count, "{printed}");
}

#[test]
fn kustomize_installs_a_working_operator_and_is_idempotent() {
    if is_too_old_for("Kustomizations with folders among their resources") {
        return;
    }
    let (sandbox, kubectl) = start_bare();
    kubectl.ok("apply -k config/default");
    assert_unchanged(&kubectl.ok("apply -k config/default"));
    kubectl.ok("rollout status deployment/kubevirt-operator-controller-manager --timeout=60s");
    assert_a_machine_runs(&sandbox, &kubectl, ACCOUNT);
}

/// Runs the commands of the reference.
#[test]
fn the_kustomize_folders_can_be_installed_one_by_one() {
    let (sandbox, kubectl) = start_bare();
    let folders = ["config/crd/", "config/rbac/", "config/manager/"];
    for folder in folders {
        kubectl.ok(&format!("apply -f {folder}"));
    }
    for folder in folders {
        assert_unchanged(&kubectl.ok(&format!("apply -f {folder}")));
    }
    kubectl.ok("rollout status deployment/kubevirt-operator-controller-manager --timeout=60s");
    assert_a_machine_runs(&sandbox, &kubectl, ACCOUNT);
}

fn assert_unchanged(printed: &str) {
    for line in printed.lines() {
        assert!(line.ends_with(" unchanged"), "{printed}");
    }
}

#[test]
fn the_binary_alone_installs_both_operators() {
    let (sandbox, _) = start_bare();
    let kubectl = Kubectl::of(&sandbox, "");
    let output = run(&["manifests", "--virt-operator", "--network-policy"]);
    assert!(output.status.success(), "{}", both(&output));
    let manifests = String::from_utf8(output.stdout).unwrap();
    kubectl.ok_with_input(&manifests, "apply --server-side -f -");
    for (namespace, deployment) in [
        (NAMESPACE, "kubevirt-operator-controller-manager"),
        ("kubevirt", "virt-operator"),
    ] {
        kubectl.ok(&format!(
            "rollout status deployment/{deployment} --namespace={namespace} --timeout=60s"
        ));
    }
}
