//! Deserializer that decodes null as the zero value.

use std::fmt;

use serde::{
    Deserializer,
    de::{
        DeserializeSeed, EnumAccess, IntoDeserializer as _, MapAccess, SeqAccess, Visitor,
        value::{MapDeserializer, SeqDeserializer, StrDeserializer},
    },
};

/// A deserializer that decodes null as the zero value of the requested type.
pub struct Lenient<D>(pub D);

/// The requested type.
#[derive(Clone, Copy)]
enum Shape {
    Bool,
    Signed,
    Unsigned,
    Float,
    Text,
    List,
    Map,
    Struct(&'static str, &'static [&'static str]),
    Enum(&'static str, &'static [&'static str]),
}

/// Name of serde_json's raw text. Its visitor accepts only serde_json's own deserializer.
const RAW: &str = "$serde_json::private";

macro_rules! shaped {
    ($($method:ident => $shape:expr,)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
            self.shaped($shape, visitor)
        }
    )*};
}

macro_rules! passed_on {
    ($($method:ident($($name:ident: $type:ty),*);)*) => {$(
        fn $method<V: Visitor<'de>>(self, $($name: $type,)* visitor: V) -> Result<V::Value, D::Error> {
            self.0.$method($($name,)* Inner(visitor))
        }
    )*};
}

impl<'de, D: Deserializer<'de>> Lenient<D> {
    fn shaped<V: Visitor<'de>>(self, shape: Shape, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_option(OrZero { shape, visitor })
    }
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Lenient<D> {
    type Error = D::Error;

    shaped! {
        deserialize_bool => Shape::Bool,
        deserialize_i8 => Shape::Signed,
        deserialize_i16 => Shape::Signed,
        deserialize_i32 => Shape::Signed,
        deserialize_i64 => Shape::Signed,
        deserialize_u8 => Shape::Unsigned,
        deserialize_u16 => Shape::Unsigned,
        deserialize_u32 => Shape::Unsigned,
        deserialize_u64 => Shape::Unsigned,
        deserialize_f32 => Shape::Float,
        deserialize_f64 => Shape::Float,
        deserialize_str => Shape::Text,
        deserialize_string => Shape::Text,
        deserialize_seq => Shape::List,
        deserialize_map => Shape::Map,
    }

    passed_on! {
        deserialize_any();
        deserialize_i128();
        deserialize_u128();
        deserialize_char();
        deserialize_bytes();
        deserialize_byte_buf();
        deserialize_option();
        deserialize_unit();
        deserialize_identifier();
        deserialize_ignored_any();
        deserialize_unit_struct(name: &'static str);
        deserialize_tuple(len: usize);
        deserialize_tuple_struct(name: &'static str, len: usize);
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        if name.starts_with(RAW) {
            return self.0.deserialize_newtype_struct(name, visitor);
        }
        self.0.deserialize_newtype_struct(name, Inner(visitor))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.shaped(Shape::Struct(name, fields), visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.shaped(Shape::Enum(name, variants), visitor)
    }

    fn is_human_readable(&self) -> bool {
        self.0.is_human_readable()
    }
}

/// Visitor that receives the zero value of a shape for null, and anything else unchanged.
struct OrZero<V> {
    shape: Shape,
    visitor: V,
}

impl<'de, V: Visitor<'de>> Visitor<'de> for OrZero<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.visitor.expecting(f)
    }

    fn visit_none<E: serde::de::Error>(self) -> Result<V::Value, E> {
        let visitor = self.visitor;
        match self.shape {
            Shape::Bool => visitor.visit_bool(false),
            Shape::Signed => visitor.visit_i64(0),
            Shape::Unsigned => visitor.visit_u64(0),
            Shape::Float => visitor.visit_f64(0.0),
            Shape::Text => visitor.visit_str(""),
            Shape::List => visitor.visit_seq(SeqDeserializer::new(std::iter::empty::<
                StrDeserializer<'_, E>,
            >())),
            Shape::Map | Shape::Struct(..) => visitor.visit_map(MapDeserializer::new(
                std::iter::empty::<(StrDeserializer<'_, E>, StrDeserializer<'_, E>)>(),
            )),
            Shape::Enum(..) => {
                let nothing: StrDeserializer<'_, E> = "".into_deserializer();
                visitor.visit_enum(nothing)
            }
        }
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<V::Value, E> {
        self.visit_none()
    }

    fn visit_some<D: Deserializer<'de>>(self, some: D) -> Result<V::Value, D::Error> {
        let visitor = Inner(self.visitor);
        match self.shape {
            Shape::Bool => some.deserialize_bool(visitor),
            Shape::Signed => some.deserialize_i64(visitor),
            Shape::Unsigned => some.deserialize_u64(visitor),
            Shape::Float => some.deserialize_f64(visitor),
            Shape::Text => some.deserialize_str(visitor),
            Shape::List => some.deserialize_seq(visitor),
            Shape::Map => some.deserialize_map(visitor),
            Shape::Struct(name, fields) => some.deserialize_struct(name, fields, visitor),
            Shape::Enum(name, variants) => some.deserialize_enum(name, variants, visitor),
        }
    }
}

/// Visitor, access or seed whose nested values are decoded by [`Lenient`].
struct Inner<V>(V);

macro_rules! visits {
    ($($method:ident($type:ty);)*) => {$(
        fn $method<E: serde::de::Error>(self, value: $type) -> Result<V::Value, E> {
            self.0.$method(value)
        }
    )*};
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Inner<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.expecting(f)
    }

    visits! {
        visit_bool(bool);
        visit_i64(i64);
        visit_i128(i128);
        visit_u64(u64);
        visit_u128(u128);
        visit_f64(f64);
        visit_char(char);
        visit_str(&str);
        visit_borrowed_str(&'de str);
        visit_string(String);
        visit_bytes(&[u8]);
        visit_borrowed_bytes(&'de [u8]);
        visit_byte_buf(Vec<u8>);
    }

    fn visit_none<E: serde::de::Error>(self) -> Result<V::Value, E> {
        self.0.visit_none()
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<V::Value, E> {
        self.0.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, some: D) -> Result<V::Value, D::Error> {
        self.0.visit_some(Lenient(some))
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        self.0.visit_newtype_struct(Lenient(inner))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<V::Value, A::Error> {
        self.0.visit_seq(Inner(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<V::Value, A::Error> {
        self.0.visit_map(Inner(fields))
    }

    fn visit_enum<A: EnumAccess<'de>>(self, variant: A) -> Result<V::Value, A::Error> {
        self.0.visit_enum(variant)
    }
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Inner<A> {
    type Error = A::Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, A::Error> {
        self.0.next_element_seed(Inner(seed))
    }

    fn size_hint(&self) -> Option<usize> {
        self.0.size_hint()
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Inner<A> {
    type Error = A::Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, A::Error> {
        self.0.next_key_seed(seed)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        self.0.next_value_seed(Inner(seed))
    }

    fn size_hint(&self) -> Option<usize> {
        self.0.size_hint()
    }
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Inner<S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<S::Value, D::Error> {
        self.0.deserialize(Lenient(deserializer))
    }
}
