//! Shape of a type: how its values merge.
//!
//! For every map it says whether the map is atomic or merges by field; for every list whether it is
//! atomic, a set, or a map keyed by fields of its items. A shape is built once from the OpenAPI
//! schema of a kind, and is cheap to clone.

mod empty;
mod object_meta;
mod openapi;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

#[derive(Clone, Debug)]
pub struct Shape {
    types: Arc<[Atom]>,
    root: TypeRef,
    /// Whether objects are structures with fields that are never absent, as in built-in kinds.
    structured: bool,
}

impl Shape {
    /// Shape without a schema: maps merge by field, lists are atomic.
    pub fn deduced() -> Self {
        Self {
            types: common_types().into(),
            root: DEDUCED,
            structured: false,
        }
    }

    /// The shape of a custom resource, from the schema of its version. See [`Shape::built_in`] for
    /// `resolve`, which such schemas seldom need.
    ///
    /// `apiVersion`, `kind` and `metadata` need not be described; `metadata` has the shape that all
    /// objects share, whatever a schema without a `$ref` says about it.
    pub fn from_openapi(schema: &Value, resolve: impl Fn(&str) -> Option<Value>) -> Self {
        let (types, root) = openapi::read(schema, &resolve);
        Self {
            types: types.into(),
            root,
            structured: false,
        }
    }

    /// The shape of a built-in kind, from its OpenAPI v3 schema. `resolve` is given the text of a
    /// `$ref` (`#/components/schemas/NAME`) and returns that schema; types may be recursive.
    ///
    /// Unlike custom resources, objects of built-in kinds are structures on the server, some of
    /// whose fields exist even in an empty object. This shows in who owns them: see
    /// [`Shape::empty_object`].
    pub fn built_in(schema: &Value, resolve: impl Fn(&str) -> Option<Value>) -> Self {
        Self {
            structured: true,
            ..Self::from_openapi(schema, resolve)
        }
    }

    pub(crate) fn is_built_in(&self) -> bool {
        self.structured
    }

    pub(crate) fn root(&self) -> Type<'_> {
        Type {
            types: &self.types,
            reference: self.root,
        }
    }
}

/// Kinds of values that a type accepts: none if nothing is set, all if everything is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Atom {
    scalar: Option<Scalar>,
    list: Option<List>,
    map: Option<Map>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scalar {
    Numeric,
    String,
    Boolean,
    Any,
}

#[derive(Clone, Debug)]
pub(crate) struct List {
    element: TypeRef,
    atomic: bool,
    /// Names of the key fields of items; none in a set.
    keys: Vec<String>,
}

#[derive(Clone, Debug)]
pub(crate) struct Map {
    fields: BTreeMap<String, Field>,
    /// Type of undeclared fields; `None` if there may be none.
    element: Option<TypeRef>,
    atomic: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Field {
    reference: TypeRef,
    default: Option<Value>,
    required: bool,
    patch: PatchMeta,
}

/// How a strategic merge patch treats a field.
#[derive(Clone, Debug, Default)]
pub(crate) struct PatchMeta {
    pub(crate) strategies: Vec<String>,
    pub(crate) merge_key: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TypeRef {
    index: usize,
    /// Whether this use of the type is atomic; overrides its definition.
    atomic: Option<bool>,
}

impl TypeRef {
    const fn to(index: usize) -> Self {
        Self {
            index,
            atomic: None,
        }
    }
}

/// Any value, atomic.
const UNTYPED: TypeRef = TypeRef::to(0);
/// Any value; maps merge by field.
const DEDUCED: TypeRef = TypeRef::to(1);

/// [`UNTYPED`] and [`DEDUCED`], at their indexes.
fn common_types() -> Vec<Atom> {
    [(UNTYPED, true), (DEDUCED, false)]
        .into_iter()
        .map(|(element, atomic)| Atom {
            scalar: Some(Scalar::Any),
            list: Some(List {
                element: UNTYPED,
                atomic: true,
                keys: Vec::new(),
            }),
            map: Some(Map {
                fields: BTreeMap::new(),
                element: Some(element),
                atomic,
            }),
        })
        .collect()
}

/// A type within its shape.
#[derive(Clone, Copy)]
pub(crate) struct Type<'a> {
    types: &'a [Atom],
    reference: TypeRef,
}

/// The kinds of values that a type accepts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Forms {
    map: bool,
    scalar: bool,
    list: bool,
}

