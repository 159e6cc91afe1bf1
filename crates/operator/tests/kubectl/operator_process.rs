//! The operator as a process beside a sandbox without one.

use std::{
    io::{BufRead as _, BufReader, Read as _},
    process::{Child, ChildStderr, Stdio},
};

use crate::{
    kubectl::Kubectl,
    process::{operator, send},
};

/// Running operator, killed when dropped.
pub struct OperatorProcess {
    child: Child,
    log: BufReader<ChildStderr>,
}

impl OperatorProcess {
    /// Starts `kubevirt-operator run` with these arguments.
    pub fn start(args: &[&str]) -> Self {
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

    /// Waits for a log line that contains all these words.
    pub fn until(&mut self, words: &[&str]) {
        let mut line = String::new();
        while !words.iter().all(|word| line.contains(word)) {
            line.clear();
            assert_ne!(self.log.read_line(&mut line).unwrap(), 0, "it has ended");
        }
    }

    /// Sends SIGTERM, and returns the rest of the log.
    pub fn end(mut self) -> String {
        send("TERM", &self.child);
        let mut log = String::new();
        self.log.read_to_string(&mut log).unwrap();
        assert!(self.child.wait().unwrap().success(), "{log}");
        log
    }
}

impl Drop for OperatorProcess {
    fn drop(&mut self) {
        // Fails if the process has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Writes the kubeconfig of a ServiceAccount, and returns its path.
pub fn kubeconfig_of(kubectl: &Kubectl, account: &str) -> String {
    let request =
        r#"{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}"#;
    let namespace = kubectl.namespace();
    let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token");
    let answer = kubectl.ok_with_input(request, &format!("create --raw {path} -f -"));
    let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
    let token = answer["status"]["token"].as_str().unwrap();
    let admin = std::fs::read_to_string(kubectl.kubeconfig()).unwrap();
    let (head, _) = admin.split_once("    token: ").unwrap();
    kubectl.file("account", &format!("{head}    token: {token}\n"))
}
