//! Installed, upgraded and removed for real, in the sandbox.

use serde_json::json;

use crate::{
    chart::everything,
    helm::{Helm, NAMESPACE},
    kubectl::{Kubectl, both, is_too_old_for},
    process::{Sandbox, run},
    running::{Running, kubeconfig_of},
};

const DEFINITIONS: &str = "crd/machineclasses.vitistack.io crd/machines.vitistack.io \
                           crd/networkconfigurations.vitistack.io";

/// What an installation can leave behind.
const KINDS: &str = "deployments,services,serviceaccounts,secrets,configmaps,roles,rolebindings,\
                     poddisruptionbudgets,networkpolicies,persistentvolumeclaims,leases";
pub const CLUSTER_KINDS: &str = "crds,clusterroles,clusterrolebindings,priorityclasses,namespaces,\
                             validatingwebhookconfigurations";

/// A cluster without operator and definitions.
pub fn bare() -> (Sandbox, Kubectl) {
    let sandbox = Sandbox::start(&["--no-operator", "--speed", "instant"]);
    let kubectl = Kubectl::of(&sandbox, NAMESPACE);
    kubectl.ok(&format!("delete {DEFINITIONS}"));
    (sandbox, kubectl)
}

/// The objects of these kinds, by name, without those that every cluster has.
pub fn names(kubectl: &Kubectl, kinds: &str) -> Vec<String> {
    let list = kubectl.ok(&format!("get {kinds} -o name"));
    list.lines().map(str::to_owned).collect()
}

const ACCOUNT: &str = "kubevirt-operator-controller-manager";

/// Runs the operator as the account that was installed, and has it make a machine.
pub fn a_machine_runs(sandbox: &Sandbox, system: &Kubectl, account: &str) {
    let kubeconfig = kubeconfig_of(system, account);
    let operator = Running::start(&["--kubeconfig", &kubeconfig]);
    let kubectl = Kubectl::of(sandbox, "default");
    kubectl.ok("apply -f config/samples/machine.yaml");
    kubectl.ok("wait --for=condition=Ready machine/sample --timeout=60s");
    let log = operator.end();
    assert!(!log.contains("forbidden"), "{log}");
}

#[test]
#[ignore = "needs helm on PATH: .ci/run has it"]
fn the_chart_is_installed_upgraded_rolled_back_and_removed() {
    let (sandbox, kubectl) = bare();
    let helm = Helm::of(&kubectl);
    let before = names(&kubectl, CLUSTER_KINDS);
    let told = helm.ok(&format!(
        "install kubevirt-operator CHART -n {NAMESPACE} --create-namespace --wait --timeout 90s"
    ));
    assert!(told.contains("STATUS: deployed"), "{told}");
    assert!(
        told.contains("leaves the CustomResourceDefinitions"),
        "{told}"
    );
    let deployment = "deployment/kubevirt-operator-controller-manager";
    assert_eq!(kubectl.value(deployment, ".status.readyReplicas"), "1");
    a_machine_runs(&sandbox, &kubectl, ACCOUNT);

    let release = kubectl.ok("get secret sh.helm.release.v1.kubevirt-operator.v1 -o json");
    assert!(
        release.len() < 500_000,
        "{} of 1048576 bytes",
        release.len()
    );

    let upgrade = format!("upgrade kubevirt-operator CHART -n {NAMESPACE} --wait --timeout 90s");
    // What the operator keeps there outlives upgrades.
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

    // The definitions that stayed are taken over by the next release of that name.
    helm.ok(&format!(
        "install kubevirt-operator CHART -n {NAMESPACE} --wait --timeout 90s"
    ));
}

