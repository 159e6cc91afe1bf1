//! Decoder for the JSON of a Kubernetes API server that treats null as Go does.
//!
//! A Go server writes a nil slice, map or pointer as null where a field has no `omitempty`, and clients
//! of all kinds store null in custom resources whose schema permits it. To a Go client null and absent
//! are the same. serde rejects null for everything but an `Option`.
//!
//! Guarantees: null decodes as the zero value of its type (an empty list, map, object or text, zero,
//! false), an `Option` as `None`. Everything else decodes as with `serde_json`.
//!
//! Caveats: null keeps its place in an untyped `Value`; see [`without_null`]. What serde buffers first,
//! the variants of an enum and `#[serde(flatten)]`, is decoded as serde does.

mod lenient;
#[cfg(feature = "testing")]
pub mod testing;
#[cfg(test)]
mod tests;
pub mod walk;

pub use lenient::Lenient;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Deserializer, Result, Value};

/// As [`serde_json::from_slice`], with null as the zero value.
///
/// # Errors
/// If the text is not JSON or does not match the type.
pub fn from_slice<'a, T: Deserialize<'a>>(text: &'a [u8]) -> Result<T> {
    let mut deserializer = Deserializer::from_slice(text);
    let value = T::deserialize(Lenient(&mut deserializer))?;
    deserializer.end()?;
    Ok(value)
}

/// As [`serde_json::from_str`], with null as the zero value.
///
/// # Errors
/// If the text is not JSON or does not match the type.
pub fn from_str<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T> {
    let mut deserializer = Deserializer::from_str(text);
    let value = T::deserialize(Lenient(&mut deserializer))?;
    deserializer.end()?;
    Ok(value)
}

/// As [`serde_json::from_value`], with null as the zero value.
///
/// # Errors
/// If the value does not match the type.
pub fn from_value<T: DeserializeOwned>(value: Value) -> Result<T> {
    T::deserialize(Lenient(value))
}

/// As [`from_value`], of a borrowed value.
///
/// # Errors
/// If the value does not match the type.
pub fn from_value_ref<'a, T: Deserialize<'a>>(value: &'a Value) -> Result<T> {
    T::deserialize(Lenient(value))
}

/// Removes fields that are null, at any depth. Items of a list keep their places.
pub fn without_null(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, field| !field.is_null());
            fields.values_mut().for_each(without_null);
        }
        Value::Array(items) => items.iter_mut().for_each(without_null),
        _ => {}
    }
}
