//! Short hash of a text or of a value's JSON, to detect changes.

use std::{fmt, io};

use serde::Serialize;
use sha2::{Digest as _, Sha256};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint([u8; 16]);

impl Fingerprint {
    pub fn of(text: &str) -> Self {
        Self::of_hash(Sha256::new_with_prefix(text))
    }

    /// Fingerprint of the JSON of a value, without its text in memory.
    pub fn of_json(value: &impl Serialize) -> Self {
        let mut writer = HashWriter(Sha256::new());
        // Values that are sent to an API server serialize, and hashing does not fail.
        let _ = serde_json::to_writer(&mut writer, value);
        Self::of_hash(writer.0)
    }

    fn of_hash(hash: Sha256) -> Self {
        let mut bytes = [0; 16];
        for (to, from) in bytes.iter_mut().zip(hash.finalize()) {
            *to = from;
        }
        Self(bytes)
    }
}

struct HashWriter(Sha256);

impl io::Write for HashWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_fingerprint_of_a_value_is_that_of_its_json() {
        let value = json!({"a": [1, "two", null]});
        assert_eq!(
            Fingerprint::of_json(&value),
            Fingerprint::of(&value.to_string())
        );
        assert_ne!(
            Fingerprint::of_json(&value),
            Fingerprint::of_json(&json!({}))
        );
    }
}
