//! The operator as a process of its own, beside a sandbox that has none.

use std::{
    io::{BufRead as _, BufReader, Read as _},
    process::{Child, ChildStderr, Stdio},
};

use crate::{
    kubectl::Kubectl,
    process::{Sandbox, operator, send},
};

/// An operator that runs, and is killed when it is dropped.
struct Running {
    child: Child,
    log: BufReader<ChildStderr>,
}

impl Running {
    fn start(args: &[&str]) -> Self {
        let mut child = operator()
            .arg("run")
            .args(["--metrics-bind-address=0", "--health-probe-bind-address=0"])
            .args(args)
            .env_remove("KUBECONFIG")
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log = BufReader::new(child.stderr.take().unwrap());
        Self { child, log }
    }

    /// Waits for a line of the log that has all these words.
    fn until(&mut self, words: &[&str]) {
        let mut line = String::new();
        while !words.iter().all(|word| line.contains(word)) {
            line.clear();
            assert_ne!(self.log.read_line(&mut line).unwrap(), 0, "it has ended");
        }
    }

    /// Asks it to end, and gives what it has logged since.
    fn end(mut self) -> String {
        send("TERM", &self.child);
        let mut log = String::new();
        self.log.read_to_string(&mut log).unwrap();
        assert!(self.child.wait().unwrap().success(), "{log}");
        log
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The documentation's way to give rights in some namespaces only.
fn rights_in_team_a() -> String {
    let text = std::fs::read_to_string(crate::root().join("docs/operator.md")).unwrap();
    let mut blocks = text.split("```yaml\n");
    let block = blocks.find(|block| block.contains("namespace: team-a"));
    block.unwrap().split("```").next().unwrap().to_owned()
}

#[test]
fn it_keeps_the_namespaces_that_it_may_and_gives_up_its_lease() {
    let sandbox = Sandbox::start(&["--no-operator", "--speed", "instant"]);
    let kubectl = Kubectl::of(&sandbox, "team-a");
    let system = Kubectl::of(&sandbox, "kubevirt-operator-system");
    system.ok("apply -f config/rbac");
    for namespace in ["team-a", "team-b"] {
        kubectl.ok(&format!("create namespace {namespace}"));
    }
    kubectl.ok("delete clusterrolebinding kubevirt-operator-manager-rolebinding");
    kubectl.given(&rights_in_team_a(), "apply -f -");
    let account = "kubevirt-operator-controller-manager";
    let request =
        r#"{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}"#;
    let path =
        format!("/api/v1/namespaces/kubevirt-operator-system/serviceaccounts/{account}/token");
    let answer = system.given(request, &format!("create --raw {path} -f -"));
    let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
    let token = answer["status"]["token"].as_str().unwrap();
    let admin = std::fs::read_to_string(kubectl.kubeconfig()).unwrap();
    let (head, _) = admin.split_once("    token: ").unwrap();
    let kubeconfig = kubectl.file("account", &format!("{head}    token: {token}\n"));

    let mut running = Running::start(&["--kubeconfig", &kubeconfig, "--watch-namespaces=team-a"]);
    for namespace in ["team-b", "team-a"] {
        Kubectl::of(&sandbox, namespace).ok("apply -f examples/machine-small.yaml");
    }
    running.until(&[
        r#""machine":"small""#,
        r#""namespace":"team-a""#,
        r#""reason":"Started""#,
    ]);
    kubectl.ok("wait --for=condition=Ready machine/small");
    let elsewhere = Kubectl::of(&sandbox, "team-b");
    assert_eq!(elsewhere.value("machine/small", ".status"), "");
    assert_ne!(
        system.value("lease/kubevirt-operator", ".spec.holderIdentity"),
        ""
    );

    let log = running.end();
    assert!(log.contains("the Lease is released"), "{log}");
    assert!(!log.contains("team-b"), "{log}");
    assert_eq!(
        system.value("lease/kubevirt-operator", ".spec.holderIdentity"),
        ""
    );
}
