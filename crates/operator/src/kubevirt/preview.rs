//! Preview of a rollout or removal of KubeVirt.
//!
//! The controller's caches are filled once from lists, `plan::kubevirt::preview` simulates the rollout
//! on them, and `plan::kubevirt::preflight` reports obstacles.
//!
//! Guaranteed: nothing is written. Secrets are read, as by the operator, and neither kept nor printed.

mod overlay;
mod print;
mod read;
mod rights;

use std::{collections::BTreeMap, sync::Arc};

use api::{
    Time,
    kubevirt::install::{self, KubeVirt},
};
use kube::{Client, ResourceExt as _};
use plan::{
    kubevirt::{
        Action, Desired, Facts, Id, Observed, Target, desired,
        observed::{Count, Memory},
        preflight::{Cluster, Finding, Severity, preflight},
        preview::{self as planner, End, Forecast},
        target,
    },
    preview::Effect,
};
use thiserror::Error;

use self::{
    read::Found,
    rights::{ACCOUNT, Rights},
};
use super::{
    StrategyFile,
    execute::{Answer, Executor, Failure, Target as Resource},
    resources,
};
use crate::requests::{Requests, is_code};

/// Maximum number of simulations: each may need counts of objects that the previous one did not.
const MAX_SIMULATIONS: usize = 5;

/// Input of a preview.
#[derive(Clone, Debug, Default)]
pub struct PreviewRequest {
    pub operator: target::Operator,
    /// Install strategies from files; others are read from the cluster.
    pub strategies: Vec<StrategyFile>,
    /// Desired KubeVirt resource; without one, that of the cluster is used.
    pub kubevirt: Option<KubeVirt>,
}

/// Result of a preview.
#[derive(Debug)]
pub struct Preview {
    pub resource: Id,
    /// Target version and registry, if they can be determined.
    pub version: Option<(String, String)>,
    /// Observed version.
    pub running: Option<String>,
    /// Change of the KubeVirt resource itself.
    pub own: Option<Effect>,
    /// Findings of the preflight.
    pub findings: Vec<Finding>,
    pub forecast: Forecast,
    /// Gaps of the preview: data that could not be read, and assumptions.
    pub notes: Vec<String>,
    /// Errors in the input.
    pub errors: Vec<String>,
}

#[derive(Debug, Error)]
pub enum PreviewError {
    #[error("no KubeVirt resource in the cluster: pass one with -f FILE")]
    NoResource,
    #[error("{0}")]
    NotRead(String),
}

impl Preview {
    pub fn has_changes(&self) -> bool {
        self.own.is_some() || !self.forecast.is_empty()
    }

    /// Whether the rollout would fail or not complete.
    pub fn fails(&self) -> bool {
        let mut findings = self.findings.iter();
        matches!(self.forecast.end, End::Stuck { .. })
            || !self.errors.is_empty()
            || findings.any(|finding| finding.severity == Severity::Error)
    }
}

/// Computes the preview.
pub async fn preview(
    client: Client,
    request: PreviewRequest,
    now: Time,
) -> Result<Preview, PreviewError> {
    let requests = Requests::new(client.clone(), install::FIELD_MANAGER);
    let mut found = Found::list(client, &requests, &request).await?;
    let namespace = &request.operator.namespace;
    let live = resources::in_order(&found.caches, namespace);
    let (kubevirt, own) = match &request.kubevirt {
        Some(given) => overlay::overlay(&live, given, &now),
        None => (live.first().map(|live| KubeVirt::clone(live)), None),
    };
    let kubevirt = kubevirt.ok_or(PreviewError::NoResource)?;
    found
        .read_strategies(&requests, &kubevirt, &request)
        .await?;
    found.list_objects().await?;

    let others = resources::others(&found.caches, &kubevirt);
    let memory = Memory::default();
    let mut counts = BTreeMap::new();
    let observed = Observed {
        kubevirt: &kubevirt,
        others: &others,
        operator: &request.operator,
        strategies: found.strategies.cached(),
        unreadable: found.strategies.unreadable(),
        objects: found.caches.objects(),
        pods: found.caches.pods(),
        nodes: found.caches.nodes(),
        served: &found.served,
        pairs: found.certificates.pairs(),
        bundles: found.certificates.bundles(),
        counts: &BTreeMap::new(),
        memory: &memory,
    };
    let mut forecast = planner::forecast(&observed, &now);
    for _ in 0..MAX_SIMULATIONS {
        let missing = std::mem::take(&mut forecast.uncounted);
        if missing.is_empty() {
            break;
        }
        for definition in missing {
            let count = count(&requests, &kubevirt, &definition, &now).await?;
            counts.insert(definition, count);
        }
        let observed = Observed {
            counts: &counts,
            ..observed.clone()
        };
        forecast = planner::forecast(&observed, &now);
    }

    let target = target(&kubevirt, &request.operator, &found.served).ok();
    let mut notes = found.notes(namespace);
    let findings = match &target {
        Some(target) if kubevirt.metadata.deletion_timestamp.is_none() => {
            run_preflight(&requests, &observed, target, &mut notes).await?
        }
        _ => Vec::new(),
    };
    let status = kubevirt.status.as_ref();
    let version = target.map(|target| (target.version, target.registry));
    Ok(Preview {
        resource: Id::new(
            "kubevirt.io",
            "KubeVirt",
            &kubevirt.namespace().unwrap_or_default(),
            &kubevirt.name_any(),
        ),
        errors: unused(&request.strategies, version.as_ref()),
        running: status.and_then(|status| status.observed_kube_virt_version.clone()),
        version,
        own,
        findings,
        forecast,
        notes,
    })
}

