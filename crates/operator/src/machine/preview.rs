//! Preview of the writes that applying documents would lead to.
//!
//! Dry runs show the resources as the API server would store them. The controller's caches are filled
//! once from lists, and `plan::machine::preview` simulates the controller on a copy of them.
//!
//! Guaranteed: nothing is written. The requests are one list per kind and namespace, one per document,
//! one per Secret that a Machine refers to, and one for the Secret of each Machine with a keyed
//! cloud-init digest: a preview does not have the key.

mod clusters;
mod documents;
mod dry_run;
mod live;
mod print;
mod secrets;

use std::collections::BTreeSet;

use api::{Machine, Time};
use futures::{StreamExt as _, stream};
use kube::Client;
use plan::{
    Id,
    machine::{
        Provider,
        preview::{self as planner, Cluster, Document, Forecast},
        simulation,
    },
};
use runtime::cache::{Key, WatchScope};
use serde_json::Value;
use thiserror::Error;

use self::live::Live;
pub use clusters::preview_clusters;
pub use documents::{Documents, GivenDocument};

use super::caches::Subject;
use crate::manifests::Resource;

/// Maximum number of requests in flight.
const CONCURRENCY: usize = 8;

/// Kind of resource that a preview is computed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    MachineClass,
    NetworkConfiguration,
    Machine,
}

impl Kind {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::MachineClass => "MachineClass",
            Self::NetworkConfiguration => "NetworkConfiguration",
            Self::Machine => "Machine",
        }
    }

    fn id(self, key: &Key) -> Id {
        let Key { namespace, name } = key;
        match self {
            Self::MachineClass => simulation::machine_class(name),
            Self::NetworkConfiguration => simulation::network(namespace, name),
            Self::Machine => simulation::machine(namespace, name),
        }
    }

    fn collection(self, namespace: &str) -> String {
        let root = "/apis/vitistack.io/v1alpha1";
        match self {
            Self::MachineClass => format!("{root}/machineclasses"),
            Self::NetworkConfiguration => {
                format!("{root}/namespaces/{namespace}/networkconfigurations")
            }
            Self::Machine => format!("{root}/namespaces/{namespace}/machines"),
        }
    }
}

/// Result of a preview.
#[derive(Debug, Default)]
pub struct Preview {
    /// Forecasts, ordered by kind and name.
    pub forecasts: Vec<Forecast>,
    /// Errors of documents that cannot be applied, or would not work.
    pub errors: Vec<String>,
    /// Gaps of the preview: data that could not be read.
    pub notes: Vec<String>,
    /// Number of files and documents that could not be read.
    pub unread: usize,
}

#[derive(Debug, Error)]
pub enum PreviewError {
    #[error(
        "the CustomResourceDefinitions of vitistack.io are not installed in this cluster: install \
         them with `kubevirt-operator crds | kubectl apply --server-side -f -`"
    )]
    NotServed,
    #[error("{0}")]
    NotListed(String),
}

impl Preview {
    pub fn has_changes(&self) -> bool {
        self.forecasts
            .iter()
            .any(|forecast| !forecast.effects.is_empty())
    }
}

/// The clusters that a preview reads.
#[derive(Clone)]
pub struct Place {
    /// Client of the cluster of the Machines.
    pub management: Client,
    /// Client of the cluster of their virtual machines, which may be the same.
    pub workload: Client,
    /// Name of its KubevirtConfig, if it is another.
    pub cluster: Option<String>,
    /// KubevirtConfig of Machines that name none.
    pub default: Option<String>,
}

/// Computes the preview of applying the documents, of Machines with virtual machines in their own cluster.
pub async fn preview(
    client: Client,
    documents: &Documents,
    provider: Provider,
    now: Time,
) -> Result<Preview, PreviewError> {
    let place = Place {
        management: client.clone(),
        workload: client,
        cluster: None,
        default: None,
    };
    let given: Vec<&GivenDocument> = documents.given.iter().collect();
    preview_in(&place, &given, &documents.others, provider, now).await
}

