//! Commands of docs/operations.md and of the runbooks.

use std::{fs, path::PathBuf};

use serde_json::{Value, json};

use crate::{kubectl::Kubectl, process::Sandbox};

/// Commands that need a running container, which the sandbox does not have.
const NEED_CONTAINERS: [&str; 2] = [" logs ", "/proxy/"];

/// Words of commands that need the kubeconfig of another cluster.
const NEED_A_KUBECONFIG: [&str; 2] = [" SECRET ", " --kubeconfig "];

/// Objects that the commands refer to: a Machine with a child of every kind, the operators as
/// Deployments with their Leases, the webhook's configuration, and the kinds of the Prometheus Operator.
fn surroundings() -> Vec<Value> {
    let image = json!({ "http": { "url": "https://example.com/image" } });
    let mut items = vec![
        json!({
            "apiVersion": "vitistack.io/v1alpha1", "kind": "NetworkConfiguration",
            "metadata": { "name": "frontend", "namespace": "default" },
            "spec": { "bridge": "br-trunk" },
        }),
        json!({
            "apiVersion": "vitistack.io/v1alpha1", "kind": "Machine",
            "metadata": { "name": "web", "namespace": "default" },
            "spec": {
                "template": "small",
                "disks": [{ "name": "root", "size": "20Gi", "source": image }],
                "networks": [{ "name": "front", "networkName": "frontend" }],
            },
        }),
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": { "name": "kubevirt-operator" },
        }),
    ];
    for (namespace, deployment, lease, label) in [
        (
            "kubevirt-operator-system",
            "kubevirt-operator-controller-manager",
            "kubevirt-operator",
            "app.kubernetes.io/name",
        ),
        ("kubevirt", "virt-operator", "virt-operator", "kubevirt.io"),
    ] {
        let labels = json!({ label: lease });
        let container = json!({ "name": "manager", "image": "example.com/manager" });
        items.push(json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": { "name": deployment, "namespace": namespace },
            "spec": {
                "selector": { "matchLabels": labels },
                "template": {
                    "metadata": { "labels": labels }, "spec": { "containers": [container] },
                },
            },
        }));
        items.push(json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": { "name": lease, "namespace": namespace },
        }));
    }
    for kind in ["ServiceMonitor", "PodMonitor", "PrometheusRule"] {
        let group = "monitoring.coreos.com";
        let plural = format!("{}s", kind.to_lowercase());
        let schema = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
        let version = json!({
            "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema },
        });
        items.push(json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": { "name": format!("{plural}.{group}") },
            "spec": {
                "group": group, "scope": "Namespaced", "versions": [version],
                "names": { "kind": kind, "plural": plural },
            },
        }));
    }
    items
}

/// Pages with their commands.
fn pages() -> Vec<(PathBuf, Vec<String>)> {
    let docs = crate::root().join("docs");
    let runbooks = fs::read_dir(docs.join("runbooks")).unwrap();
    let mut files: Vec<_> = runbooks.map(|page| page.unwrap().path()).collect();
    files.sort();
    files.insert(0, docs.join("operations.md"));
    let commands = |file: &PathBuf| {
        let page = fs::read_to_string(file).unwrap();
        let blocks = page.split("```sh\n").skip(1);
        let lines = blocks.flat_map(|block| block.split("```").next().unwrap().lines());
        lines
            .filter_map(|line| line.strip_prefix("kubectl "))
            .filter_map(|command| command.split(" | ").next())
            .map(str::to_owned)
            .collect()
    };
    let pages = files.into_iter().map(|file| {
        let commands = commands(&file);
        (file, commands)
    });
    pages.collect()
}

/// Splits a command that selects several kinds by a label into one per kind: otherwise a kind without
/// that label would go unnoticed.
fn per_kind(command: &str) -> Vec<String> {
    let words: Vec<_> = command.split(' ').collect();
    let verb = words.iter().position(|it| ["get", "describe"].contains(it));
    let (Some(verb), true) = (verb, words.contains(&"-l")) else {
        return Vec::new();
    };
    let kinds = words[verb + 1].split(',');
    let (before, after) = (words[..verb].join(" "), words[verb + 2..].join(" "));
    kinds
        .map(|kind| format!("{before} get {kind} {after}"))
        .collect()
}

#[test]
fn commands_of_operations_and_runbooks_work() {
    let sandbox = Sandbox::start(&["--speed", "instant", "--with-kubevirt", "--clusters", "2"]);
    let kubectl = Kubectl::of(&sandbox, "default");
    for object in surroundings() {
        let namespace = object["metadata"]["namespace"].as_str();
        let there = Kubectl::of(&sandbox, namespace.unwrap_or("default"));
        there.ok_with_input(&object.to_string(), "apply -f - --validate=false");
    }
    // Without a default namespace, as the files name theirs.
    Kubectl::of(&sandbox, "").ok("apply -f config/rbac/ --validate=false");
    kubectl.ok("wait machine/web --for=condition=Ready --timeout=120s");
    for (file, commands) in pages() {
        for command in commands {
            if NEED_CONTAINERS
                .iter()
                .chain(&NEED_A_KUBECONFIG)
                .any(|words| format!(" {command}").contains(words))
            {
                continue;
            }
            let name = if command.contains(" kubevirtconfig ") {
                "cluster-2"
            } else {
                "web"
            };
            let typed = command
                .replace("NAMESPACE", "default")
                .replace("NAME", name);
            let output = kubectl.run(&typed);
            let printed = crate::kubectl::both(&output);
            assert!(
                output.status.success(),
                "{}: {typed}\n{printed}",
                file.display()
            );
            // `no` means a missing right, and config/rbac grants them all.
            if typed.starts_with("auth can-i ") && !typed.contains(" --list") {
                assert_eq!(printed, "yes\n", "{}: {typed}", file.display());
            }
            for selected in per_kind(&typed) {
                // The last `-o` takes precedence.
                let found = kubectl.ok(&format!("{selected} -o name"));
                assert_ne!(found, "", "{}:{selected}", file.display());
            }
        }
    }
}

#[test]
fn the_documented_backup_and_restore_commands_work() {
    let sandbox = Sandbox::start(&["--speed", "instant"]);
    let kubectl = Kubectl::of(&sandbox, "default");
    kubectl.ok("apply -f examples/machine-networks.yaml");
    kubectl.ok("wait machine/firewall --for=condition=Ready --timeout=60s");
    let (_, commands) = pages().into_iter().next().unwrap();
    let mut commands = commands.iter();
    let keep = commands.find(|command| command.ends_with(" -A -o yaml"));
    // The last `-o` takes precedence.
    let kept = kubectl.ok(&format!("{} -o json", keep.unwrap()));
    kubectl.ok("delete machine,networkconfiguration --all");

    let mut list: Value = serde_json::from_str(&kept).unwrap();
    assert_eq!(list["kind"], "List");
    for item in list["items"].as_array_mut().unwrap() {
        item.as_object_mut().unwrap().remove("status");
        let metadata = item["metadata"].as_object_mut().unwrap();
        for field in ["finalizers", "uid", "resourceVersion"] {
            metadata.remove(field);
        }
    }
    let file = kubectl.file("kept.json", &list.to_string());
    let printed = kubectl.ok(&format!("apply -f {file}"));
    assert!(
        printed.contains("machine.vitistack.io/firewall created\n"),
        "{printed}"
    );
    kubectl.ok("wait machine/firewall --for=condition=Ready --timeout=60s");
}
