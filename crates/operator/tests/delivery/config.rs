//! config/: folders for kustomize and kubectl, which are embedded in the binary.

use std::{collections::BTreeSet, fs, path::Path, process::Command};

use serde_json::Value;

use crate::{
    kubectl::{both, is_too_old_for},
    objects::{Objects, pod},
    pods::assert_restricted,
    process, root, text,
};

/// Output of `kubectl kustomize` for a folder of config/.
pub fn kustomize(folder: &str) -> Objects {
    let program = std::env::var_os("KUBECTL").unwrap_or_else(|| "kubectl".into());
    let output = Command::new(program)
        .arg("kustomize")
        .arg(root().join("config").join(folder))
        .output()
        .unwrap();
    Objects::of_output(&output)
}

fn folders(folder: &Path, found: &mut Vec<std::path::PathBuf>) {
    found.push(folder.to_owned());
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        // Unit tests of promtool are not installed.
        if path.is_dir() && !path.ends_with("tests") {
            folders(&path, found);
        }
    }
}

#[test]
fn every_folder_has_a_kustomization_of_all_its_files() {
    let mut all = Vec::new();
    folders(&root().join("config"), &mut all);
    for folder in all.iter().skip(1) {
        let kustomization = fs::read_to_string(folder.join("Kustomization"))
            .unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let kustomization: Value = serde_saphyr::from_str(&kustomization).unwrap();
        let listed = kustomization["resources"].as_array().unwrap().iter();
        let listed: BTreeSet<String> = listed
            .map(|file| file.as_str().unwrap().to_owned())
            .filter(|file| !file.starts_with("../"))
            .collect();
        let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
        let files: BTreeSet<String> = files
            .filter(|entry| entry.path().is_file())
            .map(|entry| entry.file_name().into_string().unwrap())
            .filter(|name| name != "Kustomization")
            .collect();
        assert_eq!(listed, files, "{}", folder.display());
    }
}

#[test]
fn the_command_prints_what_kustomize_builds() {
    if is_too_old_for("Kustomizations with folders among their resources") {
        return;
    }
    kustomize("default").assert_same_as(&Objects::of_command(&[]), "config/default");
    let mut whole = kustomize("default");
    for folder in [
        "rbac/virt-operator",
        "manager/virt-operator",
        "prometheus",
        "prometheus/virt-operator",
        "network-policy",
    ] {
        whole.0.extend(kustomize(folder).0);
    }
    let args = ["--virt-operator", "--prometheus", "--network-policy"];
    whole.assert_same_as(&Objects::of_command(&args), "all of config");
}

#[test]
fn without_the_webhook_none_of_its_objects_is_rendered() {
    let objects = Objects::of_command(&["--without-webhook", "--network-policy"]);
    let manager = objects
        .find("Deployment", "kubevirt-operator-controller-manager")
        .unwrap();
    let container = &manager["spec"]["template"]["spec"]["containers"][0];
    let env = container["env"].as_array().unwrap();
    let address = env
        .iter()
        .find(|variable| variable["name"] == "WEBHOOK_BIND_ADDRESS");
    assert_eq!(address.unwrap()["value"], "0");
    for (key, object) in &objects.0 {
        assert!(!key.contains("ebhook"), "{key}");
        if !key.starts_with("CustomResourceDefinition") {
            let text = object.to_string();
            assert!(!text.contains("\"webhook\""), "{key}: {text}");
        }
    }
}

#[test]
fn the_command_accepts_another_namespace_and_image() {
    let image = "registry.example/kubevirt-operator@sha256:0123";
    let args = [
        "--namespace=vms",
        "--image",
        image,
        "--virt-operator",
        "--prometheus",
    ];
    let objects = Objects::of_command(&args);
    let mut namespaces = BTreeSet::new();
    for (key, object) in &objects.0 {
        let text = object.to_string();
        assert!(!text.contains("kubevirt-operator-system"), "{key}: {text}");
        if object["kind"] == "Namespace" {
            namespaces.insert(object["metadata"]["name"].as_str().unwrap());
        }
        if let Some(pod) = pod(object) {
            assert_eq!(pod["spec"]["containers"][0]["image"], image, "{key}");
        }
    }
    // The Machine operator's namespace must exist; the release neither labels nor deletes it.
    assert_eq!(namespaces, BTreeSet::from(["kubevirt"]));
}

#[test]
fn another_cluster_role_name_changes_nothing_else() {
    let before = Objects::of_command(&["--virt-operator"]);
    let mut after = Objects::of_command(&["--virt-operator", "--cluster-role=machine-operator"]);
    let renamed = after.0.remove("ClusterRole /machine-operator").unwrap();
    assert_eq!(
        renamed["rules"],
        before.0["ClusterRole /kubevirt-operator"]["rules"]
    );
    let binding = "ClusterRoleBinding /kubevirt-operator-manager-rolebinding";
    assert_eq!(after.0[binding]["roleRef"]["name"], "machine-operator");
    for (key, object) in &before.0 {
        if key != binding && key != "ClusterRole /kubevirt-operator" {
            assert_eq!(after.0.remove(key).as_ref(), Some(object), "{key}");
        }
    }
    assert_eq!(after.keys(), [binding]);
}

