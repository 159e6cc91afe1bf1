//! Operators as processes of their own, beside a sandbox that has none.

use std::{
    io::{BufRead as _, BufReader, Read as _},
    process::{Child, ChildStderr, Stdio},
};

use crate::{
    kubectl::Kubectl,
    process::{operator, send},
};

/// An operator that runs, and is killed when it is dropped.
pub struct Running {
    child: Child,
    log: BufReader<ChildStderr>,
}

impl Running {
    /// `kubevirt-operator run` with these arguments.
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

    /// Waits for a line of the log that has all these words.
    pub fn until(&mut self, words: &[&str]) {
        let mut line = String::new();
        while !words.iter().all(|word| line.contains(word)) {
            line.clear();
            assert_ne!(self.log.read_line(&mut line).unwrap(), 0, "it has ended");
        }
    }

    /// Asks it to end, and gives what it has logged since.
    pub fn end(mut self) -> String {
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

/// Writes the kubeconfig of a service account, and gives its path.
pub fn kubeconfig_of(kubectl: &Kubectl, account: &str) -> String {
    let request =
        r#"{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}"#;
    let namespace = kubectl.namespace();
    let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token");
    let answer = kubectl.given(request, &format!("create --raw {path} -f -"));
    let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
    let token = answer["status"]["token"].as_str().unwrap();
    let admin = std::fs::read_to_string(kubectl.kubeconfig()).unwrap();
    let (head, _) = admin.split_once("    token: ").unwrap();
    kubectl.file("account", &format!("{head}    token: {token}\n"))
}
