//! Temporary webhook that refuses objects of new kinds until the new virt-api validates them.
//!
//! The webhook has no server, so the API server refuses all objects that match it. The operator
//! creates it before the definitions and deletes it once virt-api has rolled out.

use std::collections::BTreeSet;

use api::kubevirt::install;
use serde_json::{Value, json};

use super::{Stage, StageContext, StageOutcome, is_definition};
use crate::kubevirt::{
    compare::ComparisonCache,
    object::{Live, Object},
};

/// Prefix of the webhook's name, as in KubeVirt's virt-operator.
const PREFIX: &str = "virt-operator-tmp-webhook";

/// A Service that does not exist: its name is part of the error that users get.
const SERVICE: &str = "held-back-until-virt-api-is-up";

pub(super) fn is_temporary_webhook(live: &Live) -> bool {
    live.id.is(
        "admissionregistration.k8s.io",
        "ValidatingWebhookConfiguration",
    ) && live.id.name.starts_with(PREFIX)
        && live.is_managed()
}

pub(super) fn evaluate(
    context: &StageContext<'_>,
    comparisons: &mut ComparisonCache,
    outcome: &mut StageOutcome,
) {
    let webhooks = context
        .observed
        .objects
        .values()
        .filter(|live| is_temporary_webhook(live));
    if context.has_stage_rolled_out(Stage::Api) {
        for live in webhooks.filter(|live| !live.deleting) {
            context.delete(live, "virt-api validates the new kinds now", outcome);
        }
        return;
    }
    let mut blocked: BTreeSet<String> = webhooks.flat_map(blocked_by).collect();
    let before = blocked.len();
    let new = context
        .wanted
        .iter()
        .filter(|object| is_definition(&object.id) && context.live(&object.id).is_none());
    blocked.extend(new.map(|object| object.id.name.to_string()));
    if blocked.len() > before
        && let Ok(webhook) = webhook(context, &blocked)
    {
        context.ensure(&webhook, comparisons, outcome);
    }
}

/// The definitions whose objects a webhook refuses.
fn blocked_by(live: &Live) -> Vec<String> {
    let value = live.value();
    let webhooks = value.get("webhooks").and_then(Value::as_array);
    let names = webhooks.into_iter().flatten().filter_map(|webhook| {
        let name = webhook.get("name").and_then(Value::as_str)?;
        Some(name.strip_suffix(SUFFIX)?.to_owned())
    });
    names.collect()
}

const SUFFIX: &str = "-tmp-validator";

fn webhook(
    context: &StageContext<'_>,
    blocked: &BTreeSet<String>,
) -> Result<Object, crate::kubevirt::Unnamed> {
    let namespace = &context.observed.operator.namespace;
    let webhooks = blocked.iter().filter_map(|definition| {
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
                install::STRATEGY_VERSION: context.target.version,
                install::STRATEGY_REGISTRY: context.target.registry,
                install::STRATEGY_IDENTIFIER: context.target.id,
            },
        },
        "webhooks": webhooks,
    }))
}
