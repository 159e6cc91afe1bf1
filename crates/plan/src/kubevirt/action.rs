//! Plan of an installation: its next writes and what they wait for.

use std::collections::BTreeMap;

use api::{Time, kubevirt::install::KubeVirtStatus};
use serde_json::{Value, json};

use super::{
    object::{Fingerprint, Id, Object},
    stages::Stage,
};
use crate::{Event, certificates::Issue};

/// Next writes for a KubeVirt resource, its status and the requeue time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// The first stage that is not done.
    pub stage: Stage,
    /// Whether the stage takes longer than it should, or has failed.
    pub stalled: bool,
    /// The writes of the stage. They do not depend on each other.
    pub steps: Vec<Step>,
    /// What the stage waits for.
    pub waits: Vec<Wait>,
    /// The new status; None leaves it as it is.
    pub status: Option<KubeVirtStatus>,
    pub events: Vec<Event>,
    /// Warnings that do not stop the rollout.
    pub notes: Vec<String>,
    /// When to plan again though nothing has changed.
    pub requeue_at: Option<Time>,
}

pub type Step = crate::Step<Action>;

/// A write so specific that nothing is left to decide.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Writes the finalizers of the KubeVirt resource itself.
    Finalizers(Vec<String>),
    /// Sets annotations of the KubeVirt resource itself; None removes one.
    Annotate(Vec<(&'static str, Option<String>)>),
    /// Creates an object.
    Create(Object),
    /// Server-side apply, by force.
    Apply {
        /// Exactly the fields that the operator owns.
        object: Object,
        /// The object that it changes; None creates it.
        existing: Option<Existing>,
    },
    /// Changes a Secret with a certificate: issues a new one, or promotes a CA. Fails if the Secret
    /// has changed since it was observed.
    Issue {
        issue: Box<Issue>,
        /// The Secret that it changes; None creates one. A Secret that exists nonetheless is adopted
        /// as it is.
        existing: Option<Existing>,
        labels: BTreeMap<String, String>,
        /// Annotations besides those about the certificate.
        annotations: BTreeMap<String, String>,
    },
    /// Changes fields of an object that the operator does not own as a whole: the namespace, a node,
    /// a definition that is being deleted.
    Patch {
        id: Id,
        version: String,
        /// Merge patch; includes the resourceVersion if only the observed object may be changed.
        patch: Value,
    },
    /// Deletes an object.
    Delete {
        id: Id,
        version: String,
        /// Precondition.
        uid: String,
    },
    /// Deletes all objects of a definition in all namespaces. Invalidates its count.
    DeleteAll { definition: String },
    /// Counts the objects of a definition, up to a few, so that none is lost with it.
    Count { definition: String },
}

impl Action {
    /// The object that it writes, which is the key of its refusals. `kubevirt` is the resource itself.
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

    /// Fingerprint of what it writes, so that another write is not delayed by a refusal; None for a
    /// deletion.
    pub fn fingerprint(&self) -> Option<Fingerprint> {
        let text = match self {
            Self::Create(object) | Self::Apply { object, .. } => return Some(object.fingerprint),
            Self::Delete { .. } => return None,
            Self::Patch { patch, .. } => patch.to_string(),
            Self::Finalizers(finalizers) => format!("finalizers {}", json!(finalizers)),
            Self::Annotate(annotations) => format!("annotate {}", json!(annotations)),
            // The validity of a certificate differs in each attempt.
            Self::Issue { .. } => "issue".to_owned(),
            Self::DeleteAll { .. } => "delete all".to_owned(),
            Self::Count { .. } => "count".to_owned(),
        };
        Some(Fingerprint::of(&text))
    }
}

/// The observed object that a write changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Existing {
    pub uid: String,
    pub resource_version: String,
    /// Indices of managed-fields entries that the operator first makes its own.
    pub upstream_entries: Vec<usize>,
}

/// Something that others have to do before the next stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    pub id: Id,
    /// What has to happen, and the known cause of the delay: pod, container, reported reason.
    pub message: String,
    /// Whether the message names a pod's problem or the finalizers of an object.
    pub is_blocked: bool,
}
