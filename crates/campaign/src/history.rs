//! The history of a run: every write that the store took, every request, and everything that
//! somebody did, in the order of revisions.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use sandbox::LoggedWrite;
use serde_json::Value;
use tokio::time::Instant;

use crate::{
    run::described,
    wire::{Acted, Sent},
};

/// A resource's plural and `namespace/name`.
pub type Id = (String, String);

/// One write to the store.
#[derive(Clone, Debug)]
pub struct Write {
    /// Its revision.
    pub revision: u64,
    /// When, since the start.
    pub at: Duration,
    /// The resource's plural.
    pub resource: String,
    /// `namespace/name`, or the name alone.
    pub key: String,
    /// Whether the object was removed.
    pub is_deletion: bool,
    /// The object after it, or its last state.
    pub object: Arc<Value>,
}

impl Write {
    /// What was written.
    pub fn id(&self) -> Id {
        (self.resource.clone(), self.key.clone())
    }
}

/// The objects of a moment.
#[derive(Clone, Debug, Default)]
pub struct Objects(pub BTreeMap<Id, Arc<Value>>);

impl Objects {
    /// Takes a write in.
    pub fn apply(&mut self, write: &Write) {
        if write.is_deletion {
            self.0.remove(&write.id());
        } else {
            self.0.insert(write.id(), write.object.clone());
        }
    }

    /// An object.
    pub fn get(&self, resource: &str, key: &str) -> Option<&Arc<Value>> {
        self.0.get(&(resource.to_owned(), key.to_owned()))
    }

    /// All objects of a resource.
    pub fn all<'a>(&'a self, resource: &'a str) -> impl Iterator<Item = (&'a str, &'a Value)> {
        self.0
            .iter()
            .filter(move |((of, _), _)| of == resource)
            .map(|((_, key), object)| (key.as_str(), object.as_ref()))
    }
}

/// Everything that happened.
pub struct History {
    /// When the run began.
    pub began: Instant,
    /// Every write to the store.
    pub entries: Vec<Write>,
    /// Every request of the operator that reached the API server.
    pub sent: Vec<Sent>,
    /// Everything that somebody did.
    pub acted: Vec<Acted>,
}

/// Where a request of the operator stands among the writes.
pub enum Moment<'a> {
    /// A request of the operator is about to be served.
    Sent(&'a Sent),
    /// The store takes a write.
    Written(&'a Write),
}

impl History {
    /// Puts the pieces together.
    pub fn new(
        began: Instant,
        entries: &[LoggedWrite],
        sent: Vec<Sent>,
        acted: Vec<Acted>,
    ) -> Self {
        let entries = entries.iter().map(|entry| Write {
            revision: entry.revision(),
            at: entry.at.saturating_duration_since(began),
            resource: entry.resource().to_owned(),
            key: entry.key().to_owned(),
            is_deletion: entry.is_deletion(),
            object: Arc::new(entry.object()),
        });
        Self {
            began,
            entries: entries.collect(),
            sent,
            acted,
        }
    }

    /// Goes through everything in order, with the objects as they are before each moment.
    pub fn replay(&self, mut observe: impl FnMut(&Objects, Moment<'_>)) {
        let mut objects = Objects::default();
        let mut sent: Vec<_> = self.sent.iter().collect();
        sent.sort_by_key(|sent| sent.before);
        let mut sent = sent.into_iter().peekable();
        for write in &self.entries {
            while let Some(next) = sent.next_if(|next| next.before < write.revision) {
                observe(&objects, Moment::Sent(next));
            }
            observe(&objects, Moment::Written(write));
            objects.apply(write);
        }
        for next in sent {
            observe(&objects, Moment::Sent(next));
        }
    }

    /// The objects in the end.
    pub fn end(&self) -> Objects {
        let mut objects = Objects::default();
        for write in &self.entries {
            objects.apply(write);
        }
        objects
    }

    /// What somebody did that produced a write, if anybody did.
    pub fn actor_of(&self, revision: u64) -> Option<&Acted> {
        self.acted
            .iter()
            .find(|acted| acted.before < revision && revision <= acted.after)
    }

    /// Everything in lines, for people: actions, requests, and writes of what matters.
    pub fn describe(&self) -> Vec<String> {
        let mut lines: Vec<(u64, u8, String)> = Vec::new();
        for acted in &self.acted {
            let refused = acted.refused.as_deref();
            let refused = refused.map_or(String::new(), |why| format!(" (refused: {why})"));
            let at = acted.at.duration_since(self.began).as_secs_f64();
            lines.push((
                acted.before,
                1,
                format!("{at:9.3} USER     {}{refused}", acted.action),
            ));
        }
        for sent in self.sent.iter().filter(|sent| sent.index.is_some()) {
            let at = sent.at.duration_since(self.began).as_secs_f64();
            let index = sent.index.unwrap_or_default();
            lines.push((
                sent.before,
                2,
                format!("{at:9.3} SENT {index:3} {}", described(sent)),
            ));
        }
        for write in &self.entries {
            if !matches!(
                write.resource.as_str(),
                "machines"
                    | "virtualmachines"
                    | "virtualmachineinstances"
                    | "persistentvolumeclaims"
                    | "datavolumes"
                    | "kubevirts"
            ) {
                continue;
            }
            let object = &write.object;
            let mut word = "WRITTEN ";
            if write.is_deletion {
                word = "REMOVED ";
            } else if !object["metadata"]["deletionTimestamp"].is_null() {
                word = "DELETING";
            }
            let ready = crate::objects::condition(object, "Ready");
            let phase = &object["status"]["phase"];
            let told = match write.resource.as_str() {
                "machines" => format!("{phase} {} {}", ready["reason"], ready["message"]),
                _ => format!("{phase}"),
            };
            let at = write.at.as_secs_f64();
            lines.push((
                write.revision,
                0,
                format!("{at:9.3} {word} {} {} {told}", write.resource, write.key),
            ));
        }
        lines.sort_by_key(|(revision, order, _)| (*revision, *order));
        lines.into_iter().map(|(_, _, line)| line).collect()
    }
}
