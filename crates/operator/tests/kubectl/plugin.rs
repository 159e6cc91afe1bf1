//! The plugin as kubectl runs it, and docs/kubectl-plugin.md.

use std::{
    ffi::OsString,
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use tempfile::TempDir;

use crate::{
    kubectl::{Kubectl, both},
    process::{Sandbox, run},
};

const DOCUMENT: &str = "docs/kubectl-plugin.md";

/// A folder for the PATH with links to the program.
fn links() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for name in [
        "kubectl-machine",
        "kubectl-vitistack",
        "kubectl_complete-machine",
    ] {
        let program = env!("CARGO_BIN_EXE_kubevirt-operator");
        std::os::unix::fs::symlink(program, folder.path().join(name)).unwrap();
    }
    folder
}

fn path_with(folder: &Path) -> OsString {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(folder.to_owned()).chain(std::env::split_paths(&path));
    std::env::join_paths(folders).unwrap()
}

/// Runs a command with the sandbox's kubeconfig.
fn command(sandbox: &Sandbox, links: &TempDir, program: &Path, words: &[&str]) -> Output {
    Command::new(program)
        .args(words)
        .env("KUBECONFIG", sandbox.kubeconfig())
        .env("PATH", path_with(links.path()))
        .env_remove("KUBERNETES_SERVICE_HOST")
        .current_dir(crate::root())
        .output()
        .unwrap()
}

fn documented() -> Vec<String> {
    let document = fs::read_to_string(crate::root().join(DOCUMENT)).unwrap();
    let blocks = document.split("```sh\n").skip(1);
    let blocks = blocks.filter_map(|block| block.split("```").next());
    blocks.flat_map(str::lines).map(str::to_owned).collect()
}

#[test]
fn the_documented_commands_work_as_a_plugin_of_kubectl() {
    let sandbox = Sandbox::start(&["--speed", "instant"]);
    let links = links();
    let kubectl = Kubectl::of(&sandbox, "");
    let commands = documented();
    assert!(commands.len() > 15, "{commands:?}");
    for command in commands {
        let words = command.strip_prefix("kubectl ").unwrap();
        let output = kubectl
            .command(words)
            .env("PATH", path_with(links.path()))
            .output()
            .unwrap();
        // The Machine db, for which nothing is to boot, is a finding.
        let expected = if command.contains("doctor --all") {
            2
        } else {
            0
        };
        assert_eq!(
            output.status.code(),
            Some(expected),
            "{command}\n{}",
            both(&output)
        );
    }
    let listed = kubectl
        .command("machine list web")
        .env("PATH", path_with(links.path()))
        .output()
        .unwrap();
    assert!(both(&listed).contains("Running"), "{}", both(&listed));
}

#[test]
fn every_command_and_cause_is_documented() {
    let document = fs::read_to_string(crate::root().join(DOCUMENT)).unwrap();
    let help = run(&["machine", "--help"]);
    let help = String::from_utf8(help.stdout).unwrap();
    let (_, commands) = help.split_once("Commands:\n").unwrap();
    let commands = commands.split("\n\n").next().unwrap();
    let names = commands
        .lines()
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names: Vec<&str> = names
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert!(names.len() > 8, "{help}");
    for name in names.into_iter().filter(|name| *name != "help") {
        assert!(
            document.contains(&format!("kubectl machine {name}")),
            "{name}"
        );
    }
    let causes = fs::read_to_string(crate::root().join("crates/plan/src/diagnosis.rs")).unwrap();
    let (_, causes) = causes.split_once("pub enum Cause {").unwrap();
    let causes = causes.split("\n}").next().unwrap();
    let states = [
        "Reported", "Creating", "Starting", "Stopping", "Paused", "Stopped", "Running",
    ];
    let causes: Vec<&str> = causes
        .lines()
        .map(|line| line.trim().trim_end_matches(',').split('(').next().unwrap())
        .filter(|line| !line.is_empty() && !line.starts_with("//") && !states.contains(line))
        .collect();
    assert!(causes.len() > 20, "{causes:?}");
    for cause in causes {
        assert!(document.contains(&format!("`{cause}`")), "{cause}");
    }
}

