//! Preview of documents: the changes of objects that applying them would lead to.
//!
//! [`preview`] plans repeatedly with the operator's own planners and executes each plan on a simulated
//! cluster, in which writes succeed, claims are bound and KubeVirt detaches disks.
//!
//! Guarantees: it terminates, and shows neither UIDs nor confidential data.

mod forecast;
mod record;
mod secrets;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use api::Time;
use serde_json::Value;

use self::record::Recorder;
pub use self::secrets::{ReadSecret, Secrets};
use super::{
    References, build, resolve,
    simulation::{Simulation, is_machine, is_network},
};
use crate::{Id, preview::Effect};

/// Annotation of `kubectl apply` with the document.
pub const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Cluster that documents are applied to.
pub struct Cluster {
    pub simulation: Simulation,
    pub secrets: Secrets,
    /// References to claims, by namespace, as far as they were read.
    pub references: BTreeMap<Arc<str>, References>,
}

/// A Machine, MachineClass or NetworkConfiguration to apply.
#[derive(Clone, Debug)]
pub struct Document {
    pub id: Id,
    /// Where it is from, for messages.
    pub origin: String,
    /// The resource in the cluster, with all its metadata.
    pub before: Option<Value>,
    /// The resource as the API server would store it; None if it refuses the document.
    pub after: Option<Value>,
    /// `after`, as the operator would cache it; None if it cannot be decoded.
    pub cached: Option<Value>,
}

/// Result of a preview.
#[derive(Debug, Default)]
pub struct Preview {
    /// Forecasts, ordered by kind and name.
    pub forecasts: Vec<Forecast>,
    /// Problems of documents that would not work.
    pub problems: Vec<String>,
}

/// Changes of a resource and its children.
#[derive(Debug)]
pub struct Forecast {
    pub id: Id,
    /// Changes, in order.
    pub effects: Vec<Effect>,
    pub restart: Restart,
    /// Messages about what the resource waits for.
    pub notes: Vec<String>,
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

impl Document {
    /// Change of the resource itself.
    pub fn effect(&self) -> Option<Effect> {
        forecast::own_effect(&self.id, self.before.as_ref(), self.after.as_ref()?)
    }
}

/// Computes the preview. `affected` are the Machines and NetworkConfigurations that may change.
pub fn preview(
    cluster: Cluster,
    documents: &[Document],
    affected: &BTreeSet<Id>,
    now: &Time,
) -> Preview {
    let Cluster {
        mut simulation,
        secrets,
        references,
    } = cluster;
    let given: BTreeSet<Id> = documents
        .iter()
        .map(|document| document.id.clone())
        .filter(|id| is_machine(id) || is_network(id))
        .collect();
    for machine in given.iter().filter(|id| is_machine(id)) {
        if let Some((id, fields)) = owned_fields(&simulation, &secrets, machine) {
            simulation.assume_applied(id, fields);
        }
    }
    let mut recorder = Recorder::new(simulation, secrets, references, now);
    let baseline = recorder.run(&affected.difference(&given).cloned().collect());
    for document in documents {
        if let Some(resource) = &document.cached {
            recorder.put(&document.id, resource.clone());
        }
    }
    let records = recorder.run(affected);
    forecast::forecast(documents, &baseline, records)
}

/// VirtualMachine that a Machine asks for: the fields that the operator owns.
fn owned_fields(simulation: &Simulation, secrets: &Secrets, machine: &Id) -> Option<(Id, Value)> {
    let id = simulation.virtual_machine(machine)?;
    let known = secrets.of(simulation.machine(machine)?);
    let fields = simulation.observe(machine, known, |observed| {
        let resolution = resolve(observed.machine, &observed.surroundings).ok()?;
        serde_json::to_value(build(&resolution.machine).virtual_machine).ok()
    });
    Some((id, fields??))
}
