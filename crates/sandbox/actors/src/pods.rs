//! Pod controllers: scheduler, kubelet, taint eviction and garbage collection.

mod addresses;
pub(crate) mod affinity;
mod containers;
mod dump;
mod eviction;
mod fit;
mod garbage;
mod kubelet;
pub(crate) mod requests;
mod scheduler;
mod spread;
pub(crate) mod taints;

pub use self::{
    eviction::TaintEviction, garbage::PodGarbageCollector, kubelet::Kubelet, scheduler::Scheduler,
};
pub(crate) use self::{kubelet::is_available, scheduler::claim_names};

use serde_json::Value;

use crate::object::{is_deleted, text};

pub(crate) fn is_finished(pod: &Value) -> bool {
    matches!(text(pod, "/status/phase"), "Succeeded" | "Failed")
}

/// Whether a pod counts towards the replicas of its controller.
pub(crate) fn is_active(pod: &Value) -> bool {
    !is_finished(pod) && !is_deleted(pod)
}
