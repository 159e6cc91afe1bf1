//! Client of a real API server through kubectl.
#![allow(dead_code, reason = "not every test uses all of it")]
#![allow(clippy::panic, reason = "a test fails by panicking")]

use std::{
    collections::BTreeSet,
    io::Write as _,
    process::{Command, Stdio},
};

use serde_json::Value;

pub struct Server<'a> {
    kubeconfig: &'a str,
}

impl<'a> Server<'a> {
    pub fn new(kubeconfig: &'a str) -> Self {
        Self { kubeconfig }
    }

    /// Runs kubectl and returns its output or error.
    pub fn kubectl(&self, args: &[&str], input: &Value) -> Result<String, String> {
        let mut child = Command::new("kubectl")
            .args(["--kubeconfig", self.kubeconfig])
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(input.to_string().as_bytes()).unwrap();
        drop(stdin);
        let output = child.wait_with_output().unwrap();
        if output.status.success() {
            Ok(String::from_utf8(output.stdout).unwrap())
        } else {
            Err(String::from_utf8(output.stderr).unwrap())
        }
    }

    fn raw(&self, verb: &str, path: &str, input: &Value) -> Result<Value, String> {
        let answer = self.kubectl(&[verb, "--raw", path, "-f", "-"], input)?;
        Ok(serde_json::from_str(&answer).unwrap())
    }

    pub fn create(&self, path: &str, object: &Value) -> Result<Value, String> {
        self.raw("create", path, object)
    }

    pub fn replace(&self, path: &str, object: &Value) -> Result<Value, String> {
        self.raw("replace", path, object)
    }

    pub fn delete(&self, path: &str) {
        self.kubectl(&["delete", "--raw", path], &Value::Null)
            .unwrap();
    }

    /// Installs definitions, runs `work`, and removes them, even on failure.
    pub fn with_definitions(&self, crds: &[Value], work: impl FnOnce()) {
        struct Installed<'s>(&'s Server<'s>, &'s [Value]);
        impl Drop for Installed<'_> {
            fn drop(&mut self) {
                for crd in self.1 {
                    let _ = self.0.kubectl(&["delete", "-f", "-"], crd);
                }
            }
        }
        let _installed = Installed(self, crds);
        for crd in crds {
            self.kubectl(&["create", "-f", "-"], crd).unwrap();
        }
        for crd in crds {
            let name = format!("crd/{}", crd["metadata"]["name"].as_str().unwrap());
            let established = ["wait", "--for=condition=Established", &name];
            self.kubectl(&established, &Value::Null).unwrap();
            let group = crd["spec"]["group"].as_str().unwrap();
            let plural = crd["spec"]["names"]["plural"].as_str().unwrap();
            for version in crd["spec"]["versions"].as_array().unwrap() {
                let path = format!(
                    "/apis/{group}/{}/{plural}",
                    version["name"].as_str().unwrap()
                );
                // Served shortly after it is established.
                while self
                    .kubectl(&["get", "--raw", &path], &Value::Null)
                    .is_err()
                {}
            }
        }
        work();
    }
}

/// Violations that kubectl prints for an invalid object.
pub fn reasons(answer: &str) -> BTreeSet<String> {
    let (_, reasons) = answer
        .split_once("is invalid: ")
        .unwrap_or_else(|| panic!("not an answer: {answer}"));
    let mut found: Vec<String> = Vec::new();
    for line in reasons.lines() {
        match (line.trim().strip_prefix('|'), found.last_mut()) {
            // Source line of a rule and the caret below it.
            (Some(_), Some(last)) => {
                last.push('\n');
                last.push_str(line);
            }
            _ => found.push(line.trim_start_matches("* ").trim().to_owned()),
        }
    }
    found.into_iter().filter(|line| !line.is_empty()).collect()
}
