//! Which deployment is aimed at: the one that the resource asks for, or the last one that worked.
//!
//! What was given up is noted on the resource, so that it is not tried again before the resource
//! asks for something else.

use std::collections::BTreeMap;

use api::kubevirt::install::{self, KubeVirt};

use serde_json::Value;

use super::{
    action::{Action, Step},
    stages::Outcome,
    target::Target,
};
use crate::{Event, machine::switches::ignored};

/// A deployment: what a version, a registry and the settings that change objects make together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Aim {
    pub(super) version: String,
    pub(super) registry: String,
    /// A digest of everything that it depends on.
    pub(super) id: String,
    /// Everything that it depends on.
    pub(super) config: String,
    /// The version that was given up for this one.
    pub(super) instead_of: Option<String>,
}

impl From<&Target> for Aim {
    fn from(target: &Target) -> Self {
        Self {
            version: target.version.clone(),
            registry: target.registry.clone(),
            id: target.id.clone(),
            config: target.config.clone(),
            instead_of: None,
        }
    }
}

impl Aim {
    /// It with everything that is known of how to get its strategy. `asked` is what the resource
    /// asks for now.
    pub(super) fn target(&self, asked: &Target) -> Target {
        if self.id == asked.id {
            return asked.clone();
        }
        let config: Value = serde_json::from_str(&self.config).unwrap_or_default();
        let image = config.get("virtOperatorImage").and_then(Value::as_str);
        let image = image.filter(|image| !image.is_empty()).map(str::to_owned);
        let conventional = || {
            format!(
                "{}/{}virt-operator:{}",
                self.registry, asked.prefix, self.version
            )
        };
        Target {
            version: self.version.clone(),
            registry: self.registry.clone(),
            id: self.id.clone(),
            config: self.config.clone(),
            image: image.unwrap_or_else(conventional),
            ..asked.clone()
        }
    }

    /// Whether an object with these annotations is of this deployment.
    pub(super) fn is_of(&self, annotations: &BTreeMap<String, String>) -> bool {
        let is = |name: &str, value: &str| annotations.get(name).map(String::as_str) == Some(value);
        is(install::STRATEGY_VERSION, &self.version)
            && is(install::STRATEGY_REGISTRY, &self.registry)
            && is(install::STRATEGY_IDENTIFIER, &self.id)
    }
}

/// The last deployment that worked.
pub(super) fn last_good(kubevirt: &KubeVirt) -> Option<Aim> {
    let status = kubevirt.status.as_ref()?;
    Some(Aim {
        version: status.observed_kube_virt_version.clone()?,
        registry: status.observed_kube_virt_registry.clone()?,
        id: status.observed_deployment_id.clone()?,
        config: status
            .observed_deployment_config
            .clone()
            .unwrap_or_default(),
        instead_of: None,
    })
}

/// What is aimed at when the resource asks for `asked`.
pub(super) fn aim(kubevirt: &KubeVirt, asked: Aim) -> Aim {
    let given_up = annotation(kubevirt, install::GIVEN_UP);
    if given_up != Some(&*asked.id) {
        return asked;
    }
    match last_good(kubevirt).filter(|good| good.id != asked.id) {
        Some(good) => Aim {
            instead_of: Some(asked.version),
            ..good
        },
        None => asked,
    }
}

/// Notes on the resource what is asked for, and takes back what is not asked for any more.
pub(super) fn annotate(kubevirt: &KubeVirt, asked: &Aim, outcome: &mut Outcome) {
    let given_up = annotation(kubevirt, install::GIVEN_UP);
    if annotation(kubevirt, install::ROLLBACK) == Some("true") {
        let asked_for = (install::ROLLBACK, None);
        let good = last_good(kubevirt).filter(|good| good.id != asked.id);
        let step = match good {
            Some(good) => Step {
                action: Action::Annotate(vec![
                    (install::GIVEN_UP, Some(asked.id.clone())),
                    asked_for,
                ]),
                reason: format!("to go back to version {} was asked for", good.version),
                event: Some(Event::normal(
                    "RollbackStarted",
                    format!(
                        "Going back from version {} to version {}, as asked for",
                        asked.version, good.version
                    ),
                )),
            },
            None => Step {
                action: Action::Annotate(vec![asked_for]),
                reason: "there is no other version to go back to".to_owned(),
                event: Some(Event::warning(
                    "NothingToRollBackTo",
                    "No update is under way, so there is no version to go back to: set \
                     spec.imageTag to the version that is wanted",
                )),
            },
        };
        outcome.steps.push(step);
    } else if let Some(value) = annotation(kubevirt, install::ROLLBACK)
        .filter(|value| !value.is_empty() && *value != "false")
    {
        outcome.steps.push(Step {
            action: Action::Annotate(vec![(install::ROLLBACK, None)]),
            reason: format!("the value of {} has no effect", install::ROLLBACK),
            event: Some(Event::warning(
                "AnnotationIgnored",
                format!(
                    "metadata.annotations[{}]: {}",
                    install::ROLLBACK,
                    ignored(value)
                ),
            )),
        });
    } else if given_up.is_some_and(|id| id != asked.id) {
        let action = Action::Annotate(vec![(install::GIVEN_UP, None)]);
        outcome.step(action, "the resource asks for another deployment now");
    }
}

/// Gives an update up that has failed, if that is the policy.
pub(super) fn give_up(kubevirt: &KubeVirt, aim: &Aim, cause: &str) -> Option<Step> {
    let policy = annotation(kubevirt, install::ROLLBACK_POLICY);
    let good = last_good(kubevirt).filter(|good| good.id != aim.id)?;
    (policy == Some("OnFailure") && aim.instead_of.is_none()).then(|| Step {
        action: Action::Annotate(vec![(install::GIVEN_UP, Some(aim.id.clone()))]),
        reason: format!(
            "the update failed, and the policy is to go back to version {}",
            good.version
        ),
        event: Some(Event::warning(
            "RollbackStarted",
            format!(
                "Going back from version {} to version {}: {cause}",
                aim.version, good.version
            ),
        )),
    })
}

/// The settings of the resource whose value has no effect.
pub(super) fn ignored_settings(kubevirt: &KubeVirt) -> Vec<String> {
    let is_off = |value: &str| matches!(value, "" | "false");
    let prune = annotation(kubevirt, install::PRUNE_DEFINITIONS)
        .filter(|value| *value != "true" && !is_off(value))
        .map(|value| (install::PRUNE_DEFINITIONS, ignored(value)));
    let policy = annotation(kubevirt, install::ROLLBACK_POLICY)
        .filter(|value| *value != "OnFailure" && !is_off(value))
        .map(|_| {
            let message = "its value is ignored: it must be OnFailure to have an effect";
            (install::ROLLBACK_POLICY, message.to_owned())
        });
    let ignored = prune.into_iter().chain(policy);
    ignored
        .map(|(name, message)| format!("metadata.annotations[{name}]: {message}"))
        .collect()
}

fn annotation<'a>(kubevirt: &'a KubeVirt, name: &str) -> Option<&'a str> {
    let annotations = kubevirt.metadata.annotations.as_ref()?;
    annotations.get(name).map(String::as_str)
}
