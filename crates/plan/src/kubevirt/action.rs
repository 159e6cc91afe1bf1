//! What is to be done next.

use std::collections::BTreeMap;

use api::{Time, kubevirt::install::KubeVirtStatus};
use serde_json::Value;

use super::{
    object::{Fingerprint, Id, Object},
    stages::Stage,
};
use crate::{Event, certificates::Issue};

/// What to do next, and what to tell people.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// How far it has come.
    pub stage: Stage,
    /// Whether the stage takes longer than it should, or has failed.
    pub stalled: bool,
    /// The writes of the stage that is under way. They do not depend on each other.
    pub steps: Vec<Step>,
    /// What has to happen by itself before the next stage.
    pub waits: Vec<Wait>,
    /// The status as it should be; None leaves it as it is.
    pub status: Option<KubeVirtStatus>,
    /// What to tell people.
    pub events: Vec<Event>,
    /// What people should know though it stops nothing.
    pub notes: Vec<String>,
    /// When to look again though nothing changed.
    pub requeue_at: Option<Time>,
}

/// A write, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The write.
    pub action: Action,
    /// Why, for logs and for the command `plan`.
    pub reason: String,
    /// What to tell people once it is done.
    pub event: Option<Event>,
}

/// A write so specific that there is no choice left in carrying it out.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Writes the finalizers of the KubeVirt resource itself.
    Finalizers(Vec<String>),
    /// Sets annotations of the KubeVirt resource itself; None removes one.
    Annotate(Vec<(&'static str, Option<String>)>),
    /// Creates an object under a name that the API server makes.
    Create(Object),
    /// Server-side apply, by force.
    Apply {
        /// What we own of it.
        object: Object,
        /// The very object that it changes; None creates it.
        existing: Option<Existing>,
    },
    /// Changes a Secret with a certificate: a new one is made, or a CA takes office. Only the Secret as
    /// it was seen may be changed.
    Issue {
        /// What changes in it.
        issue: Box<Issue>,
        /// The very Secret that it changes; None makes one. One that is there all the same is taken
        /// over as it is.
        existing: Option<Existing>,
        /// The labels that it has.
        labels: BTreeMap<String, String>,
        /// The annotations that it has, besides those that tell of the certificate.
        annotations: BTreeMap<String, String>,
    },
    /// Changes fields of an object that is not ours as a whole: the namespace, a node, a
    /// definition on its way out.
    Patch {
        /// Which object.
        id: Id,
        /// The version of its API.
        version: String,
        /// The merge patch; it carries the resourceVersion where only the object as it was seen
        /// may be changed.
        patch: Value,
    },
    /// Deletes an object.
    Delete {
        /// Which object.
        id: Id,
        /// The version of its API.
        version: String,
        /// Only this very object.
        uid: String,
    },
    /// Deletes every object of a definition, in all namespaces. What was counted of it before does
    /// not count any more.
    DeleteAll {
        /// The definition's name.
        definition: String,
    },
    /// Counts the objects of a definition, up to a few, so that none is lost with it.
    Count {
        /// The definition's name.
        definition: String,
    },
}

impl Action {
    /// What it is about: a refusal of it is remembered under this. `kubevirt` is the resource itself.
    pub fn subject(&self, kubevirt: &Id) -> Id {
        match self {
            Self::Finalizers(_) | Self::Annotate(_) => kubevirt.clone(),
            Self::Create(object) | Self::Apply { object, .. } => object.id.clone(),
            Self::Issue { issue, .. } => Id::new("", "Secret", &kubevirt.namespace, &issue.secret),
            Self::Patch { id, .. } | Self::Delete { id, .. } => id.clone(),
            Self::DeleteAll { definition } | Self::Count { definition } => Id::new(
                "apiextensions.k8s.io",
                "CustomResourceDefinition",
                "",
                definition,
            ),
        }
    }

    /// What it writes, so that something else is tried at once after a refusal; None deletes the
    /// object.
    pub fn fingerprint(&self) -> Option<Fingerprint> {
        let text = match self {
            Self::Create(object) | Self::Apply { object, .. } => return Some(object.fingerprint),
            Self::Delete { .. } => return None,
            Self::Patch { patch, .. } => patch.to_string(),
            Self::Finalizers(finalizers) => format!("finalizers {finalizers:?}"),
            Self::Annotate(annotations) => format!("annotate {annotations:?}"),
            // The times in a certificate are other ones whenever it is tried.
            Self::Issue { .. } => "issue".to_owned(),
            Self::DeleteAll { .. } => "delete all".to_owned(),
            Self::Count { .. } => "count".to_owned(),
        };
        Some(Fingerprint::of(&text))
    }
}

/// An object that is changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Existing {
    /// Only this very object.
    pub uid: String,
    /// As it was seen.
    pub resource_version: String,
    /// Entries of its managed fields that become ours first.
    pub upstream_entries: Vec<usize>,
}

/// What has to happen by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The object it is about.
    pub id: Id,
    /// What it is that has to happen, and what is known of why it has not yet: which pod, which
    /// container, in whose words.
    pub message: String,
}
