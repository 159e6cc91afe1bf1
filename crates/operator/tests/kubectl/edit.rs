//! `kubectl edit`, `patch`, `label` and `annotate`.

use crate::kubectl::{Kubectl, both};

#[test]
fn kubectl_edit_changes_an_object() {
    let kubectl = Kubectl::new("edit-editor");
    kubectl.ok("create configmap one --from-literal=colour=red");
    let edit = |editor: &str| {
        let mut command = kubectl.command("edit configmap one");
        command.env("KUBE_EDITOR", editor).output().unwrap()
    };
    let output = edit("sed -i s/colour:.*/colour:\\ blue/");
    assert!(
        both(&output).contains("configmap/one edited"),
        "{}",
        both(&output)
    );
    assert_eq!(kubectl.value("configmap/one", ".data.colour"), "blue");
    let output = edit("true");
    assert!(
        both(&output).contains("no changes made"),
        "{}",
        both(&output)
    );
    // kubectl keeps an invalid edit in a file, and the object is unchanged.
    let output = edit("sed -i s/colour:.*/colour:\\ [1]/");
    assert!(!output.status.success(), "{}", both(&output));
    assert_eq!(kubectl.value("configmap/one", ".data.colour"), "blue");
}

#[test]
fn all_patch_types_work() {
    let kubectl = Kubectl::new("edit-patch");
    kubectl.ok("create deployment web --image=nginx:1 --replicas=0");
    kubectl.ok("patch deployment web --type=merge -p '{\"spec\":{\"minReadySeconds\":1}}'");
    assert_eq!(
        kubectl.value("deployment/web", ".spec.minReadySeconds"),
        "1"
    );
    // Containers are merged by name.
    let sidecar = r#"{"spec":{"template":{"spec":{"containers":[{"name":"side","image":"i"}]}}}}"#;
    kubectl.ok(&format!("patch deployment web -p '{sidecar}'"));
    let names = kubectl.value("deployment/web", ".spec.template.spec.containers[*].name");
    assert_eq!(names, "side nginx");
    let replace = r#"[{"op":"replace","path":"/spec/minReadySeconds","value":2}]"#;
    kubectl.ok(&format!("patch deployment web --type=json -p '{replace}'"));
    assert_eq!(
        kubectl.value("deployment/web", ".spec.minReadySeconds"),
        "2"
    );
    let test = r#"[{"op":"test","path":"/spec/minReadySeconds","value":9}]"#;
    kubectl.fails(&format!("patch deployment web --type=json -p '{test}'"));
    let output = kubectl.run(&format!("patch deployment web --type=json -p '{replace}'"));
    assert!(both(&output).contains("deployment.apps/web patched (no change)"));
}

#[test]
fn labels_and_annotations_can_be_set_and_removed() {
    let kubectl = Kubectl::new("edit-label");
    kubectl.ok("create configmap one");
    kubectl.ok("label configmap one tier=front");
    let printed = kubectl.fails("label configmap one tier=back");
    assert!(
        printed.contains("'tier' already has a value (front), and --overwrite is false"),
        "{printed}"
    );
    kubectl.ok("label configmap one tier=back --overwrite");
    assert_eq!(
        kubectl.ok("get configmap -l tier=back -o name"),
        "configmap/one\n"
    );
    kubectl.ok("label configmap one tier-");
    assert_eq!(kubectl.value("configmap/one", ".metadata.labels"), "");
    kubectl.ok("annotate configmap one note='two words'");
    assert_eq!(
        kubectl.value("configmap/one", ".metadata.annotations.note"),
        "two words"
    );
    let printed = kubectl.fails("label configmap one tier=_bad_");
    assert!(printed.contains("invalid label value"), "{printed}");
}
