//! Traversal of a JSON document without a tree of its values.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// Treatment of one value of a document. Scalars are ignored unless a method says otherwise.
pub trait Walk: Sized {
    /// # Errors
    /// To end the traversal.
    fn visit_scalar<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    /// # Errors
    /// To end the traversal.
    fn visit_string<E: Error>(self, _: &str) -> Result<(), E> {
        self.visit_scalar()
    }

    /// Visits the items, each with a [`Walker`] as its seed.
    ///
    /// # Errors
    /// If the document is not JSON, or to end the traversal.
    fn visit_list<'de, A: SeqAccess<'de>>(self, items: A) -> Result<(), A::Error>;

    /// Visits the fields, each value with a [`Walker`] as its seed.
    ///
    /// # Errors
    /// If the document is not JSON, or to end the traversal.
    fn visit_map<'de, A: MapAccess<'de>>(self, fields: A) -> Result<(), A::Error>;
}

/// Deserializes any JSON value for a [`Walk`].
#[derive(Clone, Copy, Debug)]
pub struct Walker<W>(pub W);

impl<'de, W: Walk> DeserializeSeed<'de> for Walker<W> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, W: Walk> Visitor<'de> for Walker<W> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.0.visit_scalar()
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        self.0.visit_scalar()
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        self.0.visit_scalar()
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        self.0.visit_scalar()
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        self.0.visit_scalar()
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        self.0.visit_string(text)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<(), A::Error> {
        self.0.visit_list(items)
    }

    fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<(), A::Error> {
        self.0.visit_map(fields)
    }
}
