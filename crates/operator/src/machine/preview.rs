//! Preview of the writes that applying documents would lead to.
//!
//! Dry runs show the resources as the API server would store them. The controller's caches are filled
//! once from lists; the controller's planners run on them, and their actions are applied in memory until
//! the plans are empty.
//!
//! Guaranteed: nothing is written. The requests are one list per kind and namespace, one per document,
//! one per Secret that a Machine refers to, and one for the Secret of each Machine with a keyed
//! cloud-init digest: a preview does not have the key.

mod documents;
mod dry_run;
mod forecast;
mod live;
mod print;
mod secrets;
mod simulate;

use std::collections::{BTreeMap, BTreeSet};

use api::Time;
use futures::{StreamExt as _, stream};
use kube::Client;
use plan::preview::Change;
use runtime::cache::{Key, WatchScope};
use thiserror::Error;

use self::{live::Live, secrets::Secrets, simulate::Simulation};
pub use documents::{Documents, GivenDocument};

use super::caches::Subject;

/// Maximum number of requests in flight.
const CONCURRENCY: usize = 8;

/// Kind of resource that a preview is computed for, in the order of the output.
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
}

/// Changes of a resource and its children.
#[derive(Debug)]
pub struct Forecast {
    pub kind: Kind,
    pub key: Key,
    /// Changes, in order.
    pub effects: Vec<Effect>,
    pub restart: Restart,
    /// Messages about what the resource waits for.
    pub notes: Vec<String>,
}

/// Change of an object.
#[derive(Debug)]
pub struct Effect {
    pub verb: Verb,
    pub kind: &'static str,
    pub name: String,
    /// Summary of the object, or reason of the change; may be empty.
    pub summary: String,
    pub fields: Vec<Change>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    Create,
    Change,
    Delete,
}

/// Restart of a running guest.
#[derive(Debug, PartialEq, Eq)]
pub enum Restart {
    /// No restart is needed, or no guest runs.
    None,
    /// The operator restarts the guest, because a document asks for it.
    Happens,
    /// These changes take effect at the next restart.
    Needed(Vec<String>),
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

/// Computes the preview of applying the documents.
pub async fn preview(
    client: Client,
    documents: &Documents,
    now: Time,
) -> Result<Preview, PreviewError> {
    let Documents { given, others, .. } = documents;
    let documents = given.as_slice();
    let mut preview = Preview::default();
    let mut live = Live::list(&client, scopes(documents)).await?;
    live.overlay(others);
    let dry_runs: Vec<_> = stream::iter(documents)
        .map(|given| dry_run::dry_run(&client, given, live.untrimmed(given.kind, &given.key)))
        .buffered(CONCURRENCY)
        .collect()
        .await;
    let mut desired = Vec::new();
    for (given, dry_run) in documents.iter().zip(dry_runs) {
        match dry_run {
            Ok(value) => desired.push((given, value)),
            Err(error) => preview.errors.push(format!("{}: {error}", given.origin)),
        }
    }

    let own: BTreeMap<(Kind, Key), Effect> = desired
        .iter()
        .filter_map(|(given, value)| {
            let effect =
                forecast::own_effect(given, live.untrimmed(given.kind, &given.key), value)?;
            Some(((given.kind, given.key.clone()), effect))
        })
        .collect();
    let given: BTreeSet<Subject> = documents.iter().filter_map(subject).collect();
    let mut affected = given.clone();
    for (kind, key) in own.keys() {
        affected.extend(live.affected_by(*kind, key));
    }
    affected.extend(
        desired
            .iter()
            .flat_map(|(_, value)| live::networks_of(value)),
    );

    let secrets = Secrets::fetch(&client, &live.caches, &affected, &desired, others).await;
    preview.notes.extend(secrets.unreadable());
    let owned = live.owned(&given, &secrets);
    let references = live
        .references(&client, &affected, &desired, &mut preview.notes)
        .await;
    let mut simulation = Simulation::new(live.caches, secrets, owned, references, now);
    let baseline = simulation.run(&affected.difference(&given).cloned().collect());
    for (given, value) in desired {
        if let Err(error) = simulation.apply(given, &value) {
            preview.errors.push(format!("{}: {error}", given.origin));
        }
    }
    let records = simulation.run(&affected);
    forecast::forecast(documents, own, &baseline, records, &mut preview);
    Ok(preview)
}

/// Namespaces to list. A MachineClass may affect Machines in all namespaces.
fn scopes(documents: &[GivenDocument]) -> Vec<WatchScope> {
    let is_cluster_scoped = |it: &GivenDocument| it.kind == Kind::MachineClass;
    if documents.iter().any(is_cluster_scoped) {
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
