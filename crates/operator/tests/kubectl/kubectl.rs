//! kubectl as a process.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Output, Stdio},
    sync::OnceLock,
};

use tempfile::TempDir;

use crate::process::{Sandbox, shared};

/// kubectl with a cluster and a namespace of its own.
pub struct Kubectl {
    kubeconfig: PathBuf,
    /// Caches, and files that tests write.
    folder: TempDir,
    namespace: String,
}

impl Kubectl {
    /// kubectl with a new namespace of the shared sandbox.
    pub fn new(namespace: &str) -> Self {
        let kubectl = Self::of(shared(), namespace);
        kubectl.ok(&format!("create namespace {namespace}"));
        // A controller creates the default ServiceAccount.
        kubectl
            .follow("get configmaps --watch -o name")
            .until(&["kube-root-ca.crt"]);
        kubectl
    }

    /// kubectl with a namespace of a sandbox; with an empty name, documents name theirs.
    pub fn of(sandbox: &Sandbox, namespace: &str) -> Self {
        Self {
            kubeconfig: sandbox.kubeconfig(),
            folder: tempfile::tempdir().unwrap(),
            namespace: namespace.to_owned(),
        }
    }

    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Writes a file for `-f`, and returns its path.
    pub fn file(&self, name: &str, text: &str) -> String {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// The command, its words separated by spaces; single quotes keep words together.
    pub fn command(&self, words: &str) -> Command {
        version();
        let mut command = program();
        command
            .env("HOME", self.folder.path())
            .env("KUBECACHEDIR", self.folder.path().join("cache"))
            .env("KUBECONFIG", &self.kubeconfig)
            .current_dir(crate::root())
            .stdin(Stdio::null());
        if !self.namespace.is_empty() {
            command.args(["--namespace", &self.namespace]);
        }
        command.args(split(words));
        command
    }

    pub fn run(&self, words: &str) -> Output {
        self.command(words).output().unwrap()
    }

    /// Runs a command that must succeed, and returns its output.
    pub fn ok(&self, words: &str) -> String {
        checked(words, &self.run(words))
    }

    /// The same with standard input.
    pub fn ok_with_input(&self, input: &str, words: &str) -> String {
        let mut child = self
            .command(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(input.as_bytes()).unwrap();
        drop(stdin);
        checked(words, &child.wait_with_output().unwrap())
    }

    /// Runs a command that must fail, and returns its output.
    pub fn fails(&self, words: &str) -> String {
        let output = self.run(words);
        let text = both(&output);
        assert!(!output.status.success(), "kubectl {words}\n{text}");
        text
    }

    /// Waits until these objects are deleted.
    pub fn until_deleted(&self, objects: &str) {
        let output = self.run(&format!("wait {objects} --for=delete --timeout=60s"));
        // Older kubectls fail if there is nothing to wait for.
        let printed = both(&output);
        let is_deleted = output.status.success() || printed.contains("no matching resources found");
        assert!(is_deleted, "{objects}: {printed}");
    }

    /// One value of an object.
    pub fn value(&self, object: &str, path: &str) -> String {
        self.ok(&format!("get {object} -o jsonpath='{{{path}}}'"))
    }

    /// Starts a long-running command, which ends when dropped or after the timeout.
    pub fn follow(&self, words: &str) -> FollowedCommand {
        let mut child = self
            .command(&format!("{words} --request-timeout=90s"))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        FollowedCommand {
            out: BufReader::new(child.stdout.take().unwrap()),
            child,
        }
    }
}

/// Long-running command, read line by line.
pub struct FollowedCommand {
    child: Child,
    out: BufReader<ChildStdout>,
}

impl FollowedCommand {
    /// Reads up to the first line that contains all these words.
    pub fn until(&mut self, words: &[&str]) -> String {
        loop {
            let mut line = String::new();
            assert!(
                self.out.read_line(&mut line).unwrap() > 0,
                "never: {words:?}"
            );
            if words.iter().all(|word| line.contains(word)) {
                return line;
            }
        }
    }
}

impl Drop for FollowedCommand {
    fn drop(&mut self) {
        // Fails if the process has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Minor version from which on kubectl lets the server validate. Older ones validate with OpenAPI v2,
/// which the sandbox does not serve.
const SERVER_VALIDATES: u32 = 27;

/// Whether kubectl is too old for a test, which is printed. With `CI` set that is a failure: no check is
/// skipped silently there.
pub fn is_too_old_for(what: &str) -> bool {
    let is_too_old = version() < SERVER_VALIDATES;
    if is_too_old {
        let message = format!(
            "kubectl 1.{} is too old for {what}: 1.{SERVER_VALIDATES} is needed",
            version()
        );
        assert!(std::env::var_os("CI").is_none(), "{message}");
        eprintln!("SKIPPED: {message}");
    }
    is_too_old
}

fn program() -> Command {
    Command::new(std::env::var_os("KUBECTL").unwrap_or_else(|| "kubectl".into()))
}

/// Minor version of kubectl.
fn version() -> u32 {
    static VERSION: OnceLock<u32> = OnceLock::new();
    *VERSION.get_or_init(|| {
        let output = program()
            .args(["version", "--client", "-o", "json"])
            .output()
            .unwrap_or_else(|error| {
                panic!(
                    "these tests need kubectl ({error}): install it, for example Debian's package \
                     kubernetes-client, or set KUBECTL to its path"
                )
            });
        let text = String::from_utf8_lossy(&output.stdout);
        let (_, rest) = text.split_once("\"minor\": \"").unwrap();
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().unwrap()
    })
}

/// Flag for strict validation, if kubectl supports it.
pub fn strict() -> &'static str {
    if version() >= SERVER_VALIDATES {
        "--validate=strict"
    } else {
        "--validate=false"
    }
}

fn checked(words: &str, output: &Output) -> String {
    assert!(output.status.success(), "kubectl {words}\n{}", both(output));
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Stdout and stderr.
pub fn both(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

fn split(words: &str) -> Vec<String> {
    let mut out = Vec::new();
    let mut word = String::new();
    let mut quoted = false;
    for letter in words.chars() {
        match letter {
            '\'' => quoted = !quoted,
            ' ' if !quoted => out.extend(Some(std::mem::take(&mut word)).filter(|w| !w.is_empty())),
            letter => word.push(letter),
        }
    }
    out.extend(Some(word).filter(|word| !word.is_empty()));
    out
}
