//! `kubectl create`, `run` and `expose`.

use crate::kubectl::{Kubectl, both, is_too_old_for};

#[test]
fn kubectl_create_generators_work() {
    if is_too_old_for("the current versions of these kinds") {
        return;
    }
    let kubectl = Kubectl::new("create-kinds");
    for words in [
        "create configmap settings --from-literal=a=b",
        "create secret generic keys --from-literal=a=b",
        "create secret docker-registry pull --docker-username=u --docker-password=p",
        "create serviceaccount robot",
        "create role reader --verb=get --resource=pods",
        "create rolebinding reader --role=reader --serviceaccount=create-kinds:robot",
        "create quota few --hard=pods=10",
        "create poddisruptionbudget some --selector=app=web --min-available=1",
        "create service clusterip web --tcp=80:8080",
        "create service nodeport open --tcp=80:8080",
        "create ingress web --rule=example.org/=web:80",
        "create job once --image=nginx:1",
        "create cronjob often --image=nginx:1 --schedule='*/5 * * * *'",
        "create deployment web --image=nginx:1 --port=80 --replicas=0",
    ] {
        let made = kubectl.ok(words);
        assert!(made.ends_with(" created\n"), "{made}");
    }
    assert_eq!(kubectl.value("secret/keys", ".data.a"), "Yg==");
    assert_eq!(
        kubectl.value("service/web", ".spec.ports[0].targetPort"),
        "8080"
    );
    // An explicit zero is not replaced by the default.
    assert_eq!(kubectl.value("deployment/web", ".spec.replicas"), "0");
    assert_eq!(kubectl.value("pdb/some", ".spec.minAvailable"), "1");
    assert_eq!(kubectl.value("quota/few", ".spec.hard.pods"), "10");
    let printed = kubectl.fails("create configmap settings");
    assert!(
        printed.contains("configmaps \"settings\" already exists"),
        "{printed}"
    );
    kubectl.ok("wait job/once --for=condition=Complete --timeout=60s");
}

#[test]
fn a_dry_run_stores_nothing() {
    if is_too_old_for("a dry run without the paths of OpenAPI v2") {
        return;
    }
    let kubectl = Kubectl::new("create-dry");
    let shown = kubectl.ok("create configmap none --from-literal=a=b --dry-run=server -o yaml");
    assert!(shown.contains("uid:"), "{shown}");
    kubectl.fails("get configmap none");
    let output = kubectl.run("run none --image=nginx:1 --dry-run=server");
    assert!(both(&output).contains("pod/none created (server dry run)"));
    kubectl.fails("get pod none");
}

#[test]
fn generate_name_creates_unique_names() {
    let kubectl = Kubectl::new("create-names");
    let pod = r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "some-"},
        "spec": {"containers": [{"name": "c", "image": "nginx:1"}]}}"#;
    let one = kubectl.ok_with_input(pod, "create -f - -o name");
    let other = kubectl.ok_with_input(pod, "create -f - -o name");
    assert!(one.starts_with("pod/some-") && other.starts_with("pod/some-"));
    assert_ne!(one, other);
}

#[test]
fn pods_are_run_and_exposed() {
    let kubectl = Kubectl::new("create-run");
    kubectl.ok("run web --image=nginx:1 --port=80 --labels=app=web");
    kubectl.ok("wait pod/web --for=condition=Ready --timeout=60s");
    kubectl.ok("expose pod web --port=80 --target-port=8080");
    assert_eq!(kubectl.value("service/web", ".spec.selector.app"), "web");
    assert!(
        kubectl
            .value("service/web", ".spec.clusterIP")
            .starts_with("10.96.")
    );
}

#[test]
fn tokens_are_issued_and_accepted() {
    if is_too_old_for("tokens") {
        return;
    }
    let kubectl = Kubectl::new("create-token");
    kubectl.ok("create serviceaccount robot");
    let token = kubectl.ok("create token robot --duration=1h");
    let printed = kubectl.fails(&format!(
        "--kubeconfig={} get pods",
        with_token(&kubectl, token.trim())
    ));
    assert!(
        printed.contains(
            "User \"system:serviceaccount:create-token:robot\" cannot list resource \"pods\" in \
             API group \"\" in the namespace \"create-token\""
        ),
        "{printed}"
    );
}

/// Kubeconfig of the same server with another token.
fn with_token(kubectl: &Kubectl, token: &str) -> String {
    let own = std::fs::read_to_string(kubectl.kubeconfig()).unwrap();
    let lines = own.lines().map(|line| match line.split_once("token:") {
        Some((before, _)) => format!("{before}token: {token}\n"),
        None => format!("{line}\n"),
    });
    kubectl.file("robot.kubeconfig", &lines.collect::<String>())
}
