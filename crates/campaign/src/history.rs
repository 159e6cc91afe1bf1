//! History of a run: all writes to the store, requests of the operator and actions of users, ordered
//! by revision.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use sandbox::LoggedWrite;
use serde_json::Value;
use tokio::time::Instant;

use crate::{
    network::{SentRequest, UserAction},
    run::describe_request,
};

/// A resource's plural and `namespace/name`.
pub type Id = (String, String);

/// One write to the store.
#[derive(Clone, Debug)]
pub struct Write {
    pub revision: u64,
    /// Since the start.
    pub at: Duration,
    /// Plural.
    pub resource: String,
    /// `namespace/name`, or the name alone.
    pub key: String,
    /// Whether the object was removed.
    pub is_deletion: bool,
    /// The object after it, or its last state.
    pub object: Arc<Value>,
}

impl Write {
    pub fn id(&self) -> Id {
        (self.resource.clone(), self.key.clone())
    }
}

/// All objects at one revision.
#[derive(Clone, Debug, Default)]
pub struct Objects(pub BTreeMap<Id, Arc<Value>>);

impl Objects {
    pub fn apply(&mut self, write: &Write) {
        if write.is_deletion {
            self.0.remove(&write.id());
        } else {
            self.0.insert(write.id(), write.object.clone());
        }
    }

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

pub struct History {
    pub start_time: Instant,
    /// All writes to the store.
    pub entries: Vec<Write>,
    /// All requests of the operator that reached the API server.
    pub sent: Vec<SentRequest>,
    pub user_actions: Vec<UserAction>,
}

/// A step of [`History::replay`].
pub enum Moment<'a> {
    /// The API server is about to serve a request of the operator.
    Sent(&'a SentRequest),
    /// The store applies a write.
    Written(&'a Write),
}

impl History {
    pub fn new(
        start_time: Instant,
        entries: &[LoggedWrite],
        sent: Vec<SentRequest>,
        user_actions: Vec<UserAction>,
    ) -> Self {
        let entries = entries.iter().map(|entry| Write {
            revision: entry.revision(),
            at: entry.at.saturating_duration_since(start_time),
            resource: entry.resource().to_owned(),
            key: entry.key().to_owned(),
            is_deletion: entry.is_deletion(),
            object: Arc::new(entry.object()),
        });
        Self {
            start_time,
            entries: entries.collect(),
            sent,
            user_actions,
        }
    }

    /// Visits requests and writes in order, with the objects before each of them.
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

    /// The objects at the end.
    pub fn end(&self) -> Objects {
        let mut objects = Objects::default();
        for write in &self.entries {
            objects.apply(write);
        }
        objects
    }

    /// The user action that produced a write, if one did.
    pub fn actor_of(&self, revision: u64) -> Option<&UserAction> {
        self.user_actions
            .iter()
            .find(|user_action| user_action.before < revision && revision <= user_action.after)
    }

    /// Actions, requests, and writes of the main resources, as lines for people.
    pub fn describe(&self) -> Vec<String> {
        let mut lines: Vec<(u64, u8, String)> = Vec::new();
        for user_action in &self.user_actions {
            let refused = user_action.refused.as_deref();
            let refused = refused.map_or(String::new(), |why| format!(" (refused: {why})"));
            let at = user_action.at.duration_since(self.start_time).as_secs_f64();
            lines.push((
                user_action.before,
                1,
                format!("{at:9.3} USER     {}{refused}", user_action.action),
            ));
        }
        for sent in self.sent.iter().filter(|sent| sent.index.is_some()) {
            let at = sent.at.duration_since(self.start_time).as_secs_f64();
            let index = sent.index.unwrap_or_default();
            lines.push((
                sent.before,
                2,
                format!("{at:9.3} SENT {index:3} {}", describe_request(sent)),
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
            let status_text = match write.resource.as_str() {
                "machines" => format!("{phase} {} {}", ready["reason"], ready["message"]),
                _ => format!("{phase}"),
            };
            let at = write.at.as_secs_f64();
            lines.push((
                write.revision,
                0,
                format!(
                    "{at:9.3} {word} {} {} {status_text}",
                    write.resource, write.key
                ),
            ));
        }
        lines.sort_by_key(|(revision, order, _)| (*revision, *order));
        lines.into_iter().map(|(_, _, line)| line).collect()
    }
}