#[test]
fn the_links_of_the_program_are_the_plugin_and_its_completion() {
    let sandbox = Sandbox::start(&["--speed", "instant"]);
    let links = links();
    let kubectl = Kubectl::of(&sandbox, "default");
    kubectl.ok("apply -f examples/machine-small.yaml");
    let link = |name: &str| links.path().join(name);
    for name in ["kubectl-machine", "kubectl-vitistack"] {
        let output = command(&sandbox, &links, &link(name), &["list", "-o", "name"]);
        assert_eq!(both(&output), "machine.vitistack.io/small\n");
        let wrong = command(&sandbox, &links, &link(name), &["list", "--nonsense"]);
        assert_eq!(wrong.status.code(), Some(64), "{}", both(&wrong));
        let usage = name.replace('-', " ");
        assert!(both(&wrong).contains(&usage), "{}", both(&wrong));
    }
    let complete = link("kubectl_complete-machine");
    let output = command(&sandbox, &links, &complete, &["stop", "sm"]);
    assert_eq!(both(&output), "small\n:4\n");
    let output = command(&sandbox, &links, &complete, &["-n", "other", "stop", "sm"]);
    assert_eq!(both(&output), ":4\n");
    let kubeconfig = sandbox.kubeconfig();
    let kubeconfig = kubeconfig.to_str().unwrap();
    let output = run(&[
        "machine",
        "--kubeconfig",
        kubeconfig,
        "list",
        "--context",
        "nonsense",
    ]);
    assert_eq!(output.status.code(), Some(1));
    assert!(both(&output).contains("nonsense"), "{}", both(&output));
}

/// Running command, killed when dropped.
struct Running(Child, BufReader<ChildStdout>);

impl Running {
    fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Self(child, out)
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.1.read_line(&mut line).unwrap();
        line
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A sandbox in which the Machine `web` runs.
fn with_guest() -> (Sandbox, Kubectl) {
    let sandbox = Sandbox::start(&["--speed", "instant"]);
    let kubectl = Kubectl::of(&sandbox, "default");
    kubectl.ok_with_input(
        r#"{"apiVersion": "vitistack.io/v1alpha1", "kind": "Machine", "metadata": {"name": "web"},
            "spec": {"template": "small"}}"#,
        "create -f -",
    );
    kubectl.ok("wait machine/web --for=condition=Ready --timeout=60s");
    (sandbox, kubectl)
}

fn plugin(sandbox: &Sandbox, args: &[&str]) -> Command {
    let mut command = crate::process::operator();
    command
        .args(["machine", "--kubeconfig"])
        .arg(sandbox.kubeconfig())
        .args(args);
    command
}

#[test]
fn ports_of_a_guest_are_forwarded() {
    let (sandbox, kubectl) = with_guest();
    let mut forward = Running::start(&mut plugin(&sandbox, &["port-forward", "web", ":7", ":22"]));
    let mut address = |port: &str| {
        let line = forward.line();
        let rest = line.strip_prefix("Forwarding from ").unwrap().trim_end();
        rest.strip_suffix(&format!(" -> {port}"))
            .unwrap()
            .to_owned()
    };
    let (echo, ssh) = (address("7"), address("22"));

    // Larger than all buffers on the way, so both directions are used at once.
    let sent: Vec<u8> = (0..3_000_000_u32).map(|at| at.to_be_bytes()[2]).collect();
    let stream = TcpStream::connect(&echo).unwrap();
    let mut writer = stream.try_clone().unwrap();
    let expected = sent.clone();
    let writing = std::thread::spawn(move || writer.write_all(&sent).unwrap());
    let mut received = vec![0; expected.len()];
    (&stream).read_exact(&mut received).unwrap();
    writing.join().unwrap();
    assert!(received == expected);

    let mut banner = String::new();
    let mut stream = BufReader::new(TcpStream::connect(&ssh).unwrap());
    stream.read_line(&mut banner).unwrap();
    assert_eq!(banner, "SSH-2.0-sandbox\r\n");
    stream.get_mut().write_all(b"SSH-2.0-test\r\n").unwrap();
    assert_eq!(stream.read_line(&mut banner).unwrap(), 0);

    // A new instance has new tunnels.
    let before = kubectl.value("vmi/web", ".metadata.uid");
    let restarted = plugin(&sandbox, &["restart", "web", "--wait"])
        .output()
        .unwrap();
    assert!(restarted.status.success(), "{}", both(&restarted));
    assert_ne!(kubectl.value("vmi/web", ".metadata.uid"), before);
    let mut stream = TcpStream::connect(&echo).unwrap();
    stream.write_all(b"again").unwrap();
    let mut again = [0; 5];
    stream.read_exact(&mut again).unwrap();
    assert_eq!(&again, b"again");
}

