//! Manifests of this repository, and lifecycle of VirtualMachines.

use crate::{
    kubectl::{Kubectl, strict},
    process::{run, shared},
};

/// Objects that `render` prints for an example.
fn rendered(example: &str) -> String {
    let output = run(&["render", "-f", example]);
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

fn until(kubectl: &Kubectl, object: &str, path: &str, value: &str) {
    let words = format!("get {object} --watch -o jsonpath='{{{path}}}{{\"\\n\"}}'");
    kubectl.follow(&words).until(&[value]);
}

#[test]
fn definitions_and_examples_pass_strict_validation() {
    let kubectl = Kubectl::of(shared(), "default");
    kubectl.ok(&format!(
        "apply --server-side --force-conflicts {} -f config/crd",
        strict()
    ));
    let applied = kubectl.ok(&format!("apply {} -f examples", strict()));
    assert!(
        applied.contains("machine.vitistack.io/small created"),
        "{applied}"
    );
    let printed = kubectl.fails(&format!("apply {} -f examples/broken", strict()));
    assert!(printed.contains("Machine"), "{printed}");
    let unprotected = r#"{"spec":{"deletionProtection":false}}"#;
    kubectl.ok(&format!(
        "patch machine ledger-db --type merge -p '{unprotected}'"
    ));
    for folder in ["examples", "examples/broken"] {
        kubectl.ok(&format!(
            "delete -f {folder} --ignore-not-found --timeout=60s"
        ));
    }
}

#[test]
fn a_machine_runs_stops_and_starts() {
    let kubectl = Kubectl::new("machines-power");
    kubectl.ok_with_input(&rendered("examples/machine-small.yaml"), "apply -f -");
    until(&kubectl, "vm/small", ".status.printableStatus", "Running");
    let instance = kubectl.ok("get vmi small");
    assert!(
        instance.contains("Running") && instance.contains("node-"),
        "{instance}"
    );
    assert_eq!(kubectl.value("pvc/small-root", ".status.phase"), "Bound");
    let root = "/apis/subresources.kubevirt.io/v1/namespaces/machines-power";
    let ask = |what: &str| format!("replace --raw {root}/virtualmachines/small/{what} -f -");
    kubectl.ok_with_input("{}", &ask("stop"));
    until(&kubectl, "vm/small", ".status.printableStatus", "Stopped");
    kubectl.until_deleted("vmi/small");
    kubectl.ok_with_input("{}", &ask("start"));
    until(&kubectl, "vm/small", ".status.printableStatus", "Running");
    let empty = kubectl.file("empty.json", "{}");
    let printed = kubectl.fails(&ask("start").replace("-f -", &format!("-f {empty}")));
    assert!(printed.contains("VM is already running"), "{printed}");
    kubectl.ok("delete vm small --timeout=60s");
    assert_eq!(kubectl.ok("get vmi,pods -o name"), "");
}

#[test]
fn an_image_is_imported() {
    let kubectl = Kubectl::new("machines-image");
    kubectl.ok_with_input(&rendered("examples/machine-image.yaml"), "apply -f -");
    kubectl.ok("wait datavolume/debian-root --for=condition=Ready --timeout=60s");
    let shown = kubectl.ok("get datavolume debian-root");
    assert!(
        shown.contains("Succeeded") && shown.contains("100.0%"),
        "{shown}"
    );
    until(&kubectl, "vm/debian", ".status.printableStatus", "Running");
    let text = kubectl.ok("describe vmi debian");
    assert!(text.contains("VirtualMachineInstance started."), "{text}");
}

#[test]
fn a_claim_is_bound_and_expanded() {
    let kubectl = Kubectl::new("machines-claim");
    let claim = r#"{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "disk"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}"#;
    kubectl.ok_with_input(claim, "apply -f -");
    until(&kubectl, "pvc/disk", ".status.phase", "Bound");
    // The file system is expanded where the claim is mounted.
    let pod = r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "user"},
        "spec": {"containers": [{"name": "c", "image": "nginx:1"}],
        "volumes": [{"name": "disk", "persistentVolumeClaim": {"claimName": "disk"}}]}}"#;
    kubectl.ok_with_input(pod, "create -f -");
    kubectl.ok("wait pod/user --for=condition=Ready --timeout=60s");
    kubectl.ok_with_input(&claim.replace("1Gi", "2Gi"), "apply -f -");
    until(&kubectl, "pvc/disk", ".status.capacity.storage", "2Gi");
    let printed = kubectl
        .fails(r#"patch pvc disk -p '{"spec":{"resources":{"requests":{"storage":"1Gi"}}}}'"#);
    assert!(
        printed.contains("is invalid: spec.resources.requests.storage: Forbidden"),
        "{printed}"
    );
}
