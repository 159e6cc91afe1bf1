//! State that outlives its sandbox: `sandbox --keep`.

use crate::{
    kubectl::{Kubectl, both},
    process::{Sandbox, operator},
};

const DEFINITION: &str = r#"{"apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition", "metadata": {"name": "things.example.org"},
    "spec": {"group": "example.org", "scope": "Namespaced",
    "names": {"plural": "things", "singular": "thing", "kind": "Thing"},
    "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema":
    {"type": "object", "properties": {"size": {"type": "integer", "maximum": 3}}}}}]}}"#;

#[test]
fn a_sandbox_continues_from_the_kept_state() {
    let folder = tempfile::tempdir().unwrap();
    let keep = folder.path().join("state");
    let keep = keep.to_str().unwrap();
    let sandbox = Sandbox::start(&["--keep", keep, "--speed", "instant"]);
    let kubectl = Kubectl::of(&sandbox, "default");
    kubectl.ok_with_input(DEFINITION, "create -f -");
    kubectl.ok("wait crd/things.example.org --for=condition=Established --timeout=60s");
    kubectl.ok_with_input(
        r#"{"apiVersion": "example.org/v1", "kind": "Thing", "metadata": {"name": "one"}, "size": 2}"#,
        "create -f -",
    );
    kubectl.ok("create secret generic key --from-literal=a=b");
    kubectl.ok("create deployment web --image=nginx:1 --replicas=2");
    kubectl.ok("rollout status deployment/web --timeout=60s");
    let versions = |kubectl: &Kubectl| {
        let path = ".metadata.uid} {.metadata.resourceVersion";
        ["secret/key", "things/one", "crd/things.example.org"]
            .map(|object| kubectl.value(object, path))
    };
    let pods = |kubectl: &Kubectl| kubectl.value("pods", ".items[*].metadata.uid");
    let before = (versions(&kubectl), pods(&kubectl));
    let kubeconfig = std::fs::read_to_string(sandbox.kubeconfig()).unwrap();
    let second = operator()
        .args(["sandbox", "--keep", keep, "--kubeconfig"])
        .arg(folder.path().join("second"))
        .output()
        .unwrap();
    assert_eq!(second.status.code(), Some(1), "{}", both(&second));
    assert!(
        both(&second).contains("another sandbox is using the folder"),
        "{}",
        both(&second)
    );
    assert!(!folder.path().join("second").exists());
    assert_eq!(sandbox.end("INT").status.code(), Some(0));

    let sandbox = Sandbox::start(&["--keep", keep, "--speed", "instant"]);
    let kubectl = Kubectl::of(&sandbox, "default");
    assert_eq!((versions(&kubectl), pods(&kubectl)), before);
    let printed = kubectl.fails(r#"patch things/one --type=merge -p '{"size":4}'"#);
    assert!(
        printed.contains("size: Invalid value: 4: size in body should be less than or equal to 3"),
        "{printed}"
    );
    kubectl.ok("scale deployment web --replicas=3");
    kubectl.ok("rollout status deployment/web --timeout=60s");
    // Tokens of the previous run still work on the same port.
    let again = std::fs::read_to_string(sandbox.kubeconfig()).unwrap();
    let token = |text: &str| {
        text.lines()
            .find(|line| line.contains("token:"))
            .unwrap()
            .to_owned()
    };
    assert_eq!(token(&again), token(&kubeconfig));
}

#[test]
fn an_unreadable_state_is_not_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let keep = folder.path().to_str().unwrap().to_owned();
    Sandbox::start(&["--keep", &keep]).end("TERM");
    let journal = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| {
            path.extension()
                .is_some_and(|extension| extension.to_str().unwrap().starts_with("json"))
        })
        .unwrap();
    std::fs::write(&journal, "nonsense\nmore of it\n").unwrap();
    let output = operator()
        .args(["sandbox", "--keep", &keep, "--kubeconfig"])
        .arg(folder.path().join("kubeconfig"))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", both(&output));
    assert!(
        both(&output).contains("move the file away to start with an empty cluster"),
        "{}",
        both(&output)
    );
    assert_eq!(
        std::fs::read_to_string(&journal).unwrap(),
        "nonsense\nmore of it\n"
    );
}