#[test]
fn a_port_that_cannot_be_reached_is_explained() {
    let (sandbox, _) = with_guest();
    for (args, words) in [
        (
            ["port-forward", "web", "80", "--stdio"],
            "connection refused",
        ),
        (
            ["port-forward", "none", "80", "--stdio"],
            "there is no Machine \"none\"",
        ),
    ] {
        let output = plugin(&sandbox, &args).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{}", both(&output));
        assert!(both(&output).contains(words), "{}", both(&output));
    }
    let paused = plugin(&sandbox, &["pause", "web", "--wait"])
        .output()
        .unwrap();
    assert!(paused.status.success(), "{}", both(&paused));
    let output = plugin(&sandbox, &["port-forward", "web", "22", "--stdio"])
        .output()
        .unwrap();
    assert!(both(&output).contains("VMI is paused"), "{}", both(&output));
    let wrong = plugin(&sandbox, &["port-forward", "web", "0"])
        .output()
        .unwrap();
    assert_eq!(wrong.status.code(), Some(64), "{}", both(&wrong));
}

/// Stands for ssh and scp: prints its arguments, connects with its ProxyCommand, and exits with 7.
const FAKE: &str = r#"#!/bin/sh
for word in "$@"; do
  echo "arg: $word"
  case $word in ProxyCommand=*) proxy=${word#ProxyCommand=} ;; esac
done
echo SSH-2.0-fake | sh -c "exec $proxy"
exit 7
"#;

#[test]
fn ssh_and_scp_are_the_local_programs_through_a_tunnel() {
    use std::os::unix::fs::PermissionsExt as _;
    let (sandbox, _) = with_guest();
    let folder = tempfile::Builder::new()
        .prefix("with space")
        .tempdir()
        .unwrap();
    for name in ["ssh", "scp"] {
        let path = folder.path().join(name);
        fs::write(&path, FAKE).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let kubeconfig = folder.path().join("kubeconfig");
    fs::copy(sandbox.kubeconfig(), &kubeconfig).unwrap();
    let ran = |args: &[&str]| {
        let mut command = crate::process::operator();
        let output = command
            .args(["machine", "--kubeconfig"])
            .arg(&kubeconfig)
            .args(args)
            .env("PATH", path_with(folder.path()))
            .output()
            .unwrap();
        (output.status.code(), both(&output))
    };
    let (code, printed) = ran(&["ssh", "debian@web", "--", "-v", "uptime"]);
    assert_eq!(code, Some(7), "{printed}");
    for words in [
        "arg: debian@web.default.machine\narg: -v\narg: uptime\n",
        "SSH-2.0-sandbox",
    ] {
        assert!(printed.contains(words), "{words} in {printed}");
    }
    let (code, printed) = ran(&["scp", "site.conf", "debian@web:/tmp/", "--", "-C"]);
    assert_eq!(code, Some(7), "{printed}");
    let words = "arg: -C\narg: site.conf\narg: debian@web.default.machine:/tmp/\n";
    assert!(printed.contains(words), "{printed}");
    assert!(printed.contains("SSH-2.0-sandbox"), "{printed}");
    let (code, printed) = ran(&["scp", "a", "b"]);
    assert_eq!(code, Some(1));
    assert!(printed.contains("name one Machine"), "{printed}");
}

/// A command on a pseudo terminal, which `script` of util-linux provides.
struct Terminal {
    child: Child,
    keys: ChildStdin,
    shown: Arc<Mutex<String>>,
}

impl Terminal {
    fn start(sandbox: &Sandbox, args: &str) -> Self {
        let command = format!(
            "{} machine --kubeconfig {} {args}",
            env!("CARGO_BIN_EXE_kubevirt-operator"),
            sandbox.kubeconfig().display()
        );
        let mut child = Command::new("script")
            .args(["-qec", &command, "/dev/null"])
            .env("TERM", "xterm")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let shown = Arc::new(Mutex::new(String::new()));
        let mut out = child.stdout.take().unwrap();
        let writer = Arc::clone(&shown);
        std::thread::spawn(move || {
            let mut buffer = [0; 1024];
            while let Ok(length @ 1..) = out.read(&mut buffer) {
                let text = String::from_utf8_lossy(&buffer[..length]);
                writer.lock().unwrap().push_str(&text);
            }
        });
        Self {
            keys: child.stdin.take().unwrap(),
            child,
            shown,
        }
    }

    /// Waits until the terminal shows a text, and forgets what is before its end.
    fn until(&self, text: &str) -> String {
        let start = Instant::now();
        loop {
            let mut shown = self.shown.lock().unwrap();
            if let Some(at) = shown.find(text) {
                let rest = shown.split_off(at + text.len());
                return std::mem::replace(&mut shown, rest);
            }
            assert!(
                start.elapsed() < Duration::from_secs(60),
                "{text:?} in {shown:?}"
            );
            drop(shown);
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn type_keys(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
        self.keys.flush().unwrap();
    }

    /// Exit code of the command.
    fn code(mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }
}

#[test]
fn a_console_is_a_terminal_of_the_guest() {
    let (sandbox, kubectl) = with_guest();
    let mut terminal = Terminal::start(&sandbox, "console web");
    terminal.until("The escape character is Ctrl-].");
    terminal.until("web login: ");
    terminal.type_keys("debian\r");
    terminal.until("Password: ");
    terminal.type_keys("hunter2\r");
    // The terminal is raw: the guest decides what is shown.
    let shown = terminal.until("debian@web:~$ ");
    assert!(!shown.contains("hunter2"), "{shown}");
    terminal.type_keys("hostname\r");
    assert!(terminal.until("debian@web:~$ ").contains("\r\nweb\r\n"));
    let address = kubectl.value("machine/web", ".status.ipAddresses[0]");
    terminal.type_keys("ip\r");
    let shown = terminal.until("debian@web:~$ ");
    assert!(!address.is_empty() && shown.contains(&address), "{shown}");
    // Ctrl-C is a key of the guest.
    terminal.type_keys("sleep\x03");
    terminal.until("debian@web:~$ ");

    // A reboot keeps the instance and the connection, a shutdown does not.
    let before = kubectl.value("vmi/web", ".metadata.uid");
    terminal.type_keys("reboot\r");
    terminal.until("web login: ");
    assert_eq!(kubectl.value("vmi/web", ".metadata.uid"), before);
    terminal.type_keys("debian\rx\r");
    terminal.until("debian@web:~$ ");
    terminal.type_keys("poweroff\r");
    terminal.until("Connection lost, reconnecting.");
    terminal.until("Connected again.");
    terminal.until("web login: ");
    assert_ne!(kubectl.value("vmi/web", ".metadata.uid"), before);
    terminal.type_keys("ignored\x1dalso");
    assert_eq!(terminal.code(), Some(0));
}

#[test]
fn a_console_ends_with_its_machine() {
    let (sandbox, _) = with_guest();
    let terminal = Terminal::start(&sandbox, "console web");
    terminal.until("web login: ");
    let stopped = plugin(&sandbox, &["stop", "web", "--wait"])
        .output()
        .unwrap();
    assert!(stopped.status.success(), "{}", both(&stopped));
    terminal.until("Machine web is stopped.");
    assert_eq!(terminal.code(), Some(0));
    let refused = plugin(&sandbox, &["console", "web"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        both(&refused).contains("cannot connect to the console of default/web"),
        "{}",
        both(&refused)
    );
}
