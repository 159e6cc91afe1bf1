//! Helm as a process.

use std::{
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use serde_json::Value;
use tempfile::TempDir;

use crate::{
    kubectl::{Kubectl, both},
    objects::Objects,
};

/// Default namespace of the release.
pub const NAMESPACE: &str = "kubevirt-operator-system";

pub fn chart() -> PathBuf {
    crate::root().join("charts/kubevirt-operator")
}

/// Helm with a home folder of its own, and optionally with a cluster.
pub struct Helm {
    folder: TempDir,
    kubeconfig: Option<PathBuf>,
}

impl Helm {
    /// Without a cluster.
    pub fn alone() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            kubeconfig: None,
        }
    }

    /// With the cluster of a kubectl.
    pub fn of(kubectl: &Kubectl) -> Self {
        Self {
            kubeconfig: Some(kubectl.kubeconfig().to_owned()),
            ..Self::alone()
        }
    }

    /// Working directory of its commands.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Runs a command, its words separated by spaces; `CHART` is the chart's folder.
    pub fn run(&self, words: &str) -> Output {
        let mut command = Command::new("helm");
        command
            .env("HOME", self.folder.path())
            .env_remove("KUBECONFIG")
            .current_dir(self.folder.path())
            .stdin(Stdio::null());
        if let Some(kubeconfig) = &self.kubeconfig {
            command.env("KUBECONFIG", kubeconfig);
        }
        for word in words.split_whitespace() {
            if word == "CHART" {
                command.arg(chart());
            } else {
                command.arg(word);
            }
        }
        command
            .output()
            .unwrap_or_else(|error| panic!("these tests need helm on PATH: {error}"))
    }

    /// Runs a command that must succeed, and returns its output.
    pub fn ok(&self, words: &str) -> String {
        let output = self.run(words);
        assert!(output.status.success(), "helm {words}\n{}", both(&output));
        both(&output)
    }

    /// Runs a command that must fail, and returns its output.
    pub fn fails(&self, words: &str) -> String {
        let output = self.run(words);
        assert!(!output.status.success(), "helm {words}\n{}", both(&output));
        both(&output)
    }

    /// Writes a file with values, and returns its path.
    pub fn file(&self, values: &Value) -> String {
        let path = self.folder.path().join("values.json");
        std::fs::write(&path, values.to_string()).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// Renders the chart with these values.
    pub fn template(&self, values: &Value) -> Objects {
        let file = self.file(values);
        let words = format!("template any-name CHART --namespace {NAMESPACE} --values {file}");
        let output = self.run(&words);
        assert!(output.status.success(), "{values}\n{}", both(&output));
        Objects::of_output(&output)
    }
}