/// Computes the preview of applying these documents, of Machines with virtual machines in one cluster.
pub async fn preview_in(
    place: &Place,
    documents: &[&GivenDocument],
    others: &[Resource],
    provider: Provider,
    now: Time,
) -> Result<Preview, PreviewError> {
    let live = Live::list(place, scopes(documents), provider.clone()).await?;
    preview_live(place, live, documents, others, provider, now).await
}

async fn preview_live(
    place: &Place,
    mut live: Live,
    documents: &[&GivenDocument],
    others: &[Resource],
    provider: Provider,
    now: Time,
) -> Result<Preview, PreviewError> {
    let client = &place.management;
    let mut preview = Preview::default();
    live.overlay(others);
    let dry_runs: Vec<_> = stream::iter(documents.iter().copied())
        .map(|given| dry_run::dry_run(client, given, live.untrimmed(given.kind, &given.key)))
        .buffered(CONCURRENCY)
        .collect()
        .await;
    let mut desired = Vec::new();
    let mut applied = Vec::new();
    for (given, dry_run) in documents.iter().copied().zip(dry_runs) {
        let mut document = Document {
            id: given.kind.id(&given.key),
            origin: given.origin.to_string(),
            before: live.untrimmed(given.kind, &given.key).cloned(),
            after: None,
            cached: None,
        };
        match dry_run {
            Ok(value) => {
                preview
                    .notes
                    .extend(other_provider(given, &value, &provider));
                document.cached = live::cached(given.kind, &value);
                document.after = Some(value.clone());
                desired.push((given, value));
            }
            Err(error) => preview.errors.push(format!("{}: {error}", given.origin)),
        }
        applied.push(document);
    }
    let undecodable = applied
        .iter()
        .filter(|document| document.after.is_some() && document.cached.is_none());
    preview.errors.extend(undecodable.map(|document| {
        format!(
            "{}: the API server accepts the document, but this version of kubevirt-operator cannot \
             decode it",
            document.origin
        )
    }));

    live.read_adopted(&place.workload, &desired).await?;
    let mut affected: BTreeSet<Subject> = documents.iter().copied().filter_map(subject).collect();
    for (given, document) in documents.iter().zip(&applied) {
        if document.effect().is_some() {
            affected.extend(live.affected_by(given.kind, &given.key));
        }
    }
    affected.extend(
        desired
            .iter()
            .flat_map(|(_, value)| live::networks_of(value)),
    );

    let secrets = secrets::fetch(client, &live.caches, &affected, &desired, others).await;
    preview.notes.extend(secrets.unreadable());
    let references = live
        .references(&place.workload, &affected, &desired, &mut preview.notes)
        .await;
    let cluster = Cluster {
        simulation: live
            .caches
            .simulation()
            .in_cluster(live.caches.home.remote().cloned()),
        secrets,
        references,
    };
    let affected = affected.iter().map(Subject::id).collect();
    let planned = planner::preview(cluster, &applied, &affected, &now);
    preview.forecasts = planned.forecasts;
    preview.errors.extend(planned.problems);
    Ok(preview)
}

/// Note on a Machine of another provider.
fn other_provider(given: &GivenDocument, value: &Value, provider: &Provider) -> Option<String> {
    let machine: Machine = decode::from_value_ref(value).ok()?;
    let is_other = given.kind == Kind::Machine && !provider.is_named_by(&machine);
    is_other.then(|| {
        format!(
            "{}: spec.provider: names another provider: this operator leaves the Machine alone",
            given.origin
        )
    })
}

/// Namespaces to list. A MachineClass may affect Machines in all namespaces.
fn scopes(documents: &[&GivenDocument]) -> Vec<WatchScope> {
    let is_cluster_scoped = |it: &GivenDocument| it.kind == Kind::MachineClass;
    if documents.iter().copied().any(is_cluster_scoped) {
        return vec![WatchScope::Cluster];
    }
    let namespaces: BTreeSet<&str> = documents.iter().map(|it| &*it.key.namespace).collect();
    namespaces.into_iter().map(WatchScope::namespace).collect()
}

fn subject(given: &GivenDocument) -> Option<Subject> {
    match given.kind {
        Kind::Machine => Some(Subject::machine(given.key.clone())),
        Kind::NetworkConfiguration => Some(Subject::network(given.key.clone())),
        Kind::MachineClass => None,
    }
}
