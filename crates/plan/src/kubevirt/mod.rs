//! The installation of KubeVirt itself: what a release wants, what an operator adds to it, and what
//! to do next.

pub mod action;
pub mod certificates;
pub mod object;
pub mod observed;
pub mod strategy;
pub mod target;

pub use action::{Action, Over, Plan, Step, Wait};
pub use object::{Fingerprint, Id, Live, Object, Unnamed};
pub use observed::Observed;
