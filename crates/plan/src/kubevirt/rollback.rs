//! Choice of the rollout target: the deployment that the resource requests, or the last one that was
//! deployed.
//!
//! An annotation of the resource records a target that was given up, so that it is not retried until
//! the resource requests another one.

use std::collections::BTreeMap;

use api::kubevirt::install::{self, KubeVirt};

use serde_json::Value;

use super::{
    action::{Action, Step},
    stages::StageOutcome,
    target::Target,
};
use crate::{Event, machine::switches::ignored};

/// Identity of a deployment: version, registry and the settings that its objects depend on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RolloutTarget {
    pub(super) version: String,
    pub(super) registry: String,
    /// Deployment ID: digest of `config`.
    pub(super) id: String,
    /// Everything that the objects depend on, as JSON.
    pub(super) config: String,
    /// In a rollback, the version that was given up.
    pub(super) given_up_version: Option<String>,
}

impl From<&Target> for RolloutTarget {
    fn from(target: &Target) -> Self {
        Self {
            version: target.version.clone(),
            registry: target.registry.clone(),
            id: target.id.clone(),
            config: target.config.clone(),
            given_up_version: None,
        }
    }
}

impl RolloutTarget {
    /// The full target, for the Job that writes its install strategy. Settings that the deployment
    /// does not record are those of `requested`.
    pub(super) fn resolve(&self, requested: &Target) -> Target {
        if self.id == requested.id {
            return requested.clone();
        }
        let config: Value = serde_json::from_str(&self.config).unwrap_or_default();
        let image = config.get("virtOperatorImage").and_then(Value::as_str);
        let image = image.filter(|image| !image.is_empty()).map(str::to_owned);
        let conventional = || {
            format!(
                "{}/{}virt-operator:{}",
                self.registry, requested.prefix, self.version
            )
        };
        Target {
            version: self.version.clone(),
            registry: self.registry.clone(),
            id: self.id.clone(),
            config: self.config.clone(),
            image: image.unwrap_or_else(conventional),
            ..requested.clone()
        }
    }

    /// Whether an object with these annotations belongs to this deployment.
    pub(super) fn is_of(&self, annotations: &BTreeMap<String, String>) -> bool {
        let is = |name: &str, value: &str| annotations.get(name).map(String::as_str) == Some(value);
        is(install::STRATEGY_VERSION, &self.version)
            && is(install::STRATEGY_REGISTRY, &self.registry)
            && is(install::STRATEGY_IDENTIFIER, &self.id)
    }
}

/// The deployment that was last complete.
pub(super) fn last_deployed(kubevirt: &KubeVirt) -> Option<RolloutTarget> {
    let status = kubevirt.status.as_ref()?;
    Some(RolloutTarget {
        version: status.observed_kube_virt_version.clone()?,
        registry: status.observed_kube_virt_registry.clone()?,
        id: status.observed_deployment_id.clone()?,
        config: status
            .observed_deployment_config
            .clone()
            .unwrap_or_default(),
        given_up_version: None,
    })
}

/// The requested target, or the last deployed one if the requested one was given up.
pub(super) fn choose_target(kubevirt: &KubeVirt, requested: RolloutTarget) -> RolloutTarget {
    let given_up = annotation(kubevirt, install::GIVEN_UP);
    if given_up != Some(&*requested.id) {
        return requested;
    }
    match last_deployed(kubevirt).filter(|last| last.id != requested.id) {
        Some(last) => RolloutTarget {
            given_up_version: Some(requested.version),
            ..last
        },
        None => requested,
    }
}

/// Starts a requested rollback, and removes annotations that do not apply any more.
pub(super) fn annotate(kubevirt: &KubeVirt, requested: &RolloutTarget, outcome: &mut StageOutcome) {
    let given_up = annotation(kubevirt, install::GIVEN_UP);
    if annotation(kubevirt, install::ROLLBACK) == Some("true") {
        let request = (install::ROLLBACK, None);
        let last = last_deployed(kubevirt).filter(|last| last.id != requested.id);
        let step = match last {
            Some(last) => Step {
                action: Action::Annotate(vec![
                    (install::GIVEN_UP, Some(requested.id.clone())),
                    request,
                ]),
                reason: format!("a rollback to version {} was requested", last.version),
                event: Some(Event::normal(
                    "RollbackStarted",
                    format!(
                        "Rolling back from version {} to version {}, as requested",
                        requested.version, last.version
                    ),
                )),
            },
            None => Step {
                action: Action::Annotate(vec![request]),
                reason: "there is no other version to roll back to".to_owned(),
                event: Some(Event::warning(
                    "NothingToRollBackTo",
                    "No update is in progress, so there is no version to roll back to: set \
                     spec.imageTag to the version to install",
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
    } else if given_up.is_some_and(|id| id != requested.id) {
        let action = Action::Annotate(vec![(install::GIVEN_UP, None)]);
        outcome.step(action, "the resource requests another deployment now");
    }
}

/// Gives up a failed update, if the rollback policy says so.
pub(super) fn give_up(kubevirt: &KubeVirt, target: &RolloutTarget, cause: &str) -> Option<Step> {
    let policy = annotation(kubevirt, install::ROLLBACK_POLICY);
    let last = last_deployed(kubevirt).filter(|last| last.id != target.id)?;
    (policy == Some("OnFailure") && target.given_up_version.is_none()).then(|| Step {
        action: Action::Annotate(vec![(install::GIVEN_UP, Some(target.id.clone()))]),
        reason: format!(
            "the update failed, and the rollback policy asks for version {}",
            last.version
        ),
        event: Some(Event::warning(
            "RollbackStarted",
            format!(
                "Rolling back from version {} to version {}: {cause}",
                target.version, last.version
            ),
        )),
    })
}

/// Warnings about annotations whose value has no effect.
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
