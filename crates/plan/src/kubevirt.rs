//! The installation of KubeVirt itself: what a release wants, what an operator adds to it, and what
//! to do next.

pub mod action;
pub mod admission;
mod canary;
pub mod cause;
pub mod certificates;
pub mod compare;
pub mod customize;
pub mod desired;
pub mod gates;
pub mod job;
pub mod object;
pub mod observed;
mod order;
pub mod placement;
pub mod preflight;
pub mod preview;
mod progress;
mod ready;
mod removal;
mod rollback;
pub mod stages;
mod status;
pub mod strategy;
mod synchronization;
pub mod target;
mod tell;
mod tree;

pub use action::{Action, Existing, Plan, Step, Wait};
pub use desired::{Desired, DesiredError, Facts, Handlers, OmissionReason, OmittedObject, desired};
pub use object::{Fingerprint, Id, Live, Object, Unnamed};
pub use observed::Observed;
pub use order::{is_update, plan};
pub use stages::Stage;
pub use strategy::{Strategy, StrategyError};
pub use target::{Operator, Target, TargetError, target};
