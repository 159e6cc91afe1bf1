//! Delays between attempts.

use std::time::Duration;

/// Delays that double with each failure in a row. Each is drawn from the upper half of its step, so
/// that those who failed together do not come back together.
#[derive(Debug)]
pub(crate) struct Delays {
    shortest: Duration,
    longest: Duration,
    random: u64,
}

impl Delays {
    /// Delays from `shortest` to `longest`, drawn from `seed`.
    pub(crate) fn new(shortest: Duration, longest: Duration, seed: u64) -> Self {
        Self {
            shortest,
            longest: longest.max(shortest),
            random: seed,
        }
    }

    /// How long to wait after this many failures in a row.
    pub(crate) fn after(&mut self, failures: u32) -> Duration {
        let factor = 1_u32.checked_shl(failures).unwrap_or(u32::MAX);
        let upper = self.shortest.saturating_mul(factor).min(self.longest);
        let lower = (upper / 2).max(self.shortest);
        let spread = upper.saturating_sub(lower).as_nanos();
        let nanos = u64::try_from(spread).unwrap_or(u64::MAX);
        lower + Duration::from_nanos(self.below(nanos))
    }

    /// A number from 0 up to `limit`, itself included (SplitMix64).
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.random;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^= bits >> 31;
        match limit.checked_add(1) {
            Some(count) => bits % count,
            None => bits,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow_to_the_longest_and_are_never_outside() {
        let (shortest, longest) = (Duration::from_secs(1), Duration::from_secs(30));
        let mut delays = Delays::new(shortest, longest, 7);
        for failures in 1..200 {
            let delay = delays.after(failures);
            assert!(delay >= shortest && delay <= longest, "{delay:?}");
            if failures > 5 {
                assert!(delay >= longest / 2, "{delay:?}");
            }
        }
    }

    #[test]
    fn seeds_differ_and_repeat() {
        let draw =
            |seed| Delays::new(Duration::from_secs(1), Duration::from_secs(30), seed).after(3);
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }
}