async fn run_preflight(
    requests: &Requests,
    observed: &Observed<'_>,
    target: &Target,
    notes: &mut Vec<String>,
) -> Result<Vec<Finding>, PreviewError> {
    let operator = observed.operator;
    let version = requests.get("/version").await.map_err(not_read)?;
    let rights = Rights::of(requests, &operator.namespace, ACCOUNT).await?;
    notes.extend(rights.note);
    let namespace = Id::new("", "Namespace", "", &operator.namespace);
    let labels = observed.objects.get(&namespace).map(|live| &live.labels);
    let stored = read::stored_versions(observed.objects);
    let cluster = Cluster {
        kubernetes: version["gitVersion"].as_str(),
        permissions: Some(&rights.permissions),
        namespace_labels: labels,
        nodes: Some(observed.nodes),
        stored_versions: Some(&stored),
    };
    let strategy = observed.strategies.get(&target.id).map(Arc::clone);
    let strategy = strategy.unwrap_or_default();
    // The simulation reports errors of the rendering.
    let desired = desired(
        observed.kubevirt,
        target,
        &strategy,
        &Facts::of(observed, target),
    );
    let desired: Desired = desired.unwrap_or_default();
    Ok(preflight(
        observed.kubevirt,
        target,
        &strategy,
        &desired,
        &cluster,
    ))
}

/// Counts the objects of a CustomResourceDefinition.
async fn count(
    requests: &Requests,
    kubevirt: &KubeVirt,
    definition: &str,
    now: &Time,
) -> Result<Count, PreviewError> {
    let at = now.0;
    let executor = Executor {
        requests: requests.clone(),
        target: Resource::of(kubevirt),
        clock: Arc::new(move || at),
    };
    let action = Action::Count {
        definition: definition.to_owned(),
    };
    let answers = executor.execute(action, None).await;
    let answers = answers.map_err(|Failure { message, .. }| {
        PreviewError::NotRead(format!(
            "cannot count the objects of {definition}: {message}"
        ))
    })?;
    let mut counts = answers.into_iter().filter_map(|answer| match answer {
        Answer::Counted(_, count) => Some(count),
        _ => None,
    });
    let missing = || PreviewError::NotRead(format!("cannot count the objects of {definition}"));
    counts.next().ok_or_else(missing)
}

/// Errors about strategy files of another version than the target.
fn unused(given: &[StrategyFile], version: Option<&(String, String)>) -> Vec<String> {
    let Some((version, _)) = version else {
        return Vec::new();
    };
    if given.is_empty() || given.iter().any(|given| given.version == *version) {
        return Vec::new();
    }
    let versions: Vec<&str> = given.iter().map(|given| given.version.as_str()).collect();
    vec![format!(
        "the install strategy is of version {}, but the KubeVirt resource asks for {version}: pass \
         the strategy of that release with --strategy FILE",
        versions.join(", ")
    )]
}

fn not_read(error: kube::Error) -> PreviewError {
    PreviewError::NotRead(match error {
        kube::Error::Api(status) => crate::requests::status_message(&status),
        error => crate::lists::list_error(None, &error.to_string(), ""),
    })
}

fn is_forbidden(error: &kube::Error) -> bool {
    is_code(error, 401) || is_code(error, 403)
}