/// The form in which a type's values are processed.
pub(crate) enum Form<'a> {
    Map(MapType<'a>),
    Scalar(Scalar),
    List(ListType<'a>),
    /// The type accepts nothing.
    None,
}

#[derive(Clone, Copy)]
pub(crate) struct MapType<'a> {
    types: &'a [Atom],
    map: &'a Map,
    pub(crate) atomic: bool,
}

#[derive(Clone, Copy)]
pub(crate) struct ListType<'a> {
    types: &'a [Atom],
    list: &'a List,
    pub(crate) atomic: bool,
}

impl<'a> Type<'a> {
    fn atom(self) -> Option<&'a Atom> {
        self.types.get(self.reference.index)
    }

    pub(crate) fn map(self) -> Option<MapType<'a>> {
        let map = self.atom()?.map.as_ref()?;
        Some(MapType {
            types: self.types,
            map,
            atomic: self.reference.atomic.unwrap_or(map.atomic),
        })
    }

    pub(crate) fn list(self) -> Option<ListType<'a>> {
        let atom = self.atom()?;
        let list = atom.list.as_ref()?;
        let overridden = if atom.map.is_none() {
            self.reference.atomic
        } else {
            None
        };
        Some(ListType {
            types: self.types,
            list,
            atomic: overridden.unwrap_or(list.atomic),
        })
    }

    /// Accepted forms, narrowed to that of the value if the type accepts it.
    pub(crate) fn forms(self, value: Option<&Value>) -> Forms {
        let atom = self.atom();
        let forms = Forms {
            map: atom.is_some_and(|atom| atom.map.is_some()),
            scalar: atom.is_some_and(|atom| atom.scalar.is_some()),
            list: atom.is_some_and(|atom| atom.list.is_some()),
        };
        let none = Forms {
            map: false,
            scalar: false,
            list: false,
        };
        match value {
            Some(Value::Number(_) | Value::String(_) | Value::Bool(_)) if forms.scalar => Forms {
                scalar: true,
                ..none
            },
            Some(Value::Array(_)) if forms.list => Forms { list: true, ..none },
            Some(Value::Object(_)) if forms.map => Forms { map: true, ..none },
            _ => forms,
        }
    }

    /// The form of values, given the accepted forms.
    pub(crate) fn form(self, forms: Forms) -> Form<'a> {
        if let Some(map) = self.map().filter(|_| forms.map) {
            return Form::Map(map);
        }
        if let Some(scalar) = self
            .atom()
            .and_then(|atom| atom.scalar)
            .filter(|_| forms.scalar)
        {
            return Form::Scalar(scalar);
        }
        self.list()
            .filter(|_| forms.list)
            .map_or(Form::None, Form::List)
    }

    /// The form of this value.
    pub(crate) fn form_of(self, value: Option<&Value>) -> Form<'a> {
        self.form(self.forms(value))
    }
}

impl<'a> MapType<'a> {
    /// Whether the schema names the field.
    pub(crate) fn declares(self, name: &str) -> bool {
        self.map.fields.contains_key(name)
    }

    /// Type of a field; `None` if there may be no such field.
    pub(crate) fn field(self, name: &str) -> Option<Type<'a>> {
        let reference = self
            .map
            .fields
            .get(name)
            .map(|field| field.reference)
            .or(self.map.element)?;
        Some(Type {
            types: self.types,
            reference,
        })
    }

    /// The type of a field; a field that is not allowed has type any.
    pub(crate) fn field_or_any(self, name: &str) -> Type<'a> {
        self.field(name).unwrap_or(Type {
            types: self.types,
            reference: DEDUCED,
        })
    }

    /// How a strategic merge patch treats a declared field.
    pub(crate) fn patch_meta(self, name: &str) -> Option<&'a PatchMeta> {
        self.map.fields.get(name).map(|field| &field.patch)
    }

    /// Whether nothing is declared and every field is accepted.
    pub(crate) fn is_free_form(self) -> bool {
        self.map.fields.is_empty()
            && self
                .map
                .element
                .is_some_and(|element| element.index == DEDUCED.index)
    }
}

impl<'a> ListType<'a> {
    pub(crate) fn element(self) -> Type<'a> {
        Type {
            types: self.types,
            reference: self.list.element,
        }
    }

    pub(crate) fn keys(self) -> &'a [String] {
        &self.list.keys
    }

    /// Default of a key field.
    pub(crate) fn key_default(self, name: &str) -> Option<&'a Value> {
        self.element().map()?.map.fields.get(name)?.default.as_ref()
    }
}

#[cfg(test)]
mod tests;
