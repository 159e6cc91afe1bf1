//! Bound on the number of JSON values, checked without decoding them.

use decode::walk::{Walk, Walker};
use serde::de::{DeserializeSeed as _, Error, IgnoredAny, MapAccess, SeqAccess};
use serde_json::value::RawValue;

/// Whether a value contains at most this many values and is not nested too deeply to be decoded. Needs
/// no memory beyond the longest string.
pub(super) fn are_at_most(max: usize, value: &RawValue) -> bool {
    let mut left = max;
    let mut json = serde_json::Deserializer::from_str(value.get());
    Walker(Count(&mut left)).deserialize(&mut json).is_ok()
}

/// Counts down and fails below zero.
struct Count<'a>(&'a mut usize);

impl Count<'_> {
    fn one<E: Error>(&mut self) -> Result<(), E> {
        let left = self.0.checked_sub(1);
        *self.0 = left.ok_or_else(|| E::custom("too many values"))?;
        Ok(())
    }
}

impl Walk for Count<'_> {
    fn visit_scalar<E: Error>(mut self) -> Result<(), E> {
        self.one()
    }

    fn visit_list<'de, A: SeqAccess<'de>>(mut self, mut values: A) -> Result<(), A::Error> {
        self.one()?;
        while values.next_element_seed(Walker(Count(self.0)))?.is_some() {}
        Ok(())
    }

    fn visit_map<'de, A: MapAccess<'de>>(mut self, mut values: A) -> Result<(), A::Error> {
        self.one()?;
        while values.next_key::<IgnoredAny>()?.is_some() {
            values.next_value_seed(Walker(Count(self.0)))?;
        }
        Ok(())
    }
}
