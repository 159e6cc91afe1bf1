//! Bounds of sizes and costs.

/// Least and most; the highest number stands for everything above it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) min: u64,
    pub(crate) max: u64,
}

impl Range {
    pub(super) const ZERO: Self = Self::fixed(0);
    pub(super) const UNKNOWN: Self = Self::new(0, u64::MAX);
    /// Start of a union of ranges.
    pub(super) const NONE: Self = Self::new(u64::MAX, 0);

    pub(super) const fn new(min: u64, max: u64) -> Self {
        Self { min, max }
    }

    pub(super) const fn fixed(value: u64) -> Self {
        Self::new(value, value)
    }

    pub(super) fn add(self, other: Self) -> Self {
        Self::new(
            self.min.saturating_add(other.min),
            self.max.saturating_add(other.max),
        )
    }

    pub(super) fn multiply(self, other: Self) -> Self {
        Self::new(
            self.min.saturating_mul(other.min),
            self.max.saturating_mul(other.max),
        )
    }

    /// Multiplied by a factor and rounded up.
    pub(super) fn times(self, factor: f64) -> Self {
        Self::new(times(self.min, factor), times(self.max, factor))
    }

    pub(super) fn union(self, other: Self) -> Self {
        Self::new(self.min.min(other.min), self.max.max(other.max))
    }
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "as the server computes it; a conversion keeps within the range"
)]
pub(super) fn times(value: u64, factor: f64) -> u64 {
    let product = value as f64;
    if product > 0.0 && factor > 0.0 && product > u64::MAX as f64 / factor {
        return u64::MAX;
    }
    (product * factor).ceil() as u64
}
