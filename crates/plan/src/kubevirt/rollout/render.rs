//! Desired state of a deployment: the objects of its install strategy, its certificates and the
//! bundles of their CAs.

use std::collections::{BTreeMap, BTreeSet};

use api::{Time, kubevirt::install};
use serde_json::{Value, json};

use super::{RenderResult, Rendered};
use crate::certificates::{
    Bundle, Issue, Pair, Settings, bundle, bundle_contains, plan_certificates,
};
use crate::kubevirt::{
    action::{Action, Existing, Step},
    caches::PlanCaches,
    certificates::{AUTHORITIES, BUNDLE, CA, EXTERNAL, note, profile, settings},
    compare::ComparisonCache,
    desired::{Desired, Facts, OmissionReason},
    job,
    object::{Id, Live, Object, Unnamed},
    observed::Observed,
    placement::{Fallback, place},
    rollback::{RolloutTarget, ignored_settings},
    stages::earlier,
    target::Target,
    tree,
};

/// The desired state of a target, if its install strategy has been read.
pub(super) fn render(
    observed: &Observed<'_>,
    target: &Target,
    now: &Time,
    caches: &mut PlanCaches,
) -> RenderResult {
    let Some(strategy) = observed.strategies.get(&target.id) else {
        return RenderResult::NoStrategy;
    };
    let facts = Facts::of(observed, target);
    let cache = &mut caches.desired;
    let desired = match cache.desired(observed.kubevirt, target, strategy, &facts) {
        Ok(desired) => desired,
        Err(error) => return RenderResult::Failed(error.to_string()),
    };
    let settings = match settings(observed.kubevirt) {
        Ok(settings) => settings,
        Err(error) => return RenderResult::Failed(error.to_string()),
    };
    RenderResult::Rendered(Box::new(rendered(
        observed,
        &desired,
        &settings,
        now,
        &mut caches.comparisons,
    )))
}

/// The desired state without customizations, whatever the spec says now. Only its certificates are
/// of use.
pub(super) fn without_customizations(
    observed: &Observed<'_>,
    target: &RolloutTarget,
    now: &Time,
    caches: &mut PlanCaches,
) -> Option<Rendered> {
    let strategy = observed.strategies.get(&target.id)?;
    let target = target.resolve(&Target::default());
    let mut kubevirt = observed.kubevirt.clone();
    kubevirt.spec.customize_components = None;
    let facts = Facts::of(observed, &target);
    let cache = &mut caches.desired;
    let desired = cache.desired(&kubevirt, &target, strategy, &facts).ok()?;
    let settings = settings(&kubevirt).ok()?;
    Some(rendered(
        observed,
        &desired,
        &settings,
        now,
        &mut caches.comparisons,
    ))
}

/// The Job that writes the install strategy of a target.
pub(super) fn job(
    observed: &Observed<'_>,
    target: &Target,
    attempt: u32,
) -> Result<Object, Unnamed> {
    job::job(target, observed.operator, attempt, |job| {
        let generation = observed.kubevirt.metadata.generation.unwrap_or_default();
        if let Some(annotations) = tree::map(job, &["metadata", "annotations"]) {
            let generation = generation.to_string().into();
            annotations.insert(install::GENERATION.to_owned(), generation);
        }
        let pod = job.pointer_mut("/spec/template/spec");
        let infra = observed.kubevirt.spec.infra.as_ref();
        if let Some(pod) = pod {
            // An invalid placement is reported when the objects are built.
            let _ = place(infra, Fallback::ControlPlane, pod);
        }
    })
}

fn rendered(
    observed: &Observed<'_>,
    desired: &Desired,
    settings: &Settings,
    now: &Time,
    comparisons: &mut ComparisonCache,
) -> Rendered {
    let namespace = &observed.operator.namespace;
    let secrets = desired.secrets.iter();
    let wanted = secrets.map(|secret| (secret.as_str(), profile(secret, namespace)));
    let certificates = plan_certificates(
        wanted,
        CA,
        settings,
        observed.pairs,
        &published(observed, desired, comparisons),
        now,
    );
    let step = |issue: Issue| Step {
        reason: format!("Secret {}: {}", issue.secret, issue.reason),
        action: Action::Issue {
            existing: existing(observed, &issue.secret),
            issue: Box::new(issue),
            labels: desired.common.labels.clone(),
            annotations: desired.common.annotations(),
        },
        event: None,
    };
    let authorities = certificates.authorities.into_iter().map(step).collect();
    let leaves = certificates.leaves.into_iter().map(step).collect();
    let mut requeue_at = certificates.requeue_at;
    let mut objects = Vec::new();
    for name in &desired.config_maps {
        let data = if name == EXTERNAL {
            // The operator creates it empty, as KubeVirt's virt-operator does; users fill it.
            let id = Id::new("", "ConfigMap", namespace, name);
            let exists = observed.objects.contains_key(&id);
            Some((!exists).then(String::new))
        } else {
            observed.pairs.get(name).map(|authority| {
                let bundle = bundle_of(observed, desired, name, authority, settings, now);
                requeue_at = earlier(requeue_at.take(), bundle.requeue_at);
                Some(bundle.text)
            })
        };
        let object = data.map(|text| config_map(desired, namespace, name, text.as_deref()));
        objects.extend(object.and_then(|object| Object::new(&object).ok()));
    }
    let of = |kind: &str, name: &str| Id::new("", kind, namespace, name);
    let secrets = desired.secrets.iter().map(|name| of("Secret", name));
    let config_maps = desired.config_maps.iter().map(|name| of("ConfigMap", name));
    let later = desired
        .omitted
        .iter()
        .filter(|omitted| matches!(omitted.reason, OmissionReason::NotYet(_)))
        .map(|omitted| omitted.id.clone());
    let kept = secrets.chain(config_maps).chain(later).collect();
    let mut notes = desired.notes.clone();
    notes.extend(
        desired
            .secrets
            .iter()
            .filter_map(|secret| note(secret, namespace)),
    );
    notes.extend(ignored_settings(observed.kubevirt));
    notes.extend(
        observed
            .served
            .unreadable_kinds
            .iter()
            .map(ToString::to_string),
    );
    objects.extend(desired.objects.iter().cloned());
    Rendered {
        objects,
        kept,
        authorities,
        leaves,
        notes,
        requeue_at,
    }
}

