//! What applying documents would do, told without doing it.
//!
//! The API server says, by dry runs, what the resources would be; the caches of the controller are
//! filled once from lists; the functions that drive the controller plan on them, and what they ask
//! for is carried out in memory until they ask for nothing more.
//!
//! Guaranteed: nothing is written. The number of requests is that of the kinds and namespaces that
//! are looked at, one for each document, one for each Secret that a Machine names, and one for the Secret
//! of each Machine whose digest of cloud-init data is keyed: a preview has no key.

mod documents;
mod dry_run;
mod live;
mod print;
mod simulate;
mod tell;

use std::collections::{BTreeMap, BTreeSet};

use api::Time;
use futures::{StreamExt as _, stream};
use kube::Client;
use plan::preview::Change;
use runtime::cache::Key;
use thiserror::Error;

use self::{
    live::Live,
    simulate::{Secrets, Simulation},
};
pub use documents::{Documents, Given};

use super::caches::Subject;

/// How many requests are under way at a time.
const CONCURRENCY: usize = 8;

/// A kind of resource that users write for us.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A size.
    MachineClass,
    /// A network.
    NetworkConfiguration,
    /// A virtual machine.
    Machine,
}

impl Kind {
    /// The name that users know it by.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::MachineClass => "MachineClass",
            Self::NetworkConfiguration => "NetworkConfiguration",
            Self::Machine => "Machine",
        }
    }

    /// Where the API server keeps those of a namespace.
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

/// What applying documents would do.
#[derive(Debug, Default)]
pub struct Preview {
    /// What would become of resources, in the order of their kinds and names.
    pub forecasts: Vec<Forecast>,
    /// Why documents cannot be applied, or would not work.
    pub errors: Vec<String>,
    /// What was not known.
    pub notes: Vec<String>,
}

/// What would become of a resource and of what is made for it.
#[derive(Debug)]
pub struct Forecast {
    /// What it is.
    pub kind: Kind,
    /// Its name.
    pub key: Key,
    /// What would be done, in order.
    pub effects: Vec<Effect>,
    /// What becomes of its guest.
    pub restart: Restart,
    /// What else there is to know.
    pub remarks: Vec<String>,
}

/// What would become of an object.
#[derive(Debug)]
pub struct Effect {
    /// What is done.
    pub verb: Verb,
    /// Its kind.
    pub kind: &'static str,
    /// Its name.
    pub name: String,
    /// What it is, or why, in a few words; may be empty.
    pub remark: String,
    /// The fields that change.
    pub fields: Vec<Change>,
}

/// What would be done to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// It is made.
    Create,
    /// It is changed.
    Change,
    /// It goes.
    Delete,
}

/// What becomes of a running guest.
#[derive(Debug, PartialEq, Eq)]
pub enum Restart {
    /// It goes on, or there is none.
    None,
    /// It is restarted, because a document asks for it.
    Happens,
    /// It takes these changes on when it is started again.
    Needed(Vec<String>),
}

/// Why nothing can be told. Says what to do.
#[derive(Debug, Error)]
pub enum PreviewError {
    /// The definitions are not installed.
    #[error(
        "this cluster does not know Machines: install their definitions with `kubevirt-operator \
         crds | kubectl apply --server-side -f -`"
    )]
    NotServed,
    /// Something cannot be listed.
    #[error("{0}")]
    NotListed(String),
}

impl Preview {
    /// Whether anything would change.
    pub fn has_changes(&self) -> bool {
        self.forecasts
            .iter()
            .any(|forecast| !forecast.effects.is_empty())
    }
}

/// Says what applying the documents would do.
pub async fn preview(
    client: Client,
    documents: &Documents,
    now: Time,
) -> Result<Preview, PreviewError> {
    let Documents { given, others, .. } = documents;
    let documents = given.as_slice();
    let mut preview = Preview::default();
    let mut live = Live::list(&client, scopes(documents)).await?;
    live.lay_over(others);
    let answered: Vec<_> = stream::iter(documents)
        .map(|given| dry_run::ask(&client, given, live.whole(given.kind, &given.key)))
        .buffered(CONCURRENCY)
        .collect()
        .await;
    let mut wanted = Vec::new();
    for (given, answer) in documents.iter().zip(answered) {
        match answer {
            Ok(value) => wanted.push((given, value)),
            Err(why) => preview.errors.push(format!("{}: {why}", given.origin)),
        }
    }

    let own: BTreeMap<(Kind, Key), Effect> = wanted
        .iter()
        .filter_map(|(given, value)| {
            let effect = tell::own(given, live.whole(given.kind, &given.key), value)?;
            Some(((given.kind, given.key.clone()), effect))
        })
        .collect();
    let given: BTreeSet<Subject> = documents.iter().filter_map(subject).collect();
    let mut concerned = given.clone();
    for (kind, key) in own.keys() {
        concerned.extend(live.concerned_by(*kind, key));
    }
    concerned.extend(
        wanted
            .iter()
            .flat_map(|(_, value)| live::networks_of(value)),
    );

    let secrets = Secrets::fetch(&client, &live.caches, &concerned, &wanted, others).await;
    preview.notes.extend(secrets.unread());
    let owned = live.owned(&given, &secrets);
    let references = live
        .references(&client, &concerned, &wanted, &mut preview.notes)
        .await;
    let mut simulation = Simulation::new(live.caches, secrets, owned, references, now);
    let anyway = simulation.run(&concerned.difference(&given).cloned().collect());
    for (given, value) in wanted {
        if let Err(why) = simulation.lay_over(given, &value) {
            preview.errors.push(format!("{}: {why}", given.origin));
        }
    }
    let outcome = simulation.run(&concerned);
    tell::tell(documents, own, &anyway, outcome, &mut preview);
    Ok(preview)
}

/// The namespaces to look at; a class may concern Machines in all.
fn scopes(documents: &[Given]) -> Vec<String> {
    let namespaces: BTreeSet<&str> = documents.iter().map(|it| &*it.key.namespace).collect();
    if namespaces.contains("") {
        return vec![String::new()];
    }
    namespaces.into_iter().map(str::to_owned).collect()
}

fn subject(given: &Given) -> Option<Subject> {
    match given.kind {
        Kind::Machine => Some(Subject::machine(given.key.clone())),
        Kind::NetworkConfiguration => Some(Subject::network(given.key.clone())),
        Kind::MachineClass => None,
    }
}
