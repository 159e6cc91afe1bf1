//! docs/install.md: its commands work, and its values exist in the chart.

use serde_json::Value;

use crate::{
    helm::{Helm, NAMESPACE},
    install::{CLUSTER_KINDS, names, start_bare},
    kubectl::{Kubectl, is_too_old_for},
    process::Sandbox,
    text,
};

/// Where another chart owns the definitions.
const WITHOUT_DEFINITIONS: &str = "crds.install=false";

const CHART: &str = "oci://ghcr.io/vitistack/helm/kubevirt-operator";

/// Code blocks of a section in a language.
pub fn blocks(section: &str, language: &str) -> Vec<String> {
    let document = text("docs/install.md");
    let (_, section) = document
        .split_once(&format!("\n## {section}\n"))
        .unwrap_or_else(|| panic!("no section {section}"));
    let section = section.split("\n## ").next().unwrap();
    let begin = format!("```{language}\n");
    let blocks = section.split(&begin).skip(1);
    blocks
        .map(|block| block.split("```").next().unwrap().to_owned())
        .collect()
}

/// Commands of a section, one per line.
fn commands(section: &str) -> Vec<String> {
    let blocks = blocks(section, "sh").concat().replace("\\\n", " ");
    let lines = blocks.lines().map(str::to_owned).collect::<Vec<_>>();
    assert!(!lines.is_empty(), "{section}");
    lines
}

#[test]
fn the_documented_kubectl_and_kustomize_commands_work() {
    if is_too_old_for("Kustomizations with folders among their resources") {
        return;
    }
    // Pods run no containers in the sandbox: its built-in operator reconciles the Machine.
    let sandbox = Sandbox::start(&["--speed", "instant"]);
    let kubectl = Kubectl::of(&sandbox, "");
    let mut count = 0;
    for section in [
        "Beside KubeVirt's own manifests",
        "kustomize",
        "Plain kubectl",
        "See that it works",
    ] {
        for command in commands(section) {
            kubectl.ok(command.strip_prefix("kubectl ").unwrap());
            count += 1;
        }
    }
    assert_eq!(count, 15);
}

#[test]
#[ignore = "needs helm on PATH: .ci/run has it"]
fn the_documented_helm_commands_work_and_uninstall_leaves_nothing() {
    let (sandbox, _) = start_bare();
    let kubectl = Kubectl::of(&sandbox, "");
    let helm = Helm::of(&kubectl);
    let before = names(&kubectl, CLUSTER_KINDS);
    let removal = blocks("Uninstall", "sh").pop().unwrap();
    let documented = commands("Helm")
        .into_iter()
        .filter(|command| !command.contains(WITHOUT_DEFINITIONS))
        .chain(commands("Upgrade"))
        .chain(removal.lines().map(str::to_owned));
    let mut count = 0;
    for command in documented {
        if let Some(words) = command.strip_prefix("helm ") {
            let more = if words.starts_with("install ") {
                " --set virtOperator.enabled=true"
            } else {
                ""
            };
            helm.ok(&format!("{}{more}", words.replace(CHART, "CHART")));
        } else if let Some(words) = command.strip_prefix("kubectl ") {
            // The sandbox has KubeVirt without a KubeVirt resource.
            if !words.ends_with("delete kubevirt kubevirt") {
                kubectl.ok(words);
            }
        } else {
            assert_eq!(
                command,
                "kubevirt-operator crds | kubectl apply --server-side -f -"
            );
            continue;
        }
        count += 1;
    }
    assert_eq!(count, 10);
    kubectl.until_deleted(&format!("namespace/{NAMESPACE} namespace/kubevirt"));
    assert_eq!(names(&kubectl, CLUSTER_KINDS), before);
}

#[test]
#[ignore = "needs helm on PATH: .ci/run has it"]
fn the_documented_installation_beside_another_owner_of_the_definitions_works() {
    let (sandbox, _) = start_bare();
    let kubectl = Kubectl::of(&sandbox, "");
    let mut commands = commands("Helm");
    commands.retain(|command| command.contains(WITHOUT_DEFINITIONS));
    assert_eq!(commands.len(), 1, "{commands:?}");
    let before = names(&kubectl, "customresourcedefinitions");
    let words = commands[0].strip_prefix("helm ").unwrap();
    Helm::of(&kubectl).ok(&words.replace(CHART, "CHART"));
    assert_eq!(names(&kubectl, "customresourcedefinitions"), before);
}

#[test]
#[ignore = "needs helm on PATH: .ci/run has it"]
fn documented_values_are_values_of_the_chart() {
    let helm = Helm::alone();
    let blocks = [blocks("Helm", "yaml"), blocks("Air-gapped", "yaml")].concat();
    assert_eq!(blocks.len(), 2);
    for block in blocks {
        let values: Value = serde_saphyr::from_str(&block).unwrap();
        assert!(
            helm.template(&values)
                .find("Deployment", "virt-operator")
                .is_some()
        );
    }
}

#[test]
fn documented_commands_with_pipes_are_covered_by_other_tests() {
    let all = text("docs/install.md");
    for command in [
        "kubevirt-operator manifests | kubectl apply --server-side --field-manager=vitistack -f -",
        "kubevirt-operator crds | kubectl apply --server-side -f -",
    ] {
        assert!(all.contains(command), "{command}");
        assert!(text("README.md").contains(command), "{command}");
    }
}