fn existing(observed: &Observed<'_>, secret: &str) -> Option<Existing> {
    let id = Id::new("", "Secret", &observed.operator.namespace, secret);
    let live = observed.objects.get(&id)?;
    Some(Existing {
        uid: live.uid.to_string(),
        resource_version: live.resource_version.to_string(),
        upstream_entries: live.upstream_entries.clone(),
    })
}

fn bundle_of(
    observed: &Observed<'_>,
    desired: &Desired,
    name: &str,
    authority: &Pair,
    settings: &Settings,
    now: &Time,
) -> Bundle {
    let known = |name: &str| observed.bundles.get(name).map(Vec::as_slice);
    let is_main = name == CA;
    let leaves = desired
        .secrets
        .iter()
        .filter(|secret| is_main && !AUTHORITIES.contains(&secret.as_str()));
    bundle(
        authority,
        leaves.filter_map(|secret| observed.pairs.get(secret)),
        known(name).unwrap_or_default(),
        known(EXTERNAL).filter(|_| is_main).unwrap_or_default(),
        settings,
        now,
    )
}

/// The ConfigMap of a bundle; without a text, its data belongs to users.
fn config_map(desired: &Desired, namespace: &str, name: &str, text: Option<&str>) -> Value {
    let mut config_map = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": desired.common.labels,
            "annotations": desired.common.annotations(),
        },
    });
    if let (Some(fields), Some(text)) = (config_map.as_object_mut(), text) {
        fields.insert("data".to_owned(), json!({BUNDLE: text}));
    }
    config_map
}

/// The CAs whose newest certificate is in every object that carries their bundle.
fn published(
    observed: &Observed<'_>,
    desired: &Desired,
    comparisons: &mut ComparisonCache,
) -> BTreeSet<String> {
    let namespace = &observed.operator.namespace;
    let mut is_published = |name: &str, pair: &Pair| {
        let id = Id::new("", "ConfigMap", namespace, name);
        let text = observed.objects.get(&id).map(Live::value);
        let text = text
            .as_ref()
            .and_then(|value| value.pointer(&format!("/data/{BUNDLE}")));
        let text = text.and_then(Value::as_str).unwrap_or_default();
        bundle_contains(text, &pair.newest().certificate)
            && (name != CA || is_carried(observed, desired, comparisons))
    };
    let authorities: BTreeMap<&str, &Pair> = AUTHORITIES
        .iter()
        .filter_map(|name| Some((*name, observed.pairs.get(*name)?)))
        .collect();
    authorities
        .into_iter()
        .filter(|(name, pair)| is_published(name, pair))
        .map(|(name, _)| name.to_owned())
        .collect()
}

/// Whether webhooks, APIServices and Routes carry the bundle of the ConfigMap.
fn is_carried(
    observed: &Observed<'_>,
    desired: &Desired,
    comparisons: &mut ComparisonCache,
) -> bool {
    let mut carriers = desired.objects.iter().filter(|object| {
        matches!(
            &*object.id.kind,
            "ValidatingWebhookConfiguration"
                | "MutatingWebhookConfiguration"
                | "APIService"
                | "Route"
        )
    });
    let waits = desired
        .omitted
        .iter()
        .any(|omitted| matches!(omitted.reason, OmissionReason::NotYet(_)));
    let is_applied = |object: &Object| {
        let Some(live) = observed.objects.get(&object.id) else {
            return false;
        };
        let applied = observed.memory.applied.get(&object.id);
        applied == Some(&(object.fingerprint, live.fingerprint))
            || comparisons.differences(live, object).is_empty()
    };
    !waits && carriers.all(is_applied)
}
