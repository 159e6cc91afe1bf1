//! kubectl, as the tests call it.

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
    /// For caches, and files that tests write.
    folder: TempDir,
    namespace: String,
}

impl Kubectl {
    /// For a test, in a new namespace of the shared sandbox.
    pub fn new(namespace: &str) -> Self {
        let kubectl = Self::of(shared(), namespace);
        kubectl.ok(&format!("create namespace {namespace}"));
        // What every namespace has is made by a controller.
        kubectl
            .follow("get configmaps --watch -o name")
            .until(&["kube-root-ca.crt"]);
        kubectl
    }

    /// For a namespace of any sandbox; without a name, for whatever documents say.
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

    /// Writes a file for `-f`, and gives its path.
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

    /// Runs a command that must succeed, and gives its output.
    pub fn ok(&self, words: &str) -> String {
        checked(words, &self.run(words))
    }

    /// The same, with what is given on standard input.
    pub fn given(&self, input: &str, words: &str) -> String {
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

    /// Runs a command that must fail, and gives what it says.
    pub fn fails(&self, words: &str) -> String {
        let output = self.run(words);
        let text = both(&output);
        assert!(!output.status.success(), "kubectl {words}\n{text}");
        text
    }

    /// Waits until these objects are gone.
    pub fn gone(&self, objects: &str) {
        let output = self.run(&format!("wait {objects} --for=delete --timeout=60s"));
        // Older kubectls mind that there is nothing to wait for.
        let said = both(&output);
        let is_gone = output.status.success() || said.contains("no matching resources found");
        assert!(is_gone, "{objects}: {said}");
    }

    /// One value of an object.
    pub fn value(&self, object: &str, path: &str) -> String {
        self.ok(&format!("get {object} -o jsonpath='{{{path}}}'"))
    }

    /// Starts a command that goes on until it is dropped, or for as long as anything may take.
    pub fn follow(&self, words: &str) -> Followed {
        let mut child = self
            .command(&format!("{words} --request-timeout=90s"))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Followed {
            out: BufReader::new(child.stdout.take().unwrap()),
            child,
        }
    }
}

/// A command that goes on, read line by line.
pub struct Followed {
    child: Child,
    out: BufReader<ChildStdout>,
}

impl Followed {
    /// Reads on to the first line that has all these words.
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

impl Drop for Followed {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// From this version on, kubectl lets the server validate. Older ones do it themselves, by a document
/// (OpenAPI v2) that describes nothing in the sandbox.
const SERVER_VALIDATES: u32 = 27;

/// Whether kubectl is too old for a test, which is printed. With `CI` set that is a failure: no check is
/// left out there without notice.
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

/// kubectl's own minor version.
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

/// What makes kubectl have fields validated, if it can: older ones know other ways only.
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

/// Standard output and error.
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
