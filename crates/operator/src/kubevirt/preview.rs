//! What the operator would do, told without doing it.
//!
//! The caches of the controller are filled once from lists, `plan::kubevirt::preview` walks on them
//! to the end, and `plan::kubevirt::preflight` looks for what would go wrong on the way.
//!
//! Guaranteed: nothing is written. What is in Secrets is read, as the operator does, and neither
//! kept nor told.

mod asked;
mod print;
mod read;
mod rights;

use std::{collections::BTreeMap, sync::Arc};

use api::{
    Time,
    kubevirt::install::{self, KubeVirt},
};
use kube::{Client, ResourceExt as _};
use plan::kubevirt::{
    Action, Desired, Facts, Id, Observed, Target, desired,
    observed::{Count, Memory},
    preflight::{Cluster, Finding, Severity, preflight},
    preview::{self as planner, Effect, End, Forecast},
    target,
};
use thiserror::Error;

use self::{
    read::Found,
    rights::{ACCOUNT, Rights},
};
use super::{
    Given,
    execute::{Answer, Executor, Failure, Target as Resource},
    resources,
};
use crate::requests::{Requests, is_code};

/// How often objects are counted that a walk asks for: what is found may lead to others.
const COUNTS: usize = 5;

/// What is asked about.
#[derive(Clone, Debug, Default)]
pub struct Question {
    /// Who and where the operator is.
    pub operator: target::Operator,
    /// Strategies that need not be looked for in the cluster.
    pub strategies: Vec<Given>,
    /// The KubeVirt resource as it is to be; without one, that of the cluster.
    pub kubevirt: Option<KubeVirt>,
}

/// What the operator would do.
#[derive(Debug)]
pub struct Preview {
    /// The KubeVirt resource.
    pub resource: Id,
    /// The version that is asked for, and where its images are, if that can be told.
    pub version: Option<(String, String)>,
    /// The version that runs.
    pub running: Option<String>,
    /// What applying the given resource changes of it.
    pub own: Option<Effect>,
    /// What would go wrong.
    pub findings: Vec<Finding>,
    /// What would be done.
    pub forecast: Forecast,
    /// What was not known.
    pub notes: Vec<String>,
    /// What was given and cannot be right.
    pub errors: Vec<String>,
}

/// Why nothing can be told. Says what to do.
#[derive(Debug, Error)]
pub enum PreviewError {
    /// There is no KubeVirt resource.
    #[error("there is no KubeVirt resource in the cluster: give the one that is to be, with -f")]
    NoResource,
    /// Something cannot be read.
    #[error("{0}")]
    NotRead(String),
}

impl Preview {
    /// Whether anything would change.
    pub fn has_changes(&self) -> bool {
        self.own.is_some() || !self.forecast.is_empty()
    }

    /// Whether it would not come to its end.
    pub fn fails(&self) -> bool {
        let mut findings = self.findings.iter();
        matches!(self.forecast.end, End::Stuck { .. })
            || !self.errors.is_empty()
            || findings.any(|finding| finding.severity == Severity::Error)
    }
}

/// Says what the operator would do.
pub async fn preview(
    client: Client,
    question: Question,
    now: Time,
) -> Result<Preview, PreviewError> {
    let requests = Requests::new(client.clone(), install::FIELD_MANAGER);
    let mut found = Found::list(client, &requests, &question).await?;
    let namespace = &question.operator.namespace;
    let live = resources::in_order(&found.caches, namespace);
    let (kubevirt, own) = match &question.kubevirt {
        Some(given) => asked::lay_over(&live, given, &now),
        None => (live.first().map(|live| KubeVirt::clone(live)), None),
    };
    let kubevirt = kubevirt.ok_or(PreviewError::NoResource)?;
    found
        .read_strategies(&requests, &kubevirt, &question)
        .await?;
    found.list_objects().await?;

    let others = resources::others(&found.caches, &kubevirt);
    let memory = Memory::default();
    let mut counts = BTreeMap::new();
    let observed = Observed {
        kubevirt: &kubevirt,
        others: &others,
        operator: &question.operator,
        strategies: found.strategies.held(),
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
    for _ in 0..COUNTS {
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

    let asked = target(&kubevirt, &question.operator, &found.served).ok();
    let mut notes = found.notes(namespace);
    let findings = match &asked {
        Some(asked) if kubevirt.metadata.deletion_timestamp.is_none() => {
            look(&requests, &observed, asked, &mut notes).await?
        }
        _ => Vec::new(),
    };
    let status = kubevirt.status.as_ref();
    let version = asked.map(|asked| (asked.version, asked.registry));
    Ok(Preview {
        resource: Id::new(
            "kubevirt.io",
            "KubeVirt",
            &kubevirt.namespace().unwrap_or_default(),
            &kubevirt.name_any(),
        ),
        errors: unused(&question.strategies, version.as_ref()),
        running: status.and_then(|status| status.observed_kube_virt_version.clone()),
        version,
        own,
        findings,
        forecast,
        notes,
    })
}

/// Looks for what would go wrong.
async fn look(
    requests: &Requests,
    observed: &Observed<'_>,
    asked: &Target,
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
    let strategy = observed.strategies.get(&asked.id).map(Arc::clone);
    let strategy = strategy.unwrap_or_default();
    // That it cannot be made is told by the walk.
    let desired = desired(
        observed.kubevirt,
        asked,
        &strategy,
        &Facts::of(observed, asked),
    );
    let desired: Desired = desired.unwrap_or_default();
    Ok(preflight(
        observed.kubevirt,
        asked,
        &strategy,
        &desired,
        &cluster,
    ))
}

/// Counts the objects of a definition.
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
    let answers = executor.carry_out(action, None).await;
    let answers = answers.map_err(|Failure { message, .. }| {
        PreviewError::NotRead(format!(
            "objects of {definition} cannot be counted: {message}"
        ))
    })?;
    let mut counts = answers.into_iter().filter_map(|answer| match answer {
        Answer::Counted(_, count) => Some(count),
        _ => None,
    });
    let nothing = || PreviewError::NotRead(format!("objects of {definition} cannot be counted"));
    counts.next().ok_or_else(nothing)
}

/// Strategies that are of another version than is asked for.
fn unused(given: &[Given], version: Option<&(String, String)>) -> Vec<String> {
    let Some((version, _)) = version else {
        return Vec::new();
    };
    if given.is_empty() || given.iter().any(|given| given.version == *version) {
        return Vec::new();
    }
    let versions: Vec<&str> = given.iter().map(|given| given.version.as_str()).collect();
    vec![format!(
        "the install strategy is of {}, and {version} is asked for: give the strategy of that \
         release",
        versions.join(", ")
    )]
}

fn not_read(error: kube::Error) -> PreviewError {
    PreviewError::NotRead(match error {
        kube::Error::Api(status) => crate::requests::words(&status),
        error => crate::lists::not_listed(None, &error.to_string(), ""),
    })
}

/// Whether whoever asks may not see that.
fn is_forbidden(error: &kube::Error) -> bool {
    is_code(error, 401) || is_code(error, 403)
}
