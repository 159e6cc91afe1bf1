//! Nobody makes objects of new kinds before the virt-api of the new version checks them.
//!
//! Until then a webhook that nobody answers refuses them. It is made before the definitions are, and
//! goes once virt-api has rolled over.

use std::collections::BTreeSet;

use api::kubevirt::install;
use serde_json::{Value, json};

use super::{Outcome, Scene, Stage, is_definition};
use crate::kubevirt::object::{Live, Object};

/// How the webhook's name begins, as KubeVirt's own operator has it.
const PREFIX: &str = "virt-operator-tmp-webhook";

/// There is no such Service; its name is what people read when they are refused.
const SERVICE: &str = "held-back-until-virt-api-is-up";

pub(super) fn is_ours(live: &Live) -> bool {
    live.id.is(
        "admissionregistration.k8s.io",
        "ValidatingWebhookConfiguration",
    ) && live.id.name.starts_with(PREFIX)
        && live.is_managed()
}

pub(super) fn look(scene: &Scene<'_>, outcome: &mut Outcome) {
    let webhooks = scene.observed.objects.values().filter(|live| is_ours(live));
    if scene.has_rolled_over(Stage::Api) {
        for live in webhooks.filter(|live| !live.deleting) {
            scene.delete(live, "virt-api checks new kinds itself now", outcome);
        }
        return;
    }
    let mut held: BTreeSet<String> = webhooks.flat_map(held_by).collect();
    let before = held.len();
    let new = scene
        .wanted
        .iter()
        .filter(|object| is_definition(&object.id) && scene.live(&object.id).is_none());
    held.extend(new.map(|object| object.id.name.to_string()));
    if held.len() > before
        && let Ok(webhook) = webhook(scene, &held)
    {
        scene.put(&webhook, outcome);
    }
}

/// The definitions that a webhook holds back.
fn held_by(live: &Live) -> Vec<String> {
    let value = live.value();
    let webhooks = value.get("webhooks").and_then(Value::as_array);
    let names = webhooks.into_iter().flatten().filter_map(|webhook| {
        let name = webhook.get("name").and_then(Value::as_str)?;
        Some(name.strip_suffix(SUFFIX)?.to_owned())
    });
    names.collect()
}

const SUFFIX: &str = "-tmp-validator";

fn webhook(scene: &Scene<'_>, held: &BTreeSet<String>) -> Result<Object, crate::kubevirt::Unnamed> {
    let namespace = &scene.observed.operator.namespace;
    let webhooks = held.iter().filter_map(|definition| {
        let (plural, group) = definition.split_once('.')?;
        Some(json!({
            "name": format!("{definition}{SUFFIX}"),
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "failurePolicy": "Fail",
            "rules": [{
                "operations": ["CREATE"], "apiGroups": [group], "apiVersions": ["*"],
                "resources": [plural],
            }],
            "clientConfig": {"service": {
                "namespace": namespace, "name": SERVICE, "path": format!("/{definition}"),
            }},
        }))
    });
    let webhooks: Vec<Value> = webhooks.collect();
    Object::new(&json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {
            "name": PREFIX,
            "labels": {install::MANAGED_BY: install::MANAGER},
            "annotations": {
                install::STRATEGY_VERSION: scene.aim.version,
                install::STRATEGY_REGISTRY: scene.aim.registry,
                install::STRATEGY_IDENTIFIER: scene.aim.id,
            },
        },
        "webhooks": webhooks,
    }))
}
