//! Bound on the number of JSON values, checked without decoding them.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// Whether a value contains at most this many values and is not nested too deeply to be decoded. Needs
/// no memory beyond the longest string.
pub(super) fn are_at_most(max: usize, value: &RawValue) -> bool {
    let mut left = max;
    let mut json = serde_json::Deserializer::from_str(value.get());
    Count(&mut left).deserialize(&mut json).is_ok()
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

impl<'de> DeserializeSeed<'de> for Count<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Count<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_unit<E: Error>(mut self) -> Result<(), E> {
        self.one()
    }

    fn visit_bool<E: Error>(mut self, _: bool) -> Result<(), E> {
        self.one()
    }

    fn visit_i64<E: Error>(mut self, _: i64) -> Result<(), E> {
        self.one()
    }

    fn visit_u64<E: Error>(mut self, _: u64) -> Result<(), E> {
        self.one()
    }

    fn visit_f64<E: Error>(mut self, _: f64) -> Result<(), E> {
        self.one()
    }

    fn visit_str<E: Error>(mut self, _: &str) -> Result<(), E> {
        self.one()
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut values: A) -> Result<(), A::Error> {
        self.one()?;
        while values.next_element_seed(Count(self.0))?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut values: A) -> Result<(), A::Error> {
        self.one()?;
        while values.next_key::<IgnoredAny>()?.is_some() {
            values.next_value_seed(Count(self.0))?;
        }
        Ok(())
    }
}
