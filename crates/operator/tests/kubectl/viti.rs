//! Commands of docs/viti.md, on objects as the Go operator of the Viti stack leaves them.

use std::{
    env, fs,
    path::Path,
    process::{Command, Stdio},
};

use serde_json::{Value, json};

use crate::{kubectl::Kubectl, process::Sandbox};

fn deployment(namespace: &str, name: &str) -> Value {
    let labels = json!({ "app": name });
    let container = json!({ "name": "manager", "image": "example.com/manager" });
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": name, "namespace": namespace },
        "spec": {
            "selector": { "matchLabels": labels },
            "template": { "metadata": { "labels": labels }, "spec": { "containers": [container] } },
        },
    })
}

/// A claim and a VirtualMachine with it.
fn virtual_machine(name: &str, labels: &Value) -> [Value; 2] {
    let template = json!({
        "domain": {
            "cpu": { "cores": 1 }, "memory": { "guest": "1Gi" },
            "devices": {
                "disks": [{ "name": "disk-0", "disk": { "bus": "virtio" }, "bootOrder": 1 }],
                "interfaces": [{ "name": "default", "model": "virtio", "bridge": {} }],
            },
        },
        "networks": [{ "name": "default", "pod": {} }],
        "volumes": [{ "name": "disk-0", "persistentVolumeClaim": { "claimName": name } }],
    });
    [
        json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": { "name": name, "labels": labels },
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": { "requests": { "storage": "20Gi" } },
            },
        }),
        json!({
            "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine",
            "metadata": { "name": name, "labels": labels },
            "spec": {
                "runStrategy": "Always",
                "template": { "metadata": { "labels": labels }, "spec": template },
            },
        }),
    ]
}

/// Blocks of commands.
fn blocks() -> Vec<String> {
    let page = fs::read_to_string(crate::root().join("docs/viti.md")).unwrap();
    let (_, moving) = page
        .split_once("\n## Moving from the Go operator\n")
        .unwrap();
    let blocks = moving.split("```sh\n").skip(1);
    let blocks = blocks.map(|block| block.split("```").next().unwrap().to_owned());
    blocks.collect()
}

/// Runs a block in a shell that has the binary on its path.
fn run(block: &str, kubeconfig: &Path, folder: &Path) {
    let binary = Path::new(env!("CARGO_BIN_EXE_kubevirt-operator"));
    let path = env::var("PATH").unwrap_or_default();
    let path = format!("{}:{path}", binary.parent().unwrap().display());
    let output = Command::new("sh")
        .args(["-e", "-c", block])
        .envs([
            ("KUBECONFIG", kubeconfig.as_os_str()),
            ("PATH", path.as_ref()),
        ])
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let shown = crate::kubectl::both(&output);
    assert!(output.status.success(), "{block}\n{shown}");
}

#[test]
fn machines_of_the_go_operator_move_here_and_back_as_documented() {
    let sandbox = Sandbox::start(&["--speed", "instant"]);
    let kubectl = Kubectl::of(&sandbox, "default");
    let apply = |object: &Value| {
        kubectl.ok_with_input(&object.to_string(), "apply -f - --validate=false");
    };
    for namespace in ["vitistack", "kubevirt-operator-system"] {
        apply(&json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace },
        }));
    }
    for (namespace, name) in [
        ("vitistack", "kubevirt-operator"),
        (
            "kubevirt-operator-system",
            "kubevirt-operator-controller-manager",
        ),
    ] {
        let object = deployment(namespace, name).to_string();
        Kubectl::of(&sandbox, namespace).ok_with_input(&object, "apply -f - --validate=false");
    }
    let labels = json!({
        api::labels::MANAGED_BY: api::labels::MANAGER, api::labels::SOURCE_MACHINE: "node-0",
    });
    for object in virtual_machine("node-0", &labels)
        .iter()
        .chain(&virtual_machine("legacy", &json!({})))
    {
        apply(object);
    }
    apply(&json!({
        "apiVersion": "vitistack.io/v1alpha1", "kind": "Machine",
        "metadata": { "name": "node-0", "finalizers": [api::labels::FORMER_FINALIZER] },
        "spec": {
            "provider": "kubevirt", "instanceType": "small",
            "disks": [{ "name": "disk-0", "sizeGB": 20, "boot": true }],
        },
    }));
    for name in ["node-0", "legacy"] {
        kubectl.ok(&format!(
            "wait vmi/{name} --for=condition=Ready --timeout=120s"
        ));
    }
    let uids = || {
        let of = |object: &str| kubectl.value(object, ".metadata.uid");
        ["vmi/node-0", "vmi/legacy", "pvc/node-0", "pvc/legacy"].map(of)
    };
    let before = uids();
    let folder = tempfile::tempdir().unwrap();
    let blocks = blocks();
    assert!(blocks.len() >= 6, "{blocks:?}");
    for block in &blocks {
        run(block, &sandbox.kubeconfig(), folder.path());
    }
    assert_eq!(uids(), before);
}
