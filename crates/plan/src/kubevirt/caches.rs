//! Caches of results that are slow to compute, which a caller keeps between plans.
//!
//! A plan depends on its observed state alone: empty caches make it slower, never different.

use super::{compare::ComparisonCache, desired::DesiredCache};

#[derive(Debug, Default)]
pub struct PlanCaches {
    pub(super) comparisons: ComparisonCache,
    pub(super) desired: DesiredCache,
}
