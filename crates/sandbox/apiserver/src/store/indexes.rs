//! Indexes of owners and quotas, and the work items that a write causes.

use serde_json::Value;

use super::{FOREGROUND, Inner, ObjectId, Stored, WorkItem};
use crate::{object, quota};

impl Inner {
    pub(super) fn queue(&mut self, item: WorkItem) {
        if self.queued.insert(item.clone()) {
            self.work_queue.push_back(item);
        }
    }

    /// Maintains the owner index; only objects with owners cost anything.
    pub(super) fn index_owners(
        &mut self,
        id: &ObjectId,
        previous: Option<&Stored>,
        object: Option<&Value>,
    ) {
        if let Some(previous) = previous {
            for owner in &previous.owners {
                if let Some(children) = self.children.get_mut(owner) {
                    children.remove(id);
                    if children.is_empty() {
                        self.children.remove(owner);
                    }
                }
                if let Some(waiting_owners) = self.waiting_owners.get(owner).cloned() {
                    self.queue(WorkItem::Object(waiting_owners));
                }
            }
        }
        for uid in object
            .into_iter()
            .flat_map(object::owners)
            .filter_map(|owner| owner.get("uid")?.as_str())
        {
            self.children
                .entry(uid.into())
                .or_default()
                .insert(id.clone());
        }
    }

    pub(super) fn index_waiting_owners(
        &mut self,
        id: &ObjectId,
        object: &Value,
        terminating: bool,
    ) {
        let uid = object::meta(object, "uid");
        if terminating && object::finalizers(object).any(|one| one == FOREGROUND) {
            self.waiting_owners.insert(uid.into(), id.clone());
        } else {
            self.waiting_owners.remove(uid);
        }
        if id.table.group.is_empty() && id.table.resource.as_ref() == "namespaces" {
            if terminating {
                self.terminating_namespaces.insert(id.key.as_ref().into());
            } else {
                self.terminating_namespaces.remove(id.key.as_ref());
            }
        }
    }

    pub(super) fn index_quotas(&mut self, id: &ObjectId, deleted: bool) {
        if id.table != *quota::TABLE {
            return;
        }
        let namespace = quota::namespace_of(&id.key);
        if !deleted {
            let quotas = self.quotas.entry(namespace.into()).or_default();
            quotas.insert(id.key.clone());
        } else if let Some(quotas) = self.quotas.get_mut(namespace) {
            quotas.remove(&id.key);
        }
    }

    /// Queues the quotas of a namespace for recounting: usage may have shrunk.
    pub(super) fn queue_quotas(&mut self, id: &ObjectId) {
        if self.quotas.is_empty() {
            return;
        }
        let quotas = self.quotas.get(quota::namespace_of(&id.key)).cloned();
        for key in quotas.into_iter().flatten() {
            self.queue(WorkItem::Object(ObjectId {
                table: quota::TABLE.clone(),
                key,
            }));
        }
    }
}
