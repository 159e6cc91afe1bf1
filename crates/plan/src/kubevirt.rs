//! Planner of the KubeVirt operator: desired state of an installation from the install strategy of a
//! release, preflight checks, and the next writes of a rollout or removal.

pub mod action;
pub mod admission;
mod caches;
mod canary;
pub mod cause;
pub mod certificates;
pub mod compare;
pub mod customize;
pub mod desired;
mod events;
pub mod gates;
pub mod job;
pub mod object;
pub mod observed;
pub mod placement;
pub mod preflight;
pub mod preview;
mod progress;
mod ready;
#[cfg(test)]
#[path = "../tests/releases/lib.rs"]
pub(crate) mod releases;
mod removal;
mod rollback;
mod rollout;
pub mod simulation;
pub mod stages;
mod status;
pub mod strategy;
mod synchronization;
pub mod target;
mod tree;

pub use action::{Action, Existing, Plan, Step, Wait};
pub use caches::PlanCaches;
pub use desired::{Desired, DesiredError, Facts, Handlers, OmissionReason, OmittedObject, desired};
pub use object::{Fingerprint, Id, Live, Object, Unnamed};
pub use observed::Observed;
pub use rollout::{is_update, plan};
pub use stages::Stage;
pub use strategy::{Strategy, StrategyError};
pub use target::{Operator, Target, TargetError, target};