#[test]
#[ignore = "needs helm on PATH: .ci/run has it"]
fn the_kubevirt_operator_leaves_kubevirt_alone_when_the_release_goes() {
    let (sandbox, kubectl) = bare();
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

/// What NOTES and values.yaml warn of, and the way back.
#[test]
#[ignore = "needs helm on PATH: .ci/run has it"]
fn without_its_operator_a_machine_holds_definitions_that_are_not_kept() {
    let (sandbox, kubectl) = bare();
    let helm = Helm::of(&kubectl);
    let install = format!(
        "install vms CHART -n {NAMESPACE} --create-namespace --wait --timeout 90s \
         --set crds.keep=false"
    );
    let told = helm.ok(&install);
    assert!(
        told.contains("crds.keep is false. Delete all Machines before"),
        "{told}"
    );
    a_machine_runs(&sandbox, &kubectl, ACCOUNT);
    helm.fails(&format!("uninstall vms -n {NAMESPACE} --wait --timeout 2s"));
    let default = Kubectl::of(&sandbox, "default");
    let crd = "crd/machines.vitistack.io";
    default.ok(&format!(
        "wait {crd} --for=condition=Terminating --timeout=60s"
    ));
    default.ok("get machine/sample virtualmachine/sample persistentvolumeclaim/sample-root");

    helm.ok(&install);
    let operator = Running::start(&["--kubeconfig", &kubeconfig_of(&kubectl, ACCOUNT)]);
    default.gone(&format!(
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
fn definitions_of_others_are_taken_over_only_when_asked() {
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
fn a_namespace_that_is_not_there_is_refused_before_anything_is_written() {
    let (_sandbox, kubectl) = bare();
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
    // Those that come with the release need not be there.
    helm.ok(&install(&["default", NAMESPACE, "kubevirt"]));
}

/// Kinds that only clusters with the Prometheus operator or cert-manager have.
const OF_OTHERS: [&str; 5] = [
    "PodMonitor",
    "ServiceMonitor",
    "PrometheusRule",
    "Certificate",
    "Issuer",
];

#[test]
#[ignore = "needs helm on PATH: .ci/run has it"]
fn a_server_takes_all_that_the_chart_can_render() {
    let (sandbox, _) = bare();
    let kubectl = Kubectl::of(&sandbox, "");
    for namespace in [NAMESPACE, "kubevirt", "team-a", "team-b"] {
        kubectl.ok(&format!("create namespace {namespace}"));
    }
    let mut documents = String::new();
    let mut count = 0;
    for object in Helm::of(&kubectl).template(&everything()).0.values() {
        if !OF_OTHERS.iter().any(|kind| object["kind"] == *kind) {
            documents += &format!("---\n{object}\n");
            count += 1;
        }
    }
    let dry = "apply --server-side --dry-run=server --force-conflicts -f -";
    let said = kubectl.given(&documents, dry);
    assert_eq!(said.lines().count(), count, "{said}");
}

#[test]
fn kustomize_installs_what_a_machine_needs_and_changes_nothing_the_second_time() {
    if is_too_old_for("Kustomizations with folders among their resources") {
        return;
    }
    let (sandbox, kubectl) = bare();
    kubectl.ok("apply -k config/default");
    unchanged(&kubectl.ok("apply -k config/default"));
    kubectl.ok("rollout status deployment/kubevirt-operator-controller-manager --timeout=60s");
    a_machine_runs(&sandbox, &kubectl, ACCOUNT);
}

/// The commands of the reference.
#[test]
fn the_folders_are_installed_one_after_the_other() {
    let (sandbox, kubectl) = bare();
    let folders = ["config/crd/", "config/rbac/", "config/manager/"];
    for folder in folders {
        kubectl.ok(&format!("apply -f {folder}"));
    }
    for folder in folders {
        unchanged(&kubectl.ok(&format!("apply -f {folder}")));
    }
    kubectl.ok("rollout status deployment/kubevirt-operator-controller-manager --timeout=60s");
    a_machine_runs(&sandbox, &kubectl, ACCOUNT);
}

fn unchanged(said: &str) {
    for line in said.lines() {
        assert!(line.ends_with(" unchanged"), "{said}");
    }
}

#[test]
fn the_binary_alone_installs_both_operators() {
    let (sandbox, _) = bare();
    let kubectl = Kubectl::of(&sandbox, "");
    let output = run(&["manifests", "--virt-operator", "--network-policy"]);
    assert!(output.status.success(), "{}", both(&output));
    let manifests = String::from_utf8(output.stdout).unwrap();
    kubectl.given(&manifests, "apply --server-side -f -");
    for (namespace, deployment) in [
        (NAMESPACE, "kubevirt-operator-controller-manager"),
        ("kubevirt", "virt-operator"),
    ] {
        kubectl.ok(&format!(
            "rollout status deployment/{deployment} --namespace={namespace} --timeout=60s"
        ));
    }
}
