//! The installation of KubeVirt itself: what a release wants, what an operator adds to it, and what
//! to do next.

pub mod action;
pub mod certificates;
pub mod customize;
pub mod desired;
pub mod gates;
pub mod job;
pub mod object;
pub mod observed;
pub mod placement;
pub mod preflight;
pub mod strategy;
pub mod target;
mod tree;

pub use action::{Action, Over, Plan, Step, Wait};
pub use desired::{Desired, DesiredError, Facts, Handlers, LeftOut, Why, desired};
pub use object::{Fingerprint, Id, Live, Object, Unnamed};
pub use observed::Observed;
pub use strategy::{Strategy, StrategyError};
pub use target::{Operator, Target, TargetError, target};
