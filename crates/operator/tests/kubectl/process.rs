//! `kubevirt-operator sandbox` as a process.

use std::{
    io::{BufRead as _, BufReader, Read as _},
    path::PathBuf,
    process::{Child, ChildStdout, Command, ExitStatus, Output, Stdio},
    sync::OnceLock,
};

use tempfile::TempDir;

/// The binary, run in the root of the repository.
pub fn operator() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubevirt-operator"));
    command.current_dir(crate::root()).stdin(Stdio::null());
    command
}

/// Runs the binary to its end.
pub fn run(args: &[&str]) -> Output {
    operator().args(args).output().unwrap()
}

/// Running sandbox, killed when dropped.
pub struct Sandbox {
    child: Child,
    out: BufReader<ChildStdout>,
    /// Output before it was ready.
    pub greeting: String,
    folder: TempDir,
}

/// Result of a sandbox that has ended.
pub struct Ended {
    pub status: ExitStatus,
    pub err: String,
    pub kubeconfig: PathBuf,
    _folder: TempDir,
}

impl Sandbox {
    /// Starts a sandbox and waits until it is ready.
    pub fn start(args: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut command = operator();
        command
            .args(["sandbox", "--kubeconfig"])
            .arg(folder.path().join("kubeconfig"))
            .args(args);
        Self::of(&mut command, folder)
    }

    fn of(command: &mut Command, folder: TempDir) -> Self {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut sandbox = Self {
            out: BufReader::new(child.stdout.take().unwrap()),
            child,
            greeting: String::new(),
            folder,
        };
        while !sandbox.greeting.contains("Ctrl-C ends it") {
            let line = sandbox.line();
            sandbox.greeting.push_str(&line);
        }
        sandbox
    }

    /// Next line of its output.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        if self.out.read_line(&mut line).unwrap() == 0 {
            let mut err = String::new();
            let stderr = self.child.stderr.as_mut().unwrap();
            stderr.read_to_string(&mut err).unwrap();
            panic!("the sandbox has ended: {err}");
        }
        line
    }

    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }

    /// Sends a signal, such as `INT`, and waits for the exit.
    pub fn end(mut self, signal: &str) -> Ended {
        send(signal, &self.child);
        let (mut out, mut err) = (String::new(), String::new());
        self.out.read_to_string(&mut out).unwrap();
        let stderr = self.child.stderr.as_mut().unwrap();
        stderr.read_to_string(&mut err).unwrap();
        let status = self.child.wait().unwrap();
        let kubeconfig = self.kubeconfig();
        let folder = std::mem::replace(&mut self.folder, tempfile::tempdir().unwrap());
        Ended {
            status,
            err,
            kubeconfig,
            _folder: folder,
        }
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        // Fails if the process has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a signal, such as `TERM`.
pub fn send(signal: &str, child: &Child) {
    let sent = Command::new("kill")
        .args([&format!("-{signal}"), &child.id().to_string()])
        .status()
        .unwrap();
    assert!(sent.success());
}

/// Sandbox that tests share.
pub fn shared() -> &'static Sandbox {
    static SHARED: OnceLock<Sandbox> = OnceLock::new();
    SHARED.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        // Statics are not dropped at the end of a test run: the shell notices the end of its input, then
        // ends the sandbox and removes the folder.
        command
            .current_dir(crate::root())
            .arg("-c")
            .arg(
                r#""$1" sandbox --kubeconfig "$2/kubeconfig" --speed instant & read -r _
                kill $!; wait $!; rm -rf "$2""#,
            )
            .arg("sh")
            .arg(env!("CARGO_BIN_EXE_kubevirt-operator"))
            .arg(folder.path())
            .stdin(Stdio::piped());
        Sandbox::of(&mut command, folder)
    })
}
