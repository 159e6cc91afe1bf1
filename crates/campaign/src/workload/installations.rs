//! Random changes of a KubeVirt resource, and interference with its installation.

use serde_json::{Value, json};

use super::{Dice, create, delete, patch};
use crate::{
    cluster::REGISTRY,
    decision::{Action, Decision, Effect, Propagation},
};

/// Foreign objects in the namespace of the installation.
pub fn seed_objects() -> Vec<Action> {
    vec![
        Action::Create {
            kind: "ConfigMap",
            object: json!({ "metadata": { "name": "theirs" }, "data": { "key": "value" } }),
        },
        Action::Create {
            kind: "Secret",
            object: json!({ "metadata": { "name": "theirs" }, "stringData": { "key": "value" } }),
        },
        Action::Create {
            kind: "ServiceAccount",
            object: json!({ "metadata": { "name": "theirs" } }),
        },
    ]
}

fn spec(version: &str) -> Value {
    json!({ "imageTag": version, "imageRegistry": REGISTRY })
}

/// Merge patch of one part of the spec.
fn change(dice: &mut Dice) -> Value {
    match dice.below(6) {
        0..=2 => json!({ "imageTag": dice.pick(&["v1.8.4", "v1.9.0"]) }),
        3 => json!({ "infra": dice.maybe(json!({ "replicas": 1 })) }),
        4 => {
            let gates = json!({ "developerConfiguration": { "featureGates": ["Snapshot"] } });
            json!({ "configuration": dice.maybe(gates) })
        }
        _ => json!({ "imagePullPolicy": dice.pick(&["Always", "IfNotPresent"]) }),
    }
}

fn object(dice: &mut Dice) -> (&'static str, &'static str) {
    *dice.pick(&[
        ("Deployment", "virt-api"),
        ("Deployment", "virt-controller"),
        ("DaemonSet", "virt-handler"),
        ("Service", "virt-api"),
        ("Secret", "kubevirt-virt-api-certs"),
        ("Secret", "kubevirt-ca"),
        ("ServiceAccount", "kubevirt-controller"),
        ("CustomResourceDefinition", "virtualmachines.kubevirt.io"),
        ("ClusterRole", "kubevirt-controller"),
        ("ValidatingWebhookConfiguration", "virt-api-validator"),
    ])
}

fn hostile(dice: &mut Dice) -> Action {
    let (kind, name) = object(dice);
    match dice.below(5) {
        // Deleting a definition deletes all its objects, which is the user's decision.
        0 | 1 if kind != "CustomResourceDefinition" => delete(kind, name, Propagation::Background),
        2 => patch(
            kind,
            name,
            json!({ "metadata": { "labels": { "app.kubernetes.io/managed-by": null } } }),
        ),
        3 => patch(
            "Deployment",
            "virt-api",
            json!({ "spec": { "replicas": 0 } }),
        ),
        _ => patch(
            kind,
            name,
            json!({ "metadata": { "annotations": { "kubevirt.io/generation": null } } }),
        ),
    }
}

fn failing(dice: &mut Dice) -> Action {
    let (kind, name, word) = *dice.pick(&[
        ("DaemonSet", "virt-handler", "CrashLoopBackOff*2"),
        ("Deployment", "virt-api", "ImagePullBackOff"),
        ("Deployment", "virt-controller", "NeverReady"),
        ("Node", "node-1", "NotReady"),
    ]);
    let annotations = json!({ sandbox::faults::ANNOTATION: word });
    patch(
        kind,
        name,
        json!({ "metadata": { "annotations": annotations } }),
    )
}

/// Creation, changes and deletion of an installation.
pub fn decisions(dice: &mut Dice) -> Vec<Decision> {
    let version = dice.pick(&["v1.8.4", "v1.9.0"]);
    let mut decisions = vec![Decision::at(
        20,
        create("KubeVirt", "kubevirt", spec(version)),
    )];
    for _ in 0..=dice.below(5) {
        let effect = Effect::Action(match dice.below(8) {
            0..=2 => patch("KubeVirt", "kubevirt", json!({ "spec": change(dice) })),
            3..=5 => hostile(dice),
            6 => failing(dice),
            _ => delete("KubeVirt", "kubevirt", Propagation::Background),
        });
        let trigger = dice.trigger(&effect, 600, 500);
        decisions.push(Decision { trigger, effect });
    }
    if dice.once_in(3) {
        let action = delete("KubeVirt", "kubevirt", Propagation::Background);
        decisions.push(Decision::at(600, action));
    }
    decisions
}