#[test]
fn the_command_refuses_an_invalid_namespace_or_image() {
    for args in [
        ["--namespace", "A b"],
        ["--namespace", "kubevirt"],
        ["--cluster-role", "A b"],
        ["--cluster-role", "virt-operator"],
        ["--image", ""],
        ["--image", "a b"],
        ["--image", "a\nb: c"],
    ] {
        let output = process::operator()
            .arg("manifests")
            .args(args)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(64), "{args:?}");
        assert!(both(&output).contains("must be"), "{}", both(&output));
    }
}

#[test]
fn objects_are_ordered_after_their_dependencies() {
    let args = [
        "manifests",
        "--virt-operator",
        "--prometheus",
        "--network-policy",
    ];
    let printed = process::run(&args);
    let printed = String::from_utf8(printed.stdout).unwrap();
    let at = |kind: &str, which: fn(&str, &str) -> Option<usize>| {
        which(&printed, &format!("\nkind: {kind}\n")).unwrap_or_else(|| panic!("no {kind}"))
    };
    let first = |text: &str, kind: &str| text.find(kind);
    let last = |text: &str, kind: &str| text.rfind(kind);
    for (one, other) in [
        ("Namespace", "CustomResourceDefinition"),
        ("CustomResourceDefinition", "ServiceAccount"),
        ("PriorityClass", "Deployment"),
        ("ServiceAccount", "Deployment"),
        ("ClusterRole", "ClusterRoleBinding"),
        ("Role", "RoleBinding"),
        ("RoleBinding", "Deployment"),
        ("Deployment", "ValidatingWebhookConfiguration"),
    ] {
        assert!(at(one, last) < at(other, first), "{one} before {other}");
    }
}

#[test]
fn pods_meet_the_restricted_standard_and_their_namespace_asks_for_it() {
    let objects = Objects::of_command(&["--virt-operator"]);
    assert_restricted(&objects);
    let label = |namespace: &str| {
        let found = objects.find("Namespace", namespace).unwrap();
        found["metadata"]["labels"]["pod-security.kubernetes.io/enforce"].clone()
    };
    assert_eq!(label("kubevirt-operator-system"), "restricted");
    assert_eq!(label("kubevirt"), "privileged");
}

/// KubeVirt's releases reach the operator through a Service of a fixed name.
#[test]
fn manifests_of_kubevirt_releases_find_the_operator() {
    let objects = Objects::of_command(&["--virt-operator"]);
    let deployment = objects.find("Deployment", "virt-operator").unwrap();
    let pod = pod(deployment).unwrap();
    assert_eq!(pod["metadata"]["labels"]["kubevirt.io"], "virt-operator");
    let ports = pod["spec"]["containers"][0]["ports"].as_array().unwrap();
    let port = ports.iter().find(|port| port["name"] == "webhooks");
    assert_eq!(port.unwrap()["containerPort"], 8444);
}

#[test]
fn selectors_match_pods_and_ports() {
    let objects = Objects::of_command(&["--network-policy", "--prometheus"]);
    let manager = objects
        .find("Deployment", "kubevirt-operator-controller-manager")
        .unwrap();
    let pod = pod(manager).unwrap();
    let labels = pod["metadata"]["labels"].as_object().unwrap();
    let selected = |selector: &Value| {
        let mut wanted = selector.as_object().unwrap().iter();
        wanted.all(|(key, value)| labels.get(key) == Some(value))
    };
    let ports = pod["spec"]["containers"][0]["ports"].as_array().unwrap();
    let has = |name: &Value| ports.iter().any(|port| port["name"] == *name);
    assert!(selected(&manager["spec"]["selector"]["matchLabels"]));
    for service in ["kubevirt-operator-metrics", "kubevirt-operator-webhook"] {
        let service = objects.find("Service", service).unwrap();
        assert!(selected(&service["spec"]["selector"]));
        assert!(has(&service["spec"]["ports"][0]["targetPort"]));
    }
    let policy = objects.find("NetworkPolicy", "kubevirt-operator").unwrap();
    assert!(selected(&policy["spec"]["podSelector"]["matchLabels"]));
    for rule in policy["spec"]["ingress"].as_array().unwrap() {
        assert!(has(&rule["ports"][0]["port"]));
    }
}

#[test]
fn samples_are_valid() {
    let output = process::run(&["validate", "-f", "config/samples"]);
    assert!(output.status.success(), "{}", both(&output));
    assert!(both(&output).contains("checked 3 documents: no problems"));
}

/// Every setting of `run` is in the Deployment or deliberately left at its default.
#[test]
fn every_setting_is_in_the_manifest_or_left_out_on_purpose() {
    let help = process::run(&["run", "--help"]);
    let help = String::from_utf8(help.stdout).unwrap();
    let variables: Vec<_> = help.split("[env: ").skip(1).collect();
    assert!(variables.len() > 10, "{help}");
    let manager = text("config/manager/manager.yaml");
    for variable in variables
        .iter()
        .map(|rest| rest.split([']', '=']).next().unwrap().trim())
    {
        let given = manager.contains(&format!("- name: {variable}\n"));
        let left_out = [
            "KUBECONFIG",
            "WATCH_NAMESPACES",
            "CLONE_SOURCE_NAMESPACES",
            "MACHINE_PROVIDER",
            "KUBEVIRT_CONFIG",
            "PASSED_ON_LABELS",
            "PASSED_ON_ANNOTATIONS",
            "WEBHOOK_CERTIFICATES",
            "WEBHOOK_SERVICE",
            "WEBHOOK_CONFIGURATION",
            "WEBHOOK_SECRET",
        ]
        .contains(&variable);
        assert!(given != left_out, "{variable}");
    }
}
