//! Commands `sandbox` and `simulate`.

use std::{net::TcpListener, process::Output};

use crate::{
    kubectl::{Kubectl, both},
    process::{Sandbox, run},
};

fn assert_refused(output: &Output, code: i32, words: &[&str]) {
    let printed = both(output);
    assert_eq!(output.status.code(), Some(code), "{printed}");
    for word in words {
        assert!(printed.contains(word), "{word} in {printed}");
    }
}

#[test]
fn a_signal_ends_the_sandbox_gracefully() {
    for signal in ["INT", "TERM"] {
        let sandbox = Sandbox::start(&[]);
        let kubeconfig = sandbox.kubeconfig();
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = std::fs::metadata(&kubeconfig).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
        // An open watch does not delay the shutdown.
        let mut watch = Kubectl::of(&sandbox, "default").follow("get nodes --watch");
        watch.until(&["node-1"]);
        let ended = sandbox.end(signal);
        assert_eq!(ended.status.code(), Some(0), "{signal}: {}", ended.err);
        assert_eq!(ended.err, "");
        assert!(!kubeconfig.exists());
        assert!(!ended.kubeconfig.exists());
    }
}

#[test]
fn changes_are_printed_as_plain_lines_without_a_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let machine = folder.path().join("machine.yaml");
    let rendered = run(&["render", "-f", "examples/machine-small.yaml"]);
    std::fs::write(&machine, rendered.stdout).unwrap();
    let apply = machine.to_str().unwrap();
    let mut sandbox = Sandbox::start(&["--speed", "instant", "--apply", apply]);
    let mut lines = Vec::new();
    while !lines
        .iter()
        .any(|line: &String| line.contains("VirtualMachine default/small Running"))
    {
        lines.push(sandbox.line());
    }
    assert!(lines.iter().all(|line| !line.contains('\x1b')), "{lines:?}");
    assert!(
        lines
            .iter()
            .any(|line| line.contains("VirtualMachineInstance default/small"))
    );
    assert_eq!(sandbox.end("TERM").status.code(), Some(0));
}

#[test]
fn the_sandbox_says_when_no_operator_reconciles_machines() {
    let invitation = "In another terminal, try:\n";
    let sandbox = Sandbox::start(&[]);
    assert!(sandbox.greeting.contains(invitation));
    let sandbox = Sandbox::start(&["--no-operator"]);
    let greeting = &sandbox.greeting;
    assert!(!greeting.contains(invitation), "{greeting}");
    let kubeconfig = sandbox.kubeconfig();
    let run = format!(
        "kubevirt-operator run --kubeconfig {} ",
        kubeconfig.display()
    );
    for printed in [
        "No operator reconciles Machines",
        "apply -f config/rbac\n",
        &run,
    ] {
        assert!(greeting.contains(printed), "{printed} in {greeting}");
    }
}

#[test]
fn documents_that_cannot_be_applied_are_reported_and_the_rest_is_applied() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let broken = file("broken.yaml", "a: [");
    let output = run(&["sandbox", "--apply", &broken]);
    assert_refused(&output, 2, &["broken.yaml"]);
    let output = run(&["sandbox", "--apply", "no/such/file.yaml"]);
    assert_refused(&output, 2, &["no/such/file.yaml"]);
    let mixed = file(
        "mixed.yaml",
        "apiVersion: example.org/v1\nkind: Nothing\nmetadata: {name: none}\n---\n\
         apiVersion: v1\nkind: ConfigMap\nmetadata: {name: some}\n",
    );
    let sandbox = Sandbox::start(&["--apply", &mixed]);
    Kubectl::of(&sandbox, "default").ok("get configmap some");
    let ended = sandbox.end("INT");
    assert_eq!(ended.status.code(), Some(1));
    assert!(
        ended.err.contains(
            "mixed.yaml:1: Nothing \"none\": no kind \"Nothing\" in \"example.org/v1\" is served"
        ),
        "{}",
        ended.err
    );
    let faults = file("faults.yaml", "- kind: Pod\n  fault: Nonsense\n");
    assert_refused(
        &run(&["sandbox", "--faults", &faults]),
        2,
        &["faults.yaml", "Nonsense"],
    );
}

#[test]
fn the_sandbox_listens_on_loopback_addresses_only() {
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    let kubeconfig = kubeconfig.to_str().unwrap();
    let start = |listen: &str| run(&["sandbox", "--kubeconfig", kubeconfig, "--listen", listen]);
    assert_refused(
        &start("0.0.0.0:0"),
        1,
        &["loopback addresses only", "0.0.0.0:0"],
    );
    assert_refused(&start("nonsense"), 64, &["--listen"]);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    assert_refused(&start(&address), 1, &[&address, "in use"]);
    assert!(!std::path::Path::new(kubeconfig).exists());
}

#[test]
fn a_foreign_kubeconfig_is_not_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config");
    std::fs::write(&path, "apiVersion: v1\n").unwrap();
    let output = run(&["sandbox", "--kubeconfig", path.to_str().unwrap()]);
    assert_refused(&output, 1, &[path.to_str().unwrap()]);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "apiVersion: v1\n");
}

#[test]
fn simulate_refuses_clusters_with_real_nodes() {
    let sandbox = Sandbox::start(&["--nodes", "1"]);
    let kubectl = Kubectl::of(&sandbox, "default");
    kubectl.ok_with_input(
        r#"{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "metal"}}"#,
        "create -f -",
    );
    let kubeconfig = sandbox.kubeconfig();
    let output = run(&["simulate", "--kubeconfig", kubeconfig.to_str().unwrap()]);
    assert_refused(
        &output,
        1,
        &["the cluster has node metal, which is not simulated"],
    );
    let output = run(&["simulate", "--kubeconfig", "no/such/kubeconfig"]);
    assert_refused(&output, 2, &["no/such/kubeconfig"]);
}
