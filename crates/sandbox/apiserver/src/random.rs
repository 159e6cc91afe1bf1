//! Seeded source of UIDs and generated names.

use std::sync::atomic::{AtomicU64, Ordering};

use apimachinery::random::{GAMMA, mix};

#[derive(Debug)]
pub struct Random {
    state: AtomicU64,
}

/// Alphabet of generated names, as in apimachinery: no vowels and no lookalikes.
const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

impl Random {
    pub fn seeded(seed: u64) -> Self {
        Self {
            state: AtomicU64::new(seed),
        }
    }

    pub fn next(&self) -> u64 {
        let state = self.state.fetch_add(GAMMA, Ordering::Relaxed);
        mix(state.wrapping_add(GAMMA))
    }

    /// Random UUID.
    pub fn uid(&self) -> String {
        let high = (self.next() & 0xffff_ffff_ffff_0fff) | 0x4000;
        let low = (self.next() & 0x3fff_ffff_ffff_ffff) | 0x8000_0000_0000_0000;
        format!(
            "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            high >> 32,
            (high >> 16) & 0xffff,
            high & 0xffff,
            low >> 48,
            low & 0xffff_ffff_ffff
        )
    }

    /// Suffix of a generated name.
    pub fn suffix(&self) -> String {
        let mut bits = self.next();
        (0..5)
            .map(|_| {
                let count = LETTERS.len() as u64;
                let index = usize::try_from(bits % count).unwrap_or_default();
                bits /= count;
                char::from(LETTERS[index])
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_gives_one_sequence_of_well_formed_uids() {
        let (one, other) = (Random::seeded(7), Random::seeded(7));
        for _ in 0..100 {
            let uid = one.uid();
            assert_eq!(uid, other.uid());
            assert_eq!(uid.len(), 36, "{uid}");
            assert_eq!(&uid[14..15], "4");
            assert!("89ab".contains(&uid[19..20]), "{uid}");
        }
        assert_ne!(one.uid(), one.uid());
    }

    #[test]
    fn generated_names_end_in_five_letters_of_the_alphabet() {
        let suffix = Random::seeded(1).suffix();
        assert_eq!(suffix.len(), 5);
        assert!(suffix.bytes().all(|letter| LETTERS.contains(&letter)));
    }
}
